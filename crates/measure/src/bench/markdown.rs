//! The report for people: README.md of a results folder.

mod against;
mod over_n;

use std::fmt::Write;

use beamgen::eval::difficulty::{BUCKETS, HALVINGS};
use beamgen::eval::pool::SUBSETS;

use crate::bench::allocation::{Allocation, Choice, Outcome};
use crate::bench::compare::Difference;
use crate::bench::headline::Headline;
use crate::bench::outline::{Outline, SetOutline};
use crate::bench::pools::{AtK, PoolCurve};
use crate::bench::report::Report;
use crate::bench::summary::{COLUMNS, SOUND_COLUMNS, Summary};
use crate::report::about::About;
use crate::report::chart::Plot;
use crate::report::markdown::{Column, between, code, columns, points, table};
use crate::rerank::{AGGREGATIONS, Aggregated, Share};
use crate::{counted, grouped, percent};

pub(super) fn text(about: &About, outline: &Outline, report: &Report, plots: &[Plot]) -> String {
    let mut out = String::new();
    head(&mut out, about, outline, report);
    for (number, set) in outline.sets.iter().enumerate() {
        let _ = writeln!(out, "\n## Problems: {}\n", set.name);
        let rows = report.summary.iter().filter(|row| row.set == set.name);
        columns(&mut out, &COLUMNS, rows);
        Plot::show(&mut out, plots, number);
        let against = of_set(&report.against, &set.name, |one| &one.set);
        if let (false, Some(baseline)) = (against.is_empty(), &outline.baseline) {
            against::against_baseline(&mut out, baseline, &against);
        }
        let pairs = of_set(&report.compare, &set.name, |one| &one.set);
        if !pairs.is_empty() {
            compared(&mut out, &pairs);
        }
        let curves = of_set(&report.over_n, &set.name, |one| &one.set);
        if !curves.is_empty() {
            over_n::over_n(&mut out, &curves);
        }
        for curve in report.pools.iter().filter(|one| one.set == set.name) {
            pool(&mut out, curve);
            let rows: Vec<&Aggregated> = report
                .aggregated
                .iter()
                .filter(|row| row.set == set.name && row.name == curve.name)
                .collect();
            if !rows.is_empty() {
                aggregated(&mut out, &curve.name, &rows);
            }
        }
        soundness(&mut out, report, &set.name);
        for one in report.difficulty.iter().filter(|one| one.set == set.name) {
            difficulty(&mut out, one);
        }
    }
    out
}

fn of_set<'r, T>(all: &'r [T], set: &str, name: fn(&T) -> &str) -> Vec<&'r T> {
    all.iter().filter(|one| name(one) == set).collect()
}

const SETS: [Column<SetOutline>; 3] = [
    ("problems", |set| set.name.clone()),
    ("count", |set| set.ids.len().to_string()),
    ("from", |set| code(&set.source)),
];

fn head(out: &mut String, about: &About, outline: &Outline, report: &Report) {
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
    let seeds = counted(outline.seeds, "seed", "seeds");
    let result = report.headline.iter().map(Headline::sentence);
    let result = result.collect::<Vec<_>>().join("\n\n");
    out.push_str(&about.heading(&format!("Bench of {}", about.date()), &result));
    columns(out, &SETS, outline.sets.iter());
    if report.summary.iter().any(|row| row.sees_outcomes) {
        out.push_str(
            "\n\u{2020}: the search saw outcomes of an open verifier. Compare its accuracy with \"any right\" of sampling at equal tokens, \
             not with the accuracy of a reward model.\n",
        );
    }
    let _ = write!(
        out,
        "\n{seeds}, {in_flight} problems in flight. `name@N` is a run with N chains a problem. Accuracies are means over \
         problems and seeds; every interval is a 95 % interval over problems (that of the first sentence does not allow for having \
         chosen the two best of these runs): \
         Wilson's for plain shares and where all problems agree, else a percentile bootstrap. Tokens, passes and seconds are \
         per problem: \"generated\" were sampled, pruned ones too; \"scored\" were read by the reward model, its copy of the \
         prompt included; \"passes\" are generator passes in which the problem had a row. Peak KV is the cache of both \
         models for the one problem with the largest. Seconds are the wall-clock time of a run divided by its problems, \
         which share the machine. FLOPs are the floating-point operations of both models. Width is the mean number of different chains \
         that continued after a step. \"any right\" is the share of searches of which any finished chain is right, chosen or not: pass@N of \
         independent samples. Runs that only choose differently share their samples; one without scores is then not \
         charged for them, and its peak KV is an upper bound (\u{2264}).\n\n\
         `index.html` is this report for a browser, `results.json` has all settings and numbers, `results.csv` every raw row, `rows.jsonl` the same with the pools of \
         chains; `beamgen bench --redraw` writes everything but `rows.jsonl` anew from it.\n",
    );
}

