//! The figures of a report, each as SVG and as PNG.

mod probes;

use std::path::Path;

use beamgen::eval::quality::{Bin, Figure, Measure, RocPoint};

use super::results::{Group, Scorer, SetReport};
use crate::report::chart::{
    At, Chart, HPos, Item, Plot, VPos, at, axis, bar, guide, panel, series,
};
use crate::report::slug;
use crate::report::style::{Legend, Look, named, note};
use crate::{Error, grouped, printable};

/// Draws the figures of all sets, except those without data. Returns their titles and file names.
pub(super) fn draw(folder: &Path, threshold: f32, sets: &[SetReport]) -> Result<Vec<Plot>, Error> {
    let mut plots = Vec::new();
    for (number, set) in sets.iter().enumerate() {
        let charts = [
            ("reliability", reliability(set)),
            ("roc", roc(set, threshold)),
            ("scores", scores(set, threshold)),
            ("positions", positions(set)),
            ("probes", probes::probes(set, threshold)),
        ];
        for (name, chart) in charts {
            let Some(chart) = chart else { continue };
            // A prefix distinguishes sets, so a single set has none.
            let stem = match sets.len() {
                1 => name.to_owned(),
                _ => format!("{}-{name}", slug(&set.name)),
            };
            chart.save(folder, &stem)?;
            plots.push(Plot {
                set: number,
                title: name.to_owned(),
                stem,
            });
        }
    }
    Ok(plots)
}

/// Returns the heading of a figure. The set's name is from a file name, so it is escaped and shortened.
fn heading(what: &str, set: &SetReport) -> String {
    let name = printable::line(&set.name);
    format!("{what} ({})", printable::shortened(&name, 40))
}

fn counted(count: usize, of: &str) -> String {
    format!("{} {of}", grouped(count as u64))
}

/// Makes the reliability diagram, or returns `None` if no step has a label.
fn reliability(set: &SetReport) -> Option<Chart> {
    let of = &set.calibration;
    let mut all: Vec<(&str, &[Bin])> = vec![
        ("bins of equal mass", &of.equal_mass),
        ("bins of equal width", &of.equal_width),
    ];
    let figures = &set.model.figures;
    let mut errors = vec![
        ("equal mass", figures.get(Measure::EceMass)),
        ("equal width", figures.get(Measure::EceWidth)),
    ];
    let mut notes: Legend = ["bars: 95 %", "numbers: steps in the bin"].map(note).into();
    notes.extend(errors.iter().filter_map(error_note));
    notes.push(note(counted(set.counts.steps, "steps")));
    notes.push(note(counted(set.counts.problems, "problems")));
    if let Some(calibrated) = &set.calibrated {
        all.push(("calibrated, equal mass", &calibrated.equal_mass));
        errors = vec![("calibrated", calibrated.model.figures.get(Measure::EceMass))];
        notes.extend(errors.iter().filter_map(error_note));
    }
    let entries = all.iter().enumerate();
    let entries = entries.map(|(number, of)| named(Look::points(number + 1), of.0));
    let mut legend: Legend = entries.collect();
    legend.append(&mut notes);
    let mut items = vec![guide((0.0, 0.0), (1.0, 1.0))];
    // Bins of equal mass are more reliable, so they are drawn last, over the others.
    for (number, (_, bins)) in all.iter().enumerate().rev() {
        let look = Look::points(number + 1);
        items.extend(
            bins.iter()
                .filter_map(|bin| Some(bar(look, bin_place(bin), bin.label.interval?))),
        );
        for bin in *bins {
            items.push(Item::Mark(look, bin_place(bin)));
            if number == 1 {
                // Next to the bar, where there is room.
                let (away, side) = if bin.score < 0.9 {
                    (9, HPos::Left)
                } else {
                    (-9, HPos::Right)
                };
                let (place, steps) = (bin_place(bin).moved(away, 0), grouped(bin.steps as u64));
                items.push(Item::Text(
                    place,
                    steps,
                    12,
                    look.colour,
                    (side, VPos::Center),
                ));
            }
        }
    }
    let x = axis(-0.02..1.02, "mean score of the bin", Some(11), 1);
    let y = axis(-0.02..1.02, "mean label of its steps", None, 1);
    let heading = heading("Reliability", set);
    (!of.equal_mass.is_empty()).then(|| Chart::one(heading, legend, panel(x, y, items)))
}

