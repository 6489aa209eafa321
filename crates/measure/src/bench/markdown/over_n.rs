//! The section on accuracy and reward as functions of N, the number of chains.

use std::fmt::Write;

use beamgen::eval::metrics::Interval;

use crate::bench::over_n::OverN;
use crate::report::markdown::{between, decimal, points, share, table};

pub(super) fn over_n(out: &mut String, curves: &[&OverN]) {
    out.push_str(
        "\n### Accuracy and reward over N\n\nReward is the mean score of the chosen chain; a search without an answer has earned \
         none. The turning point is the N of the highest accuracy, where a larger N is less accurate (the paired interval is \
         below 0) and its reward is no lower: from there on the search finds what the reward model takes for right. The N \
         is chosen on these very problems, so the loss is a little too large.\n\n",
    );
    let rows = curves.iter().flat_map(|curve| {
        let rows = curve.points.iter().map(|point| {
            vec![
                curve.run.clone(),
                point.n.to_string(),
                shown(point.accuracy, share),
                shown(point.gain, points),
                shown(point.reward, decimal),
            ]
        });
        rows.collect::<Vec<_>>()
    });
    let head = [
        "run",
        "N",
        "accuracy, %",
        "points above the smallest N",
        "reward",
    ];
    table(out, &head, rows);
    out.push('\n');
    for curve in curves {
        let last = curve.points.last().map_or(0, |point| point.n);
        let _ = match &curve.turning {
            None => writeln!(out, "- {}: no turning point up to N = {last}.", curve.run),
            Some(turning) => writeln!(
                out,
                "- {}: turning point at N = {}; at N = {} accuracy is {} points lower, {} to {}.",
                curve.run,
                turning.n,
                turning.lost_at,
                points(turning.lost.mean).trim_start_matches('-'),
                points(turning.lost.low),
                points(turning.lost.high),
            ),
        };
    }
}

fn shown(interval: Interval, number: fn(f64) -> String) -> String {
    between(interval.mean, (interval.low, interval.high), number)
}
