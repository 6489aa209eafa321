//! Figures of a pool, each as SVG and as PNG.

use std::path::Path;

use super::ranking::Ranked;
use super::report::{Curve, Report};
use crate::Error;
use crate::report::chart::{self, Chart, HPos, Item, Plot, VPos, at, axis, guide, panel, series};
use crate::report::slug;
use crate::report::style::{INK, Look, named, note};

/// Draws all figures into `folder`. Returns their titles and file names for the report.
pub(super) fn draw(folder: &Path, report: &Report) -> Result<Vec<Plot>, Error> {
    let mut plots = Vec::new();
    for (set, of) in report.outline.sets.iter().enumerate() {
        let rows = report.table.iter().filter(|row| row.set == of.name);
        let rows: Vec<&Ranked> = rows.filter(|row| row.is_main).collect();
        let curve = report.over_k.iter().find(|curve| curve.set == of.name);
        // With a single k there is a point and no curve.
        let over_k = curve.filter(|curve| curve.at.len() > 1).map(over_k);
        let charts = [
            ("over-k", over_k),
            ("over-majority", Some(over_majority(&of.name, &rows))),
        ];
        for (name, chart) in charts {
            let Some(chart) = chart else { continue };
            let stem = if report.outline.sets.len() > 1 {
                format!("{}-{name}", slug(&of.name))
            } else {
                name.to_owned()
            };
            chart.save(folder, &stem)?;
            plots.push(Plot {
                set,
                title: chart.title.clone(),
                stem,
            });
        }
    }
    Ok(plots)
}

/// Makes the figure of accuracy over k, with a line for each selector.
fn over_k(curve: &Curve) -> Chart {
    let ends = |of: fn(f64, f64) -> f64, start: f64| {
        let all = curve.at.iter().flat_map(|at| &at.accuracy);
        all.fold(start, |end, share| of(of(end, share.low), share.high))
    };
    let bottom = (100.0 * ends(f64::min, 1.0) - 3.0).max(0.0);
    let top = (100.0 * ends(f64::max, 0.0) + 2.0).min(102.0);
    let mut items = Vec::new();
    for point in &curve.at {
        let place = at(log2(point.k), bottom).moved(0, 6);
        let anchor = (HPos::Center, VPos::Top);
        items.push(Item::Text(place, point.k.to_string(), 13, INK, anchor));
    }
    let mut legend = Vec::new();
    // The bars of one k are spread around the coordinate of k.
    let middle = curve.selectors.len() as i32 / 2;
    for (number, name) in curve.selectors.iter().enumerate() {
        let look = Look::of(number);
        legend.push(named(look, name));
        let points = curve.at.iter().map(|point| {
            let share = point.accuracy[number];
            // Bars of one k side by side.
            let place =
                at(log2(point.k), 100.0 * share.share).moved(4 * (number as i32 - middle), 0);
            (place, Some((100.0 * share.low, 100.0 * share.high)))
        });
        items.extend(series(look, &points.collect::<Vec<_>>()));
    }
    legend.push(note("bars: 95 %"));
    let last = curve.at.last().map_or(1, |point| point.k);
    let x = axis(
        -0.4..log2(last) + 0.4,
        "k solutions of each problem (log)",
        Some(0),
        0,
    );
    let y = axis(bottom..top, "accuracy, %", None, 0);
    let title = format!("Accuracy over k ({})", curve.set);
    Chart::one(title, legend, panel(x, y, items))
}

/// Makes the figure of each selector's paired difference to the majority vote, among all solutions.
fn over_majority(set: &str, rows: &[&Ranked]) -> Chart {
    let ends = rows
        .iter()
        .filter_map(|row| Some((row.over_majority_low?, row.over_majority_high?)));
    let most = ends.fold(0.01_f64, |most, (low, high)| most.max(-low).max(high));
    // The axis is in percentage points, with 5 % of room at both ends.
    let most = 105.0 * most;
    let height = rows.len() as f64;
    let mut items = vec![guide((0.0, 0.0), (0.0, height))];
    let mut legend = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let look = Look::points(number);
        let place = |share: Option<f64>| {
            let y = height - number as f64 - 0.5;
            at(100.0 * share.unwrap_or(0.0), y)
        };
        let bar = [row.over_majority_low, row.over_majority_high].map(place);
        legend.push(named(look, &*row.selector));
        items.push(chart::stroke(look, 2, bar));
        items.push(Item::Mark(look, place(row.over_majority)));
    }
    legend.push(note("bars: paired 95 %"));
    let x = axis(-most..most, "points over the majority vote", None, 0);
    let y = axis(0.0..height, "", Some(0), 0);
    let title = format!("Accuracy less that of the majority vote ({set})");
    Chart::one(title, legend, panel(x, y, items))
}

fn log2(k: usize) -> f64 {
    (k.max(1) as f64).log2()
}
