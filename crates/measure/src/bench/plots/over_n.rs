//! The figure of accuracy and mean reward over N, with a panel for each run.

use beamgen::eval::metrics::Interval;

use crate::bench::over_n::{OverN, Point};
use crate::counted;
use crate::report::chart::{self, Chart, HPos, Item, Panel, Sizes, VPos, at, axis, guide, series};
use crate::report::style::{INK, Look, named, note};

/// The number of panels side by side.
const ACROSS: usize = 4;

/// The largest number of panels. More would be too small to read.
const MOST: usize = 12;

/// A function that returns the value of a line at a point of the curve.
type Of = fn(&Point) -> Interval;

const LINES: [(&str, Of); 2] = [
    ("gold accuracy, %", |point| point.accuracy),
    ("reward \u{d7} 100", |point| point.reward),
];

/// Makes the figure of a set, or returns `None` if none of these runs has a curve.
pub(super) fn over_n(set: &str, runs: &[&str], curves: &[&OverN]) -> Option<Chart> {
    let of_runs = curves.iter().filter(|of| runs.contains(&of.run.as_str()));
    let mut curves: Vec<&OverN> = of_runs.copied().collect();
    // The legend tells how many runs are left out.
    let left_out = curves.len().saturating_sub(MOST);
    curves.truncate(MOST);
    let mut legend: Vec<_> = (1..)
        .zip(LINES)
        .map(|(number, (name, _))| named(Look::of(number), name))
        .collect();
    // The note explains the vertical line, or tells that no panel has one.
    let turns = curves.iter().any(|curve| curve.turning.is_some());
    legend.push(note("bars: 95 %"));
    legend.push(note(if turns {
        "line: turning point"
    } else {
        "no turning point"
    }));
    if left_out > 0 {
        let runs = counted(left_out, "more run", "more runs");
        legend.push(note(format!("{runs} left out")));
    }
    // All panels have the same axis, so that runs can be compared. The axis starts a little below the lowest bar.
    let points = curves.iter().flat_map(|curve| &curve.points);
    let ends = points.flat_map(|point| [point.accuracy.low, point.reward.low]);
    let bottom = (100.0 * ends.fold(1.0, f64::min) - 3.0).max(0.0);
    let panels = curves.iter().map(|curve| panel(curve, bottom)).collect();
    (!curves.is_empty()).then(|| Chart {
        title: format!("Gold accuracy and reward over N ({set})"),
        legend,
        panels,
        across: curves.len().min(ACROSS),
    })
}

fn panel(curve: &OverN, bottom: f64) -> Panel {
    let ends = (curve.points.first(), curve.points.last());
    let (first, last) = ends.0.zip(ends.1).map_or((1, 1), |(a, b)| (a.n, b.n));
    let mut items = Vec::new();
    if let Some(turning) = curve.turning {
        let (n, x) = (turning.n, log2(turning.n));
        items.push(guide((x, bottom), (x, 102.0)));
        let (place, anchor) = (at(x, bottom).moved(4, -4), (HPos::Left, VPos::Bottom));
        items.push(Item::Text(place, format!("best: {n}"), 12, INK, anchor));
    }
    for point in &curve.points {
        let (place, anchor) = (
            at(log2(point.n), bottom).moved(0, 6),
            (HPos::Center, VPos::Top),
        );
        items.push(Item::Text(place, point.n.to_string(), 12, INK, anchor));
    }
    for (number, (_, of)) in LINES.into_iter().enumerate() {
        let points = curve.points.iter().map(|point| {
            let share = of(point);
            // Bars of one N side by side.
            let place = at(log2(point.n), 100.0 * share.mean).moved(4 * (2 * number as i32 - 1), 0);
            (place, Some((100.0 * share.low, 100.0 * share.high)))
        });
        items.extend(series(Look::of(number + 1), &points.collect::<Vec<_>>()));
    }
    let x = axis(log2(first) - 0.4..log2(last) + 0.4, "N (log)", Some(0), 0);
    // The axis ends above 100 %, so that bars and markers at the edge are not cut.
    let y = axis(bottom..102.0, "", Some(6), 0);
    Panel {
        caption: Some(curve.run.clone()),
        sizes: Sizes::SMALL,
        ..chart::panel(x, y, items)
    }
}

fn log2(n: usize) -> f64 {
    (n.max(1) as f64).log2()
}