fn ratio(of: Option<f64>) -> String {
    of.map_or("-".to_owned(), |of| format!("{of:.2}"))
}

const COMPARED: [Column<Difference>; 9] = [
    ("first", |pair| pair.a.clone()),
    ("second", |pair| pair.b.clone()),
    ("accuracies", |pair| {
        format!("{}, {}", percent(pair.accuracy_a), percent(pair.accuracy_b))
    }),
    ("points", |pair| points(pair.difference)),
    ("95 % interval", |pair| {
        format!("{} to {}", points(pair.low), points(pair.high))
    }),
    ("generated", |pair| ratio(pair.generated_ratio)),
    ("generated and scored", |pair| ratio(pair.tokens_ratio)),
    ("seconds", |pair| ratio(pair.seconds_ratio)),
    ("FLOPs", |pair| ratio(pair.flops_ratio)),
];

fn compared(out: &mut String, pairs: &[&Difference]) {
    out.push_str("\n### Compared\n\nPaired by problem; cost is that of the first as a share of the second's.\n\n");
    columns(out, &COMPARED, pairs.iter().copied());
}

/// Formats a share, or returns `-` if it cannot be computed without scores.
fn optional(of: Option<Share>) -> String {
    of.map_or("-".to_owned(), Share::shown)
}

const POOL: [Column<AtK>; 6] = [
    ("k", |at| at.k.to_string()),
    ("generated", |at| tokens(at.generated)),
    ("pass@k", |at| optional(Some(at.pass))),
    ("best-of-k", |at| optional(at.best)),
    ("weighted@k", |at| optional(at.weighted)),
    ("majority@k", |at| optional(Some(at.majority))),
];

fn tokens(mean: f64) -> String {
    grouped(mean.round() as u64)
}

fn pool(out: &mut String, curve: &PoolCurve) {
    let _ = writeln!(
        out,
        "\n### k of the samples of {}\n\nAll subsets of k samples count, not the first k: pass@k (any of them right) by the \
         unbiased estimator, best-of-k in closed form, votes by {SUBSETS} drawn subsets a problem and seed. Per cent, with \
         intervals; tokens are the expected ones for k chains.\n",
        curve.name
    );
    columns(out, &POOL, curve.at.iter());
}

fn aggregated(out: &mut String, pool: &str, rows: &[&Aggregated]) {
    let _ = writeln!(
        out,
        "\n### Other aggregations over the samples of {pool}\n\nHow the scores of a chain's steps become its score, read off the \
         same samples: the answer of the best of all N, and of the weighted vote. Per cent, with intervals.\n"
    );
    columns(out, &AGGREGATIONS, rows.iter().copied());
}

/// Appends the section on sound chains, unless no chain was audited.
fn soundness(out: &mut String, report: &Report, set: &str) {
    let rows: Vec<&Summary> = report
        .summary
        .iter()
        .filter(|row| row.set == set && row.has_soundness())
        .collect();
    if rows.is_empty() {
        return;
    }
    out.push_str(
        "\n### Right, and right by a sound chain\n\nAn answer can be right by a chain with a wrong step. \"unsound right ones\" are \
         those that each strategy passes: a checker proves a step of the chosen chain wrong, or the scorer puts one below the \
         bound of `sound_above`. Where no checker can tell, a chain counts as sound. \"right on both twins\" is over pairs of \
         problems that differ in their numbers only.\n\n",
    );
    columns(out, &SOUND_COLUMNS, rows.into_iter());
    for curve in report.sound_pools.iter().filter(|one| one.set == set) {
        let _ = writeln!(
            out,
            "\n### k of the samples of {}, right and sound\n\nAs above; right chains that are unsound count as wrong.\n",
            curve.name
        );
        columns(out, &POOL, curve.at.iter());
    }
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
        .map(|(name, count)| format!("{name} % ({})", counted(*count, "problem", "problems")))
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
            let mut row = vec![format!("{} ({})", tokens(budget.tokens), budget.of)];
            row.extend(
                budget
                    .by_bucket
                    .iter()
                    .map(|choice| choice.as_ref().map_or("-".to_owned(), named)),
            );
            row.push(outcome(&budget.chosen));
            let single = &budget.single;
            row.push(format!("{} for {}", named(single), tokens(single.tokens)));
            row.push(outcome(&budget.held_out));
            row.push(outcome(&budget.held_out_single));
            let ends = (budget.low, budget.high);
            row.push(between(budget.difference, ends, points));
            row
        }),
    );
}

fn named(choice: &Choice) -> String {
    format!("{} ({})", choice.name, percent(choice.accuracy))
}

fn outcome(outcome: &Outcome) -> String {
    let spent = tokens(outcome.tokens);
    format!("{} for {spent}", percent(outcome.accuracy))
}
