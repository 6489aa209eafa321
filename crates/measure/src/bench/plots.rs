//! Figures of a results folder, each as SVG and as PNG.

mod accuracy;
mod over_n;
mod saved;
mod soundness;

use std::path::Path;

use super::against::Axis;
use super::measured::{Measured, mean};
use super::outline::Outline;
use super::over_n::OverN;
use crate::Error;
use crate::report::chart::{Chart, Plot};
use crate::report::slug;

/// Draws all figures into `folder`. Returns their titles and file names for the report.
pub(super) fn draw(
    folder: &Path,
    outline: &Outline,
    measured: &[Measured<'_>],
    over_n: &[OverN],
) -> Result<Vec<Plot>, Error> {
    let groups = if outline.plots.is_empty() {
        vec![(None, outline.runs())]
    } else {
        outline
            .plots
            .iter()
            .map(|plot| {
                let runs = plot.runs.iter().map(String::as_str).collect();
                (Some(plot.name.as_str()), runs)
            })
            .collect()
    };
    let mut plots = Vec::new();
    for (set, of) in outline.sets.iter().enumerate() {
        let cells: Vec<&Measured<'_>> = measured.iter().filter(|cell| cell.set == set).collect();
        for (group, runs) in &groups {
            let place = match group {
                None => of.name.clone(),
                Some(group) => format!("{}, {group}", of.name),
            };
            let mut add = |name: &str, chart: &Chart| {
                // A part of the name is added only if it distinguishes sets or groups.
                let several = (outline.sets.len() > 1).then(|| slug(&of.name));
                let parts = [several, group.map(slug), Some(name.to_owned())];
                let stem = parts.into_iter().flatten().collect::<Vec<_>>().join("-");
                chart.save(folder, &stem)?;
                plots.push(Plot {
                    set,
                    title: chart.title.clone(),
                    stem,
                });
                Ok::<(), Error>(())
            };
            for (name, axis) in [
                ("accuracy-generated", Axis::Generated),
                ("accuracy-tokens", Axis::Tokens),
                ("accuracy-seconds", Axis::Seconds),
                ("accuracy-flops", Axis::Flops),
            ] {
                let is_known = |cell: &&Measured<'_>| mean(axis.of(cell)) > 0.0;
                // The operations of models on servers are unknown.
                if axis == Axis::Flops && !cells.iter().any(is_known) {
                    continue;
                }
                add(name, &accuracy::accuracy(&place, axis, runs, &cells))?;
            }
            if let Some(chart) = saved::saved(&place, outline, runs, &cells) {
                add("saved", &chart)?;
            }
            let curves: Vec<&OverN> = over_n.iter().filter(|curve| curve.set == of.name).collect();
            if let Some(chart) = over_n::over_n(&place, runs, &curves) {
                add("over-n", &chart)?;
            }
            if let Some(chart) = soundness::soundness(&place, runs, &cells) {
                add("sound", &chart)?;
            }
        }
    }
    Ok(plots)
}
