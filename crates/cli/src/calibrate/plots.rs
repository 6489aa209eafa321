//! The figures: reliability before and after, and the risk of answers over how many are given.

use std::path::Path;

use beamgen::eval::quality::Bin;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::failure::Failure;
use crate::report::figure::{fault, figure, save};
use crate::report::style::{Legend, Look, text};

const INK: RGBColor = RGBColor(30, 30, 30);
const PALE: RGBColor = RGBColor(225, 225, 225);

/// A figure of lines over two shares.
struct Lines {
    title: &'static str,
    described: (&'static str, &'static str),
    /// The largest y.
    top: f64,
    /// Name and points; the interval of a point, if it has one.
    series: Vec<(String, Vec<Point>)>,
    /// A line to compare with.
    guide: [(f64, f64); 2],
}

type Point = (f64, f64, Option<(f64, f64)>);

/// Mean label over mean score of bins with equally many steps.
pub fn reliability(folder: &Path, series: Vec<(String, Vec<Bin>)>) -> Result<(), Failure> {
    let points = |bins: Vec<Bin>| {
        let point = |bin: Bin| (bin.score, bin.label.value, bin.label.interval);
        bins.into_iter().map(point).collect()
    };
    let figure = Lines {
        title: "Reliability on held-out problems",
        described: ("mean score of the bin", "mean label of the bin"),
        top: 1.0,
        series: series
            .into_iter()
            .map(|(name, bins)| (name, points(bins)))
            .collect(),
        guide: [(0.0, 0.0), (1.0, 1.0)],
    };
    save(folder, "reliability", &figure)
}

/// Share of wrong answers over the share of problems that are answered; `wanted` is marked.
pub fn risk(
    folder: &Path,
    series: Vec<(String, Vec<(f64, f64)>)>,
    wanted: f64,
) -> Result<(), Failure> {
    let bare = |points: Vec<(f64, f64)>| points.into_iter().map(|(x, y)| (x, y, None)).collect();
    let series: Vec<(String, Vec<Point>)> = series
        .into_iter()
        .map(|(name, points)| (name, bare(points)))
        .collect();
    let highest = series
        .iter()
        .flat_map(|(_, points)| points)
        .map(|point| point.1);
    let top = highest.fold(2.0 * wanted, f64::max).min(1.0);
    let figure = Lines {
        title: "Wrong answers among those given",
        described: ("share of problems answered", "share of wrong answers"),
        top,
        series,
        guide: [(0.0, wanted), (1.0, wanted)],
    };
    save(folder, "risk-coverage", &figure)
}

impl Lines {
    fn heading(&self) -> String {
        self.title.to_owned()
    }

    fn legend(&self) -> Legend {
        let series = self.series.iter().enumerate();
        series
            .map(|(at, (name, _))| (Some(Look::of(at + 1)), name.clone()))
            .collect()
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        plot: &DrawingArea<DB, Shift>,
        scale: u32,
    ) -> anyhow::Result<()> {
        let mut chart = ChartBuilder::on(plot)
            .caption(self.title, text(18, scale, INK))
            .margin(10 * scale)
            .x_label_area_size(42 * scale)
            .y_label_area_size(58 * scale)
            .build_cartesian_2d(0.0..1.02, 0.0..1.02 * self.top)
            .map_err(fault)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(PALE)
            .axis_style(INK)
            .x_desc(self.described.0)
            .y_desc(self.described.1)
            .x_label_formatter(&|x| format!("{x:.1}"))
            .y_label_formatter(&|y| format!("{y:.2}"))
            .label_style(text(13, scale, INK))
            .axis_desc_style(text(14, scale, INK))
            .draw()
            .map_err(fault)?;
        let guide = PathElement::new(self.guide.to_vec(), INK.stroke_width(scale));
        chart.draw_series([guide]).map_err(fault)?;
        for (at, (_, points)) in self.series.iter().enumerate() {
            let look = Look::of(at + 1);
            let place = |x: f64, y: f64| chart.backend_coord(&(x, y));
            let line: Vec<(i32, i32)> = points.iter().map(|&(x, y, _)| place(x, y)).collect();
            look.line(area, &line, scale)?;
            for &(x, y, interval) in points.iter().filter(|_| points.len() <= 20) {
                look.mark(area, place(x, y), scale)?;
                if let Some((low, high)) = interval {
                    let style = look.colour.mix(0.5).stroke_width(scale);
                    let ends = vec![place(x, low), place(x, high)];
                    area.draw(&PathElement::new(ends, style)).map_err(fault)?;
                }
            }
        }
        Ok(())
    }
}

figure!(Lines);