fn bin_place(bin: &Bin) -> At {
    at(bin.score, bin.label.value)
}

fn roc_place(point: &RocPoint) -> At {
    at(point.false_alarms * 100.0, point.found * 100.0)
}

fn error_note(&(name, figure): &(&str, Option<Figure>)) -> Option<(Option<Look>, String)> {
    figure.map(|figure| note(format!("ECE, {name}: {:.3}", figure.value)))
}

/// The approximate number of points above which a curve is thinned.
const MOST_POINTS: usize = 500;

/// Makes the ROC curves of the model and the baselines, or returns `None` if all steps are right or all are wrong.
fn roc(set: &SetReport, threshold: f32) -> Option<Chart> {
    // The prior has the same score for all steps, so its curve is the diagonal that is drawn anyway.
    let baselines = set.baselines.iter().filter(|scorer| scorer.name != "prior");
    let scorers: Vec<&Scorer> = std::iter::once(&set.model).chain(baselines).collect();
    let mut legend = Legend::new();
    for (scorer, look) in scorers.iter().zip((1..).map(Look::of)) {
        // The area is not defined if all steps are right or all are wrong; there is no figure then.
        let area = scorer.figures.get(Measure::Auc)?.value;
        legend.push(named(look, format!("{}: {area:.3}", scorer.name)));
    }
    legend.extend(["numbers: area", "diagonal: chance"].map(note));
    legend.push(note(counted(set.counts.right, "right steps")));
    legend.push(note(counted(set.counts.wrong, "wrong steps")));
    let mut items = vec![guide((0.0, 0.0), (100.0, 100.0))];
    for (number, scorer) in scorers.iter().enumerate().rev() {
        let look = Look::of(number + 1);
        let places: Vec<_> = thinned(&scorer.roc).iter().map(roc_place).collect();
        // A baseline has few thresholds; a model has as many as steps.
        let marked = places.iter().filter(|_| number > 0);
        let marks: Vec<Item> = marked.map(|&place| Item::Mark(look, place)).collect();
        items.push(Item::Line(look, places));
        items.extend(marks);
    }
    if let Some(flagged) = &set.model.flagged {
        legend.push(note(format!("mark: below {threshold}")));
        items.push(Item::Mark(Look::of(1), roc_place(flagged)));
    }
    let x = axis(-2.0..102.0, "right steps flagged, %", Some(11), 0);
    let y = axis(-2.0..102.0, "wrong steps flagged, %", None, 0);
    let heading = heading("Wrong steps found over false alarms", set);
    Some(Chart::one(heading, legend, panel(x, y, items)))
}

/// Returns about [`MOST_POINTS`] of the points, or all of fewer. Both ends are kept.
fn thinned(points: &[RocPoint]) -> Vec<RocPoint> {
    let every = points.len().div_ceil(MOST_POINTS).max(1);
    let mut kept: Vec<RocPoint> = points.iter().copied().step_by(every).collect();
    // `step_by` may skip the end of the curve.
    if kept.last() != points.last() {
        kept.extend(points.last());
    }
    kept
}

fn threshold_note(threshold: f32) -> (Option<Look>, String) {
    note(format!("line: the threshold, {threshold}"))
}

