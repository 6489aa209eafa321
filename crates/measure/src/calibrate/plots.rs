//! The figures of a calibration: the reliability diagram, and the share of wrong answers over the share of problems
//! answered.

use std::path::Path;

use beamgen::eval::quality::Bin;

use crate::Error;
use crate::report::chart::{Chart, Item, at, axis, bar, guide, panel};
use crate::report::style::{Legend, Look, named};

/// A curve: its name, and its points with intervals where these are known.
pub(super) type Curve = (String, Vec<(f64, f64, Option<(f64, f64)>)>);

/// Draws the reliability diagram: the mean label over the mean score, in bins with about equally many steps.
pub(super) fn reliability(folder: &Path, named: &[(&str, Vec<Bin>)]) -> Result<(), Error> {
    let curves = named.iter().map(|(name, bins)| {
        let points = bins.iter();
        let points = points.map(|bin| (bin.score, bin.label.value, bin.label.interval));
        ((*name).to_owned(), points.collect())
    });
    let curves: Vec<Curve> = curves.collect();
    let title = "Reliability on held-out problems";
    let names = ("mean score of the bin", "mean label of the bin");
    let diagonal = guide((0.0, 0.0), (1.0, 1.0));
    lines(title, names, 1.0, diagonal, &curves).save(folder, "reliability")
}

/// Draws the share of wrong answers over the share of problems answered, with a line at `wanted`.
pub(super) fn risk(folder: &Path, curves: &[Curve], wanted: f64) -> Result<(), Error> {
    let all = curves.iter().flat_map(|(_, points)| points);
    let top = all.map(|point| point.1).fold(2.0 * wanted, f64::max);
    let title = "Wrong answers among those given";
    let names = ("share of problems answered", "share of wrong answers");
    let limit = guide((0.0, wanted), (1.0, wanted));
    lines(title, names, top.min(1.0), limit, curves).save(folder, "risk-coverage")
}

fn lines(title: &str, names: (&str, &str), top: f64, guide: Item, curves: &[Curve]) -> Chart {
    let (mut legend, mut items) = (Legend::new(), vec![guide]);
    for (look, (name, points)) in (1..).map(Look::of).zip(curves) {
        legend.push(named(look, name.clone()));
        items.push(Item::Line(
            look,
            points.iter().map(|of| at(of.0, of.1)).collect(),
        ));
        // Markers on a long curve would merge into a thick line.
        for &(x, y, interval) in points.iter().filter(|_| points.len() <= 20) {
            items.push(Item::Mark(look, at(x, y)));
            items.extend(interval.map(|ends| bar(look, at(x, y), ends)));
        }
    }
    // The axes end beyond 1, so that markers at the edge are not cut.
    let x = axis(0.0..1.02, names.0, None, 1);
    let y = axis(0.0..1.02 * top, names.1, None, 2);
    Chart::one(title.to_owned(), legend, panel(x, y, items))
}
