//! The report for people: README.md of a results folder.

use std::fmt::Write;

use beamgen::eval::difficulty::{BUCKETS, HALVINGS};
use beamgen::eval::pool::SUBSETS;

use super::about::About;
use super::against::{Answer, Axis, Bound, Fewer, Points};
use super::allocation::Allocation;
use super::compare::Difference;
use super::plan::Outline;
use super::plots::Plot;
use super::pools::{PoolCurve, Share};
use super::report::Report;
use super::{HEAD, cells};
use crate::table::{grouped, percent};

/// The whole text.
pub fn text(about: &About, outline: &Outline, report: &Report, plots: &[Plot]) -> String {
    let mut out = String::new();
    head(&mut out, about, outline);
    for set in &outline.sets {
        let _ = writeln!(out, "\n## Problems: {}\n", set.name);
        let rows = report.summary.iter().filter(|row| row.set == set.name);
        table(&mut out, &HEAD, rows.map(cells));
        for plot in plots.iter().filter(|plot| plot.set == set.name) {
            let _ = writeln!(out, "\n![{}]({}.svg)", plot.title, plot.stem);
        }
        let against: Vec<&Answer> = report
            .against
            .iter()
            .filter(|one| one.set == set.name)
            .collect();
        if let (false, Some(baseline)) = (against.is_empty(), &outline.baseline) {
            against_baseline(&mut out, baseline, &against);
        }
        let pairs: Vec<&Difference> = report
            .compare
            .iter()
            .filter(|one| one.set == set.name)
            .collect();
        if !pairs.is_empty() {
            compared(&mut out, &pairs);
        }
        for curve in report.pools.iter().filter(|one| one.set == set.name) {
            pool(&mut out, curve);
        }
        for one in report.difficulty.iter().filter(|one| one.set == set.name) {
            difficulty(&mut out, one);
        }
    }
    out
}

fn head(out: &mut String, about: &About, outline: &Outline) {
    let machine = &about.machine;
    let in_flight: Vec<usize> = outline
        .cells
        .iter()
        .map(|cell| cell.config.search.in_flight)
        .collect();
    let (least, most) = (
        in_flight.iter().min().unwrap_or(&0),
        in_flight.iter().max().unwrap_or(&0),
    );
    let in_flight = if least == most {
        most.to_string()
    } else {
        format!("{least} to {most}")
    };
    let seeds = if outline.seeds == 1 {
        "1 seed".to_owned()
    } else {
        format!("{} seeds", outline.seeds)
    };
    let _ = write!(
        out,
        "# Bench of {}\n\n    {}\n\nbeamgen {}, commit {}; {} ({} CPUs, {:.0} GiB, {}, {}).\n\n",
        about.date(),
        about.command,
        about.version,
        about.commit.as_deref().unwrap_or("unknown"),
        machine.cpu,
        machine.cpus,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        machine.os,
        machine.arch,
    );
    table(
        out,
        &["problems", "count", "from"],
        outline.sets.iter().map(|set| {
            vec![
                set.name.clone(),
                set.ids.len().to_string(),
                format!("`{}`", set.source),
            ]
        }),
    );
    let _ = write!(
        out,
        "\n{seeds}, {in_flight} problems in flight. `name@N` is a run with N chains a problem. Accuracies are means over \
         problems and seeds; every interval is a 95 % percentile bootstrap over problems. Tokens, passes and seconds are \
         per problem: \"generated\" were sampled, pruned ones too; \"scored\" were read by the reward model, its copy of the \
         prompt included; \"passes\" are generator passes in which the problem had a row. Peak KV is the cache of both \
         models for the one problem with the largest. Seconds are the wall-clock time of a run divided by its problems, \
         which share the machine. Runs that only choose differently share their samples; one without scores is then not \
         charged for them, and its peak KV is an upper bound (\u{2264}).\n\n\
         `results.json` has all settings and numbers, `results.csv` every raw row, `rows.jsonl` the same with the pools of \
         chains; `beamgen bench --redraw` writes everything but `rows.jsonl` anew from it.\n",
    );
}

fn table(out: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    out.push_str(&line(&head));
    let _ = writeln!(out, "|---|{}", "---:|".repeat(head.len() - 1));
    for row in rows {
        out.push_str(&line(&row));
    }
}

