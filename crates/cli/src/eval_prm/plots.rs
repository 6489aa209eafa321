//! The figures of a report, each as SVG and as PNG.

mod positions;
mod probes;
mod reliability;
mod roc;
mod scores;

use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use self::positions::Positions;
use self::probes::Probes;
use self::reliability::Reliability;
use self::roc::Roc;
use self::scores::Scores;
use super::results::SetReport;
use crate::failure::Failure;
use crate::printable;
use crate::report::figure::{Figure, fault, save};
use crate::report::style::text;
use crate::report::write::slug;

/// A figure that was drawn.
pub struct Plot {
    /// The number of its set.
    pub set: usize,
    pub title: String,
    /// Its file's name without `.svg` or `.png`.
    pub stem: String,
}

/// Draws the figures of all sets. One that has nothing to show is left out.
pub fn draw(folder: &Path, threshold: f32, sets: &[SetReport]) -> Result<Vec<Plot>, Failure> {
    let mut plots = Vec::new();
    for (number, set) in sets.iter().enumerate() {
        let mut add = |name: &str, figure: Option<&dyn Figure>| {
            let Some(figure) = figure else { return Ok(()) };
            let stem = match sets.len() {
                1 => name.to_owned(),
                _ => format!("{}-{name}", slug(&set.name)),
            };
            save(folder, &stem, figure)?;
            plots.push(Plot {
                set: number,
                title: name.to_owned(),
                stem,
            });
            Ok::<(), Failure>(())
        };
        add("reliability", Reliability::of(set).as_ref().map(as_figure))?;
        add("roc", Roc::of(set, threshold).as_ref().map(as_figure))?;
        add("scores", Scores::of(set, threshold).as_ref().map(as_figure))?;
        add("positions", Positions::of(set).as_ref().map(as_figure))?;
        let probes = set.probes.as_ref();
        let probes = probes.and_then(|probes| Probes::of(&set.name, probes, threshold));
        add("probes", probes.as_ref().map(as_figure))?;
    }
    Ok(plots)
}

fn as_figure<T: Figure>(figure: &T) -> &dyn Figure {
    figure
}

/// The heading of a figure; a set's name is a file's and may be anything.
fn heading(what: &str, set: &str) -> String {
    format!(
        "{what} ({})",
        printable::shortened(&printable::line(set), 40)
    )
}

const INK: RGBColor = RGBColor(30, 30, 30);
const PALE: RGBColor = RGBColor(225, 225, 225);

/// A chart with axes of numbers.
type Chart<'a, DB> = ChartContext<'a, DB, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// What stands at the axes.
struct Axes<'a> {
    title: String,
    x: std::ops::Range<f64>,
    y: std::ops::Range<f64>,
    x_labels: usize,
    /// Digits behind the point.
    digits: (usize, usize),
    described: (&'a str, &'a str),
}

impl Axes<'_> {
    fn draw<'a, DB: DrawingBackend>(
        self,
        area: &'a DrawingArea<DB, Shift>,
        scale: u32,
    ) -> anyhow::Result<Chart<'a, DB>> {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, text(18, scale, INK))
            .margin(10 * scale)
            .x_label_area_size(42 * scale)
            .y_label_area_size(58 * scale)
            .build_cartesian_2d(self.x, self.y)
            .map_err(fault)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(PALE)
            .axis_style(INK)
            .x_labels(self.x_labels)
            .x_desc(self.described.0)
            .y_desc(self.described.1)
            .x_label_formatter(&|x| format!("{x:.*}", self.digits.0))
            .y_label_formatter(&|y| format!("{y:.*}", self.digits.1))
            .label_style(text(13, scale, INK))
            .axis_desc_style(text(14, scale, INK))
            .draw()
            .map_err(fault)?;
        Ok(chart)
    }
}
