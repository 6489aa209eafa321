//! The figure of tokens that pruning saves at each depth of a step. The reference is best-of-N with the same N.

use crate::bench::measured::Measured;
use crate::bench::outline::{Outline, is_plain};
use crate::bench::row::{Depths, Row};
use crate::report::chart::{self, Chart, Panel, at, axis, guide, series};
use crate::report::style::{Look, named, note};

/// The two kinds of tokens, by the model that processes them.
const SIDES: [&str; 2] = ["generated", "scored"];

/// The smallest difference that is shown, relative to the baseline's tokens at its most expensive depth.
const LEAST: f64 = 0.05;

/// The mean tokens of a problem at each depth: generated at index 0, scored at index 1.
type Saved = [Vec<f64>; 2];

/// Makes the figure of a set for a single N: the one at which most runs can be compared with the baseline, the
/// largest of several. Returns `None` if there is no such N, or if all differences are too small to be seen.
pub(super) fn saved(
    set: &str,
    outline: &Outline,
    runs: &[&str],
    cells: &[&Measured<'_>],
) -> Option<Chart> {
    let baseline_run = outline.baseline.as_deref()?;
    // Plain sampling uses the same samples as the baseline and prunes nothing.
    let of_n = |n: usize| {
        let pruning = cells.iter().filter(|cell| {
            runs.contains(&cell.cell.run.as_str()) && !is_plain(&cell.cell.config) && cell.n() > 1
        });
        pruning.filter(move |cell| cell.n() == n)
    };
    let baselines = cells.iter().filter(|cell| cell.cell.run == baseline_run);
    let baseline = baselines
        .filter(|cell| of_n(cell.n()).next().is_some())
        // The N with the most runs wins, and the largest of several such N.
        .max_by_key(|cell| (of_n(cell.n()).count(), cell.n()))?;
    let spent = spent(baseline);
    let (mut legend, mut lines): (Vec<_>, Vec<Saved>) = of_n(baseline.n())
        .map(|cell| {
            let own = self::spent(cell);
            let run = &cell.cell.run;
            let number = runs.iter().position(|other| other == run).unwrap_or(0);
            let name = format!("{run}@{}", baseline.n());
            let saved = [0, 1].map(|which| difference(&spent[which], &own[which]));
            (named(Look::of(number), name), saved)
        })
        .unzip();
    // The looks are taken now, because notes without a look are added to the legend below.
    let looks: Vec<Look> = legend.iter().filter_map(|entry| entry.0).collect();
    // At least 1, because differences are compared with fractions of this number.
    let largest = [0, 1].map(|which| spent[which].iter().copied().fold(1.0, f64::max));
    let seen = [0, 1].map(|which| {
        let all = lines.iter().flat_map(|line| &line[which]);
        let most = all.fold(0.0, |most, saved| f64::max(most, saved.abs()));
        most >= largest[which] * LEAST
    });
    if seen == [false; 2] {
        return None;
    }
    let mut panels = Vec::new();
    for (which, side) in SIDES.iter().enumerate() {
        if !seen[which] {
            let share = LEAST * 100.0;
            legend.push(note(format!("{side}: all within {share:.0} %")));
            continue;
        }
        // Few chains reach the last depths, which would stretch the axis with values near zero.
        let ends = lines.iter().map(|line| {
            let last = line[which]
                .iter()
                .rposition(|saved| saved.abs() >= largest[which] * LEAST / 10.0);
            last.map_or(0, |last| last + 1)
        });
        let end = ends.max().unwrap_or(0).max(1);
        for line in lines.iter_mut() {
            line[which].truncate(end);
        }
        let lines = looks
            .iter()
            .copied()
            .zip(lines.iter().map(|line| &line[which]));
        panels.push(panel(&lines.collect::<Vec<_>>(), largest[which], side));
    }
    Some(Chart {
        title: format!(
            "Tokens saved by step against {} ({set})",
            baseline.cell.label()
        ),
        legend,
        across: panels.len(),
        panels,
    })
}

/// Returns `spent - own` at each depth. The shorter list continues with zeros.
fn difference(spent: &[f64], own: &[f64]) -> Vec<f64> {
    (0..spent.len().max(own.len()))
        .map(|depth| {
            let [spent, own] = [spent, own].map(|tokens| tokens.get(depth).copied());
            spent.unwrap_or(0.0) - own.unwrap_or(0.0)
        })
        .collect()
}

/// Makes the panel of one kind of tokens. `largest` is the baseline's number of tokens at its most expensive depth.
fn panel(lines: &[(Look, &Vec<f64>)], largest: f64, side: &str) -> Panel {
    let values: Vec<f64> = lines.iter().flat_map(|line| line.1).copied().collect();
    let depths = lines.iter().map(|line| line.1.len()).max().unwrap_or(1);
    let (least, most) = (
        values.iter().copied().fold(0.0, f64::min),
        values.iter().copied().fold(0.0, f64::max),
    );
    // The axis covers at least 10 % of `largest` in both directions, so that small savings look small.
    let (least, most) = (least.min(-largest * 0.1), most.max(largest * 0.1));
    let room = (most - least) * 0.05;
    // Steps are counted from 1. The axis has half a step of room at both ends.
    let end = depths as f64 + 0.5;
    let mut items = vec![guide((0.5, 0.0), (end, 0.0))];
    for (look, saved) in lines {
        let points: Vec<_> = saved
            .iter()
            .enumerate()
            .map(|(i, &saved)| (at((i + 1) as f64, saved), None))
            .collect();
        items.extend(series(*look, &points));
    }
    let x = axis(0.5..end, "step", Some(depths.min(16)), 0);
    let name = format!("{side} tokens saved a problem");
    chart::panel(x, axis(least - room..most + room, name, None, 0), items)
}

/// Returns the mean tokens of a problem at each depth: generated at index 0, scored at index 1.
fn spent(cell: &Measured<'_>) -> Saved {
    [
        by_depth(cell, |depths| &depths.sampled),
        by_depth(cell, |depths| &depths.scored),
    ]
}

fn by_depth(cell: &Measured<'_>, tokens: fn(&Depths) -> &Vec<u32>) -> Vec<f64> {
    let rows = cell.rows.iter().flatten();
    let depths = rows.map(|row| tokens(&row.depths).len()).max().unwrap_or(0);
    (0..depths)
        .map(|depth| {
            cell.mean(|row: &Row| {
                let at = tokens(&row.depths).get(depth);
                at.map_or(0.0, |&tokens| f64::from(tokens))
            })
        })
        .collect()
}
