//! The section that compares the runs with the baseline: a line for the best cell of each run, and a table of all
//! cells.

use std::fmt::Write;

use crate::bench::against::{Answer, Axis, Bound, Fewer, Points};
use crate::bench::outline::distinct;
use crate::percent;
use crate::report::markdown::{points, table};

pub(super) fn against_baseline(out: &mut String, baseline: &str, answers: &[&Answer]) {
    let _ = writeln!(
        out,
        "\n### Against {baseline}\n\nEach run at the N where it is most accurate; all others are in the table below.\n"
    );
    for run in distinct(answers.iter().map(|answer| answer.run.as_str())) {
        let of_run = answers.iter().filter(|answer| answer.run == run);
        // `max_by` returns the last of equally accurate cells. In reverse order this is the first one, which is the
        // cheapest.
        let best = of_run
            .rev()
            .max_by(|a, b| a.accuracy.total_cmp(&b.accuracy));
        if let Some(best) = best {
            let _ = writeln!(out, "- {}", sentence(baseline, best));
        }
    }
    let _ = writeln!(
        out,
        "\n\"times\": how many times as much {baseline} spends for the same accuracy, read off its curve straight between \
         its Ns in the logarithm of the cost; below 1, {baseline} is cheaper. \"never reached\": no point of {baseline} is as \
         accurate, and even its dearest takes that much; \"reached at once\": its cheapest point is as accurate. \"at least\" \
         and \"at most\" are the end of an interval whose other end is open, because enough of the resampled sets say \
         that it is never reached, or at once. \"points\": accuracy above {baseline} at the same cost; `*`: the cost is \
         beyond its curve, whose nearest end was taken.\n"
    );
    let mut head = vec!["strategy".to_owned(), "accuracy".to_owned()];
    head.extend(Axis::ALL.map(|one| format!("times: {}", one.name())));
    head.extend(Axis::ALL.map(|one| format!("points: {}", one.name())));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    table(
        out,
        &head,
        answers.iter().map(|answer| {
            let mut row = vec![answer.name.clone(), percent(answer.accuracy)];
            row.extend(Axis::ALL.map(|axis| {
                let fewer = answer.fewer.iter().find(|fewer| fewer.axis == axis);
                fewer.map_or_else(|| "-".to_owned(), times)
            }));
            row.extend(Axis::ALL.map(|axis| {
                let points = answer.points.iter().find(|points| points.axis == axis);
                points.map_or_else(|| "-".to_owned(), gain)
            }));
            row
        }),
    );
}

fn sentence(baseline: &str, answer: &Answer) -> String {
    let mut text = format!("**{}** ({}).", answer.name, percent(answer.accuracy));
    let costs: Vec<String> = answer.fewer.iter().map(needed).collect();
    if !costs.is_empty() {
        let needs = if answer
            .fewer
            .iter()
            .all(|fewer| fewer.bound == Some(Bound::MoreThan))
        {
            "never gets there: it needs"
        } else {
            "needs"
        };
        let costs = costs.join(", ");
        let _ = write!(text, " At equal accuracy {baseline} {needs} {costs}.");
    }
    let gains: Vec<String> = answer
        .points
        .iter()
        .map(|points| format!("{} points by {}", gain(points), unit(points.axis)))
        .collect();
    if !gains.is_empty() {
        let _ = write!(text, " At equal cost: {}.", gains.join(", "));
    }
    text
}

/// Returns the object of a sentence that begins with "the baseline needs".
fn needed(fewer: &Fewer) -> String {
    // A bound is stated only if the interval has a finite end in its direction.
    let factor = match fewer.bound {
        None => times(fewer),
        Some(Bound::MoreThan) if fewer.low > 0.0 => format!("at least {}", factor(fewer.low)),
        Some(Bound::AtMost) if fewer.high.is_finite() => format!("at most {}", factor(fewer.high)),
        Some(_) => "an unknown number of".to_owned(),
    };
    format!("{factor} times the {}", unit(fewer.axis))
}

fn unit(axis: Axis) -> String {
    let counts_tokens = matches!(axis, Axis::Generated | Axis::Tokens);
    let tokens = if counts_tokens { " tokens" } else { "" };
    format!("{}{tokens}", axis.name())
}

fn times(fewer: &Fewer) -> String {
    let (low, high) = (factor(fewer.low), factor(fewer.high));
    // An end of 0 or infinity is open, because some resampled sets reach the accuracy at once or never.
    let interval = match (fewer.low > 0.0, fewer.high.is_finite()) {
        (true, true) => format!("{low} to {high}"),
        (true, false) => format!("at least {low}"),
        (false, true) => format!("at most {high}"),
        (false, false) => "no bounds".to_owned(),
    };
    let figure = match fewer.bound {
        None => factor(fewer.factor),
        Some(Bound::MoreThan) => "never reached".to_owned(),
        Some(Bound::AtMost) => "reached at once".to_owned(),
    };
    format!("{figure} ({interval})")
}

fn gain(gain: &Points) -> String {
    let end = if gain.against_end.is_some() { "*" } else { "" };
    format!(
        "{}{end} ({} to {})",
        points(gain.difference),
        points(gain.low),
        points(gain.high)
    )
}

/// Formats a finite factor with two or three significant digits below 100.
fn factor(value: f64) -> String {
    match value {
        tiny if tiny < 0.1 => format!("{tiny:.3}"),
        small if small < 10.0 => format!("{small:.2}"),
        large => format!("{large:.0}"),
    }
}
