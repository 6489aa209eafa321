//! Figures of a results folder, each as SVG and as PNG.

mod accuracy;
mod labels;
mod over_n;
mod saved;

use std::path::Path;

use self::accuracy::Accuracy;
use self::over_n::OverN;
use self::saved::Saved;
use super::against::Axis;
use super::measured::Measured;
use super::outline::{Outline, PlotOutline};
use super::over_n::OverN as Curve;
use crate::failure::Failure;
use crate::report::figure::{Figure, save};
use crate::report::write::slug;

/// A figure that was drawn.
pub struct Plot {
    pub set: String,
    pub title: String,
    /// Its file's name without `.svg` or `.png`.
    pub stem: String,
}

/// Draws all figures.
pub fn draw<'a>(
    folder: &Path,
    outline: &'a Outline,
    measured: &[Measured<'_>],
    over_n: &[Curve],
) -> Result<Vec<Plot>, Failure> {
    let groups = match outline.plots.is_empty() {
        true => vec![(None, outline.runs())],
        false => {
            let group = |plot: &'a PlotOutline| {
                let runs = plot.runs.iter().map(String::as_str).collect();
                (Some(plot.name.as_str()), runs)
            };
            outline.plots.iter().map(group).collect()
        }
    };
    let mut plots = Vec::new();
    for (set, of) in outline.sets.iter().enumerate() {
        let cells: Vec<&Measured<'_>> = measured.iter().filter(|cell| cell.set == set).collect();
        for (group, runs) in &groups {
            let place = match group {
                None => of.name.clone(),
                Some(group) => format!("{}, {group}", of.name),
            };
            let mut add = |name: &str, figure: &dyn Figure| {
                let set = (outline.sets.len() > 1).then(|| slug(&of.name));
                let parts = [set, group.map(slug), Some(name.to_owned())];
                let stem = parts.into_iter().flatten().collect::<Vec<_>>().join("-");
                save(folder, &stem, figure)?;
                plots.push(Plot {
                    set: of.name.clone(),
                    title: figure.title(),
                    stem,
                });
                Ok::<(), Failure>(())
            };
            for (name, axis) in [
                ("accuracy-generated", Axis::Generated),
                ("accuracy-tokens", Axis::Tokens),
                ("accuracy-seconds", Axis::Seconds),
            ] {
                add(name, &Accuracy::new(&place, axis, runs, &cells))?;
            }
            if let Some(figure) = Saved::new(&place, outline, runs, &cells) {
                add("saved", &figure)?;
            }
            let curves: Vec<&Curve> = over_n.iter().filter(|curve| curve.set == of.name).collect();
            if let Some(figure) = OverN::new(&place, runs, &curves) {
                add("over-n", &figure)?;
            }
        }
    }
    Ok(plots)
}
