//! Each strategy against the baseline: a line for each run, and a table of all cells.

use std::fmt::Write;

use super::{points, table};
use crate::bench::against::{Answer, Axis, Bound, Fewer, Points};
use crate::table::percent;

pub fn against_baseline(out: &mut String, baseline: &str, answers: &[&Answer]) {
    let _ = writeln!(
        out,
        "\n### Against {baseline}\n\nEach run at the N where it is most accurate; all others are in the table below.\n"
    );
    let mut runs: Vec<&str> = Vec::new();
    for answer in answers {
        if !runs.contains(&answer.run.as_str()) {
            runs.push(&answer.run);
        }
    }
    for run in runs {
        let of_run = answers.iter().filter(|answer| answer.run == run);
        // Of equals the first, which is the cheapest.
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
         its Ns in the logarithm of the cost; below 1, {baseline} is cheaper. `>`: it never gets there, and this is its \
         dearest point; `\u{2264}`: its cheapest point is as accurate; `\u{221e}` in an interval: it does not get there in \
         enough of the resampled sets. \"points\": accuracy above {baseline} at the same cost; `*`: the cost is beyond its \
         curve, whose nearest end was taken.\n"
    );
    let mut head = vec!["strategy".to_owned(), "accuracy".to_owned()];
    head.extend(Axis::ALL.map(|one| format!("times: {}", axis(one))));
    head.extend(Axis::ALL.map(|one| format!("points: {}", axis(one))));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    table(
        out,
        &head,
        answers.iter().map(|answer| {
            let mut row = vec![answer.name.clone(), percent(answer.accuracy)];
            row.extend(answer.fewer.iter().map(times));
            row.extend(answer.points.iter().map(gain));
            row
        }),
    );
}

fn axis(axis: Axis) -> &'static str {
    match axis {
        Axis::Generated => "generated",
        Axis::Tokens => "generated and scored",
        Axis::Seconds => "seconds",
    }
}

fn sentence(baseline: &str, answer: &Answer) -> String {
    let costs: Vec<String> = answer
        .fewer
        .iter()
        .map(|fewer| format!("{} times the {}", times(fewer), unit(fewer.axis)))
        .collect();
    let gains: Vec<String> = answer
        .points
        .iter()
        .map(|points| format!("{} points by {}", gain(points), unit(points.axis)))
        .collect();
    format!(
        "**{}** ({}). At equal accuracy {baseline} needs {}. At equal cost: {}.",
        answer.name,
        percent(answer.accuracy),
        costs.join(", "),
        gains.join(", ")
    )
}

fn unit(axis: Axis) -> &'static str {
    match axis {
        Axis::Generated => "generated tokens",
        Axis::Tokens => "generated and scored tokens",
        Axis::Seconds => "seconds",
    }
}

fn times(fewer: &Fewer) -> String {
    let bound = match fewer.bound {
        None => "",
        Some(Bound::AtMost) => "\u{2264} ",
        Some(Bound::MoreThan) => "> ",
    };
    format!(
        "{bound}{} ({} to {})",
        factor(fewer.factor),
        factor(fewer.low),
        factor(fewer.high)
    )
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

/// A factor with two or three digits that mean something.
fn factor(value: f64) -> String {
    match value {
        infinite if infinite.is_infinite() => "\u{221e}".to_owned(),
        small if small < 10.0 => format!("{small:.2}"),
        large => format!("{large:.0}"),
    }
}