fn points(value: f64) -> String {
    format!("{:+.1}", value * 100.0)
}

fn share(of: &Share) -> String {
    format!(
        "{:.1} ({:.1} to {:.1})",
        of.share * 100.0,
        of.low * 100.0,
        of.high * 100.0
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

fn against_baseline(out: &mut String, baseline: &str, answers: &[&Answer]) {
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

fn compared(out: &mut String, pairs: &[&Difference]) {
    out.push_str("\n### Compared\n\nPaired by problem; cost is that of the first as a share of the second's.\n\n");
    let head = [
        "first",
        "second",
        "accuracies",
        "points",
        "95 % interval",
        "generated",
        "generated and scored",
        "seconds",
    ];
    table(
        out,
        &head,
        pairs.iter().map(|pair| {
            vec![
                pair.a.clone(),
                pair.b.clone(),
                format!(
                    "{:.1} %, {:.1} %",
                    pair.accuracy_a * 100.0,
                    pair.accuracy_b * 100.0
                ),
                points(pair.difference),
                format!("{} to {}", points(pair.low), points(pair.high)),
                format!("{:.2}", pair.generated_ratio),
                format!("{:.2}", pair.tokens_ratio),
                format!("{:.2}", pair.seconds_ratio),
            ]
        }),
    );
}

fn pool(out: &mut String, curve: &PoolCurve) {
    let _ = writeln!(
        out,
        "\n### k of the samples of {}\n\nAll subsets of k samples count, not the first k: pass@k (any of them right) by the \
         unbiased estimator, best-of-k in closed form, votes by {SUBSETS} drawn subsets a problem and seed. Per cent, with \
         intervals; tokens are the expected ones for k chains.\n",
        curve.name
    );
    let optional = |of: &Option<Share>| of.as_ref().map_or("-".to_owned(), share);
    table(
        out,
        &[
            "k",
            "generated",
            "pass@k",
            "best-of-k",
            "weighted@k",
            "majority@k",
        ],
        curve.at.iter().map(|at| {
            vec![
                at.k.to_string(),
                grouped(at.generated.round() as u64),
                share(&at.pass),
                optional(&at.best),
                optional(&at.weighted),
                share(&at.majority),
            ]
        }),
    );
}

fn difficulty(out: &mut String, allocation: &Allocation) {
    let _ = writeln!(
        out,
        "\n### Which strategy for which difficulty\n\nDifficulty is the oracle's: the pass rate of a single sample, among {} \
         samples of {}. It needs the answers, so this is what a perfect estimate of difficulty would be worth (Snell et al. \
         2024). Budgets are mean tokens a problem, generated and scored, within each bucket. The choices shown are made on \
         all problems; \"held out\" is the accuracy on one half of the problems of choices made on the other half, both \
         ways round, over {HALVINGS} halvings.\n",
        allocation.samples, allocation.pool
    );
    let buckets: Vec<String> = BUCKETS
        .iter()
        .zip(&allocation.problems)
        .map(|(name, count)| format!("{name} % ({count} problems)"))
        .collect();
    let mut head = vec!["budget"];
    head.extend(buckets.iter().map(String::as_str));
    head.extend([
        "best single",
        "held out: by difficulty",
        "held out: single",
        "gain in points",
    ]);
    table(
        out,
        &head,
        allocation.budgets.iter().map(|budget| {
            let mut row = vec![grouped(budget.tokens.round() as u64)];
            let name = |choice: &super::allocation::Choice| {
                format!("{} ({:.1} %)", choice.name, choice.accuracy * 100.0)
            };
            row.extend(
                budget
                    .by_bucket
                    .iter()
                    .map(|choice| choice.as_ref().map_or("-".to_owned(), name)),
            );
            row.push(name(&budget.single));
            row.push(format!("{:.1} %", budget.held_out * 100.0));
            row.push(format!("{:.1} %", budget.held_out_single * 100.0));
            let interval = (points(budget.low), points(budget.high));
            row.push(format!(
                "{} ({} to {})",
                points(budget.difference),
                interval.0,
                interval.1
            ));
            row
        }),
    );
}