/// Makes the histograms of the scores of right and of wrong steps; returns `None` if there are no such steps.
fn scores(set: &SetReport, threshold: f32) -> Option<Chart> {
    let classes = [
        class(set, "right steps", |bin| bin.0),
        class(set, "wrong steps", |bin| bin.1),
    ];
    let shares = classes.iter().flat_map(|class| &class.2).copied();
    // The axis ends 5 % above the highest bar. Its range is positive even without bars.
    let top = shares.fold(1.0, f64::max) * 1.05;
    let (mut legend, mut items) = (Legend::new(), Vec::new());
    for (number, (name, all, shares)) in classes.iter().enumerate() {
        let look = Look::bars(number + 1);
        legend.push(named(look, counted(*all, name)));
        let width = 1.0 / shares.len() as f64;
        items.extend(shares.iter().enumerate().map(|(bin, &share)| {
            // Two bars side by side with a little room around them.
            let left = (bin as f64 + 0.08 + 0.42 * number as f64) * width;
            Item::Block(look.colour, [at(left, 0.0), at(left + 0.42 * width, share)])
        }));
    }
    legend.push(threshold_note(threshold));
    let line = f64::from(threshold);
    items.push(guide((line, 0.0), (line, top)));
    let x = axis(0.0..1.0, "score", Some(11), 1);
    let y = axis(0.0..top, "steps of the class, %", None, 0);
    let heading = heading("Scores of right and of wrong steps", set);
    let has_steps = classes[0].1 + classes[1].1 > 0;
    has_steps.then(|| Chart::one(heading, legend, panel(x, y, items)))
}

/// Returns the histogram of a class of steps: its name, its number of steps, and the percentage of steps in each bin.
fn class(
    set: &SetReport,
    name: &'static str,
    of: fn(&(usize, usize)) -> usize,
) -> (&'static str, usize, Vec<f64>) {
    let all: usize = set.histogram.iter().map(of).sum();
    let bins = set.histogram.iter().map(of);
    let shares = bins.map(|steps| 100.0 * steps as f64 / all.max(1) as f64);
    (name, all, shares.collect())
}

/// A function that returns a value of a group, if the group has it.
type OfGroup = fn(&Group) -> Option<Figure>;

/// Makes the figure of scores over the number of the step, or returns `None` for fewer than two groups.
fn positions(set: &SetReport) -> Option<Chart> {
    let lines: [(&str, OfGroup); 4] = [
        ("share of right steps", |group| {
            let classed = group.counts.right + group.counts.wrong;
            (classed > 0).then(|| Figure {
                value: group.counts.right as f64 / classed as f64,
                interval: None,
            })
        }),
        ("score of right steps", |group| {
            group.figures.get(Measure::ScoreRight)
        }),
        ("score of wrong steps", |group| {
            group.figures.get(Measure::ScoreWrong)
        }),
        ("ROC area", |group| group.figures.get(Measure::Auc)),
    ];
    let groups = &set.by_position;
    let (mut legend, mut items) = (Legend::new(), Vec::new());
    for (number, (name, of)) in lines.into_iter().enumerate() {
        legend.push(named(Look::of(number), name));
        let points = (1..).zip(groups).filter_map(|(position, group)| {
            let figure = of(group)?;
            // Bars of one step side by side.
            let place = at(f64::from(position), figure.value).moved(6 * (number as i32 - 1), 0);
            Some((place, figure.interval))
        });
        items.extend(series(Look::of(number), &points.collect::<Vec<_>>()));
    }
    legend.push(note("bars: 95 %"));
    // The group of all late steps is the last one and the only one whose name has blanks.
    if let Some(last) = groups.iter().find(|group| group.name.contains(' ')) {
        legend.push(note(format!("last: {}", last.name)));
    }
    let count = groups.len();
    let x = axis(0.5..count as f64 + 0.5, "step", Some(count), 0);
    let y = axis(
        -0.02..1.02,
        "mean score, share of right steps, or area",
        None,
        1,
    );
    let heading = heading("Scores by the number of the step", set);
    (count > 1).then(|| Chart::one(heading, legend, panel(x, y, items)))
}
