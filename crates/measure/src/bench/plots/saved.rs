//! Tokens saved by pruning, by the depth of the step, against best-of-N with as many chains.

use crate::bench::measured::Measured;
use crate::bench::outline::{Outline, is_plain};
use crate::bench::row::{Depths, Row};
use crate::report::chart::{self, Chart, Panel, at, axis, guide, series};
use crate::report::style::{Look, named, note};

/// The two sides of a search that spend tokens.
const SIDES: [&str; 2] = ["generated", "scored"];

/// Differences below this share of what the baseline spends on its dearest step are nothing to see.
const LEAST: f64 = 0.05;

/// Mean tokens a problem that a run saves in the generator and in the scorer, by depth.
type Saved = [Vec<f64>; 2];

/// The figure of one set, at the N that most runs share with the baseline, the largest of several.
/// `None` if none does, or if none differs from the baseline by as much as can be seen.
pub(super) fn saved(
    set: &str,
    outline: &Outline,
    runs: &[&str],
    cells: &[&Measured<'_>],
) -> Option<Chart> {
    let baseline_run = outline.baseline.as_deref()?;
    // What shares the baseline's samples saves nothing in the generator and is no pruning.
    let prunes = |cell: &&&Measured<'_>| {
        runs.contains(&cell.cell.run.as_str()) && !is_plain(&cell.cell.config) && cell.n() > 1
    };
    let of_n = |n: usize| {
        let pruning = cells.iter().filter(prunes);
        pruning.filter(move |cell| cell.n() == n)
    };
    let baselines = cells.iter().filter(|cell| cell.cell.run == baseline_run);
    let baseline = baselines
        .filter(|cell| of_n(cell.n()).next().is_some())
        .max_by_key(|cell| (of_n(cell.n()).count(), cell.n()))?;
    let spent = spent(baseline);
    let line = |cell: &&Measured<'_>| {
        let own = self::spent(cell);
        let run = &cell.cell.run;
        let number = runs.iter().position(|other| other == run).unwrap_or(0);
        let saved = |which: usize| {
            let depths = spent[which].len().max(own[which].len());
            let of = |tokens: &[f64], depth: usize| tokens.get(depth).copied().unwrap_or(0.0);
            (0..depths)
                .map(|depth| of(&spent[which], depth) - of(&own[which], depth))
                .collect()
        };
        let name = format!("{run}@{}", baseline.n());
        (named(Look::of(number), name), [saved(0), saved(1)])
    };
    let (mut legend, mut lines): (Vec<_>, Vec<Saved>) = of_n(baseline.n()).map(line).unzip();
    let looks: Vec<Look> = legend.iter().filter_map(|entry| entry.0).collect();
    let largest = [0, 1].map(|which| spent[which].iter().copied().fold(1.0, f64::max));
    let most = |which: usize| {
        let all = lines.iter().flat_map(|line| &line[which]);
        all.fold(0.0, |most, saved| f64::max(most, saved.abs()))
    };
    let seen = [0, 1].map(|which| most(which) >= largest[which] * LEAST);
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
        // Deep steps that hardly any chain has.
        let is_seen = |saved: &f64| saved.abs() >= largest[which] * LEAST / 10.0;
        let ends = lines.iter().map(|line| {
            let last = line[which].iter().rposition(is_seen);
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

/// `largest` is what the baseline spends on its dearest step.
fn panel(lines: &[(Look, &Vec<f64>)], largest: f64, side: &str) -> Panel {
    let values = || lines.iter().flat_map(|line| line.1).copied();
    let depths = lines.iter().map(|line| line.1.len()).max().unwrap_or(1);
    let (least, most) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
    // Differences that are small in proportion to what is spent are to look small.
    let (least, most) = (least.min(-largest * 0.1), most.max(largest * 0.1));
    let room = (most - least) * 0.05;
    let end = depths as f64 + 0.5;
    let mut items = vec![guide((0.5, 0.0), (end, 0.0))];
    for (look, saved) in lines {
        let point = |(i, &saved): (usize, &f64)| (at((i + 1) as f64, saved), None);
        let points: Vec<_> = saved.iter().enumerate().map(point).collect();
        items.extend(series(*look, &points));
    }
    let x = axis(0.5..end, "step", Some(depths.min(16)), 0);
    let name = format!("{side} tokens saved a problem");
    chart::panel(x, axis(least - room..most + room, name, None, 0), items)
}

/// Mean tokens a problem at each depth that a cell samples and that its scorer reads.
fn spent(cell: &Measured<'_>) -> Saved {
    let by_depth = |of: fn(&Depths) -> &Vec<u32>| {
        let rows = || cell.rows.iter().flatten();
        let depths = rows().map(|row| of(&row.depths).len()).max().unwrap_or(0);
        let mean = |depth| {
            cell.mean(|row: &Row| {
                let tokens = of(&row.depths).get(depth);
                tokens.map_or(0.0, |&tokens| f64::from(tokens))
            })
        };
        (0..depths).map(mean).collect()
    };
    [
        by_depth(|depths| &depths.sampled),
        by_depth(|depths| &depths.scored),
    ]
}
