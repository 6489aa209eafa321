//! The report for people: README.md of a results folder.

mod against;
mod over_n;

use std::fmt::Write;

use beamgen::eval::difficulty::{BUCKETS, HALVINGS};
use beamgen::eval::pool::SUBSETS;

use crate::bench::against::Answer;
use crate::bench::allocation::{Allocation, Choice, Outcome};
use crate::bench::compare::Difference;
use crate::bench::outline::Outline;
use crate::bench::over_n::OverN;
use crate::bench::plots::Plot;
use crate::bench::pools::{PoolCurve, Share};
use crate::bench::report::Report;
use crate::bench::summary::{HEAD, cells};
use crate::report::about::About;
use crate::report::markdown::{code, points, table};
use crate::{grouped, percent};

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
            against::against_baseline(&mut out, baseline, &against);
        }
        let pairs: Vec<&Difference> = report
            .compare
            .iter()
            .filter(|one| one.set == set.name)
            .collect();
        if !pairs.is_empty() {
            compared(&mut out, &pairs);
        }
        let curves: Vec<&OverN> = report
            .over_n
            .iter()
            .filter(|one| one.set == set.name)
            .collect();
        if !curves.is_empty() {
            over_n::over_n(&mut out, &curves);
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
    out.push_str(&about.heading(&format!("Bench of {}", about.date())));
    table(
        out,
        &["problems", "count", "from"],
        outline.sets.iter().map(|set| {
            vec![
                set.name.clone(),
                set.ids.len().to_string(),
                code(&set.source),
            ]
        }),
    );
    let _ = write!(
        out,
        "\n{seeds}, {in_flight} problems in flight. `name@N` is a run with N chains a problem. Accuracies are means over \
         problems and seeds; every interval is a 95 % interval over problems: \
         Wilson's for plain shares and where all problems agree, else a percentile bootstrap. Tokens, passes and seconds are \
         per problem: \"generated\" were sampled, pruned ones too; \"scored\" were read by the reward model, its copy of the \
         prompt included; \"passes\" are generator passes in which the problem had a row. Peak KV is the cache of both \
         models for the one problem with the largest. Seconds are the wall-clock time of a run divided by its problems, \
         which share the machine. Runs that only choose differently share their samples; one without scores is then not \
         charged for them, and its peak KV is an upper bound (\u{2264}).\n\n\
         `index.html` is this report for a browser, `results.json` has all settings and numbers, `results.csv` every raw row, `rows.jsonl` the same with the pools of \
         chains; `beamgen bench --redraw` writes everything but `rows.jsonl` anew from it.\n",
    );
}

fn share(of: &Share) -> String {
    format!(
        "{:.1} ({:.1} to {:.1})",
        of.share * 100.0,
        of.low * 100.0,
        of.high * 100.0
    )
}

fn compared(out: &mut String, pairs: &[&Difference]) {
    let ratio = |of: Option<f64>| of.map_or("-".to_owned(), |of| format!("{of:.2}"));
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
                ratio(pair.generated_ratio),
                ratio(pair.tokens_ratio),
                ratio(pair.seconds_ratio),
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
         2024). The exact checker, which knows the answers too, is none of the choices. A budget is what a run of the \
         baseline spends: mean tokens a problem, generated and scored, over all problems together, so that what easy \
         problems leave over hard ones may spend. Within it the most accurate choice of one run for each difficulty is \
         found by exact search; the same run for all of them is among the choices, so on the problems that the choice is \
         made on it is never behind the best single run. Those are the choices shown, with their accuracy there. Whether \
         this carries over is told by \"held out\" and the gain: every difficulty is halved {HALVINGS} times, choices \
         made on one half (both by difficulty and of the single run) are measured on the other, both ways round; the gain \
         may then be negative, and its interval is over problems.\n",
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
        "by difficulty",
        "best single",
        "held out: by difficulty",
        "held out: single",
        "gain in points",
    ]);
    table(
        out,
        &head,
        allocation.budgets.iter().map(|budget| {
            let tokens = |tokens: f64| grouped(tokens.round() as u64);
            let name =
                |choice: &Choice| format!("{} ({:.1} %)", choice.name, choice.accuracy * 100.0);
            let outcome = |outcome: &Outcome| {
                let spent = tokens(outcome.tokens);
                format!("{} for {spent}", percent(outcome.accuracy))
            };
            let mut row = vec![format!("{} ({})", tokens(budget.tokens), budget.of)];
            row.extend(
                budget
                    .by_bucket
                    .iter()
                    .map(|choice| choice.as_ref().map_or("-".to_owned(), name)),
            );
            row.push(outcome(&budget.chosen));
            let single = &budget.single;
            row.push(format!("{} for {}", name(single), tokens(single.tokens)));
            row.push(outcome(&budget.held_out));
            row.push(outcome(&budget.held_out_single));
            row.push(format!(
                "{} ({} to {})",
                points(budget.difference),
                points(budget.low),
                points(budget.high)
            ));
            row
        }),
    );
}
