//! `beamgen check`: runs checkers on labelled chains, and compares their verdicts with the labels.

use std::collections::BTreeMap;
use std::io::{self, Write};

use beamgen::checkers::{CHECKERS, Opinion, Panel, Tally, Verdict};
use beamgen::eval::metrics::Range;
use beamgen::eval::quality::resample;
use beamgen_labels::{LabelledChain, Neutral};
use serde::Serialize;
use serde_json::json;

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::labels::inputs;
use crate::lost;
use crate::output;
use crate::printable;
use crate::progress::Progress;
use crate::settings;
use crate::table::{Table, grouped, percent};
use crate::verdicts::{self, AT_ONCE};
use crate::write::Output;

/// The seed of the bootstrap, which is fixed so that a repeated report is the same.
const SEED: u64 = 0;

/// The figures of one checker on one file.
#[derive(Default, Serialize)]
struct Row {
    file: String,
    checker: String,
    steps: u64,
    #[serde(flatten)]
    tally: Tally,
    /// The share of steps on which the checker gave a verdict.
    coverage: Option<f64>,
    /// Fails on steps that are labelled wrong.
    true_fails: u64,
    /// Fails on steps without a label, such as steps after the first wrong one.
    unlabelled_fails: u64,
    /// The share of `true_fails` among the fails on labelled steps.
    precision: Option<f64>,
    precision_interval: Option<(f64, f64)>,
    /// Chains with a step that is labelled wrong.
    wrong_chains: u64,
    /// The number of wrong chains whose first fail is on their first wrong step.
    first_mistakes: u64,
    recall: Option<f64>,
    recall_interval: Option<(f64, f64)>,
    #[serde(skip)]
    by_problem: BTreeMap<String, Counted>,
    /// Fails on steps that are labelled right.
    false_fails: Vec<FalseFail>,
}

/// Counts for precision and recall over the chains of one problem. The bootstrap resamples
/// problems.
#[derive(Clone, Copy, Default)]
struct Counted {
    true_fails: u32,
    labelled_fails: u32,
    first_mistakes: u32,
    wrong_chains: u32,
}

/// A fail on a step that is labelled right.
#[derive(Serialize)]
struct FalseFail {
    chain: String,
    /// From 0.
    step: usize,
    reason: String,
    text: String,
}

pub(crate) fn main(args: &CheckArgs) -> Result<(), Failure> {
    let mut config = settings::with_flags(beamgen::Config::default(), &args.checkers)?;
    if config.checkers.is_empty() {
        config.checkers.builtin = CHECKERS.iter().map(|row| row.name.to_owned()).collect();
    }
    let mut panel = verdicts::panel(&config)?;
    // The output is opened first, so that one that cannot be written fails before checks that may
    // take hours.
    let out = args.out.as_deref().map(Output::open).transpose()?;
    let files = inputs::read(&args.input)?;
    let mut lines = Vec::new();
    let rule = args.rule.rule(Neutral::Positive);
    let most = args.limit.unwrap_or(usize::MAX);
    let total = files.iter().map(|file| file.chains.len().min(most)).sum();
    let mut progress = Progress::new(total, "chains");
    let mut rows = Vec::new();
    for file in &files {
        let mut of_file = empty_rows(&panel, &file.source);
        let chains = &file.chains[..file.chains.len().min(most)];
        for (batch, some) in chains.chunks(AT_ONCE).enumerate() {
            let said = verdicts::of(&mut panel, some);
            for (at, (chain, opinions)) in some.iter().zip(&said).enumerate() {
                let number = batch * AT_ONCE + at + 1;
                let id = chain.id.clone().unwrap_or_else(|| number.to_string());
                count(&mut of_file, chain, &id, opinions, &rule.labels(chain));
                if out.is_some() {
                    let line = json!({"file": file.source, "id": id, "steps": opinions});
                    output::json_line(&mut lines, &line)?;
                }
                progress.done(None);
            }
        }
        rows.extend(of_file.into_iter().map(Row::done));
    }
    drop(progress);
    if let Some(mut out) = out {
        out.write(&lines)?;
    }
    lost::tell(panel.lost());
    print(&rows, args.json)
}

/// Returns empty rows for a file: one for each checker and, if there are several checkers, a row
/// `all`.
fn empty_rows(panel: &Panel, file: &str) -> Vec<Row> {
    let mut names: Vec<&str> = panel.names().collect();
    names.extend((names.len() > 1).then_some("all"));
    let rows = names.into_iter().map(|name| Row {
        file: file.to_owned(),
        checker: name.to_owned(),
        ..Row::default()
    });
    rows.collect()
}

/// Counts a chain in all rows of its file. The row `all` is the last one, and combines the verdicts
/// of all checkers.
fn count(
    rows: &mut [Row],
    chain: &LabelledChain,
    id: &str,
    opinions: &[Vec<Opinion>],
    labels: &[Option<f64>],
) {
    for (index, row) in rows.iter_mut().enumerate() {
        let verdicts = opinions.iter().map(|step| match step.get(index) {
            Some(opinion) => opinion.verdict.clone(),
            None => step
                .iter()
                .fold(Verdict::Abstain, |all, one| all.and(one.verdict.clone())),
        });
        row.chain(chain, id, &verdicts.collect::<Vec<_>>(), labels);
    }
}

impl Row {
    fn chain(
        &mut self,
        chain: &LabelledChain,
        id: &str,
        verdicts: &[Verdict],
        labels: &[Option<f64>],
    ) {
        let is_wrong = |label: &Option<f64>| label.map(|label| label < 0.5);
        let mut counted = Counted::default();
        for (step, (verdict, label)) in verdicts.iter().zip(labels).enumerate() {
            self.tally.count(verdict);
            let Some(reason) = verdict.reason() else {
                continue;
            };
            counted.labelled_fails += u32::from(label.is_some());
            match is_wrong(label) {
                None => self.unlabelled_fails += 1,
                Some(true) => counted.true_fails += 1,
                Some(false) => self.false_fails.push(FalseFail {
                    chain: id.to_owned(),
                    step,
                    reason: reason.to_owned(),
                    text: chain.steps[step].text.clone(),
                }),
            }
        }
        let first = labels
            .iter()
            .position(|label| is_wrong(label) == Some(true));
        if let Some(first) = first {
            counted.wrong_chains = 1;
            let failed = verdicts.iter().position(Verdict::is_fail);
            counted.first_mistakes = u32::from(failed == Some(first));
        }
        self.true_fails += u64::from(counted.true_fails);
        self.wrong_chains += u64::from(counted.wrong_chains);
        self.first_mistakes += u64::from(counted.first_mistakes);
        // Chains of one problem are not independent, so the intervals resample whole problems.
        let problem = self.by_problem.entry(chain.problem.clone()).or_default();
        problem.add(counted, 1);
    }

    fn done(mut self) -> Self {
        self.steps = self.tally.steps();
        self.coverage = self.tally.coverage();
        let problems: Vec<Counted> = self.by_problem.values().copied().collect();
        let ranges = [Range::Unit; 2];
        let [precision, recall] = resample(problems.len(), ranges, SEED, |counts| {
            let mut all = Counted::default();
            for (&problem, &times) in problems.iter().zip(counts) {
                all.add(problem, times);
            }
            let share = |of: u32, all: u32| (all > 0).then(|| f64::from(of) / f64::from(all));
            [
                share(all.true_fails, all.labelled_fails),
                share(all.first_mistakes, all.wrong_chains),
            ]
        });
        self.precision = precision.map(|of| of.value);
        self.precision_interval = precision.and_then(|of| of.interval);
        self.recall = recall.map(|of| of.value);
        self.recall_interval = recall.and_then(|of| of.interval);
        self
    }
}

impl Counted {
    fn add(&mut self, other: Self, times: u32) {
        self.true_fails += times * other.true_fails;
        self.labelled_fails += times * other.labelled_fails;
        self.first_mistakes += times * other.first_mistakes;
        self.wrong_chains += times * other.wrong_chains;
    }
}

/// Formats a share in per cent, followed by its interval.
fn between(share: Option<f64>, interval: Option<(f64, f64)>) -> String {
    let share = share.map_or("-".to_owned(), percent);
    interval.map_or(share.clone(), |(low, high)| {
        format!("{share} ({:.1}-{:.1})", 100.0 * low, 100.0 * high)
    })
}

fn print(rows: &[Row], json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if json {
        for row in rows {
            output::json_line(&mut out, row)?;
        }
        return Ok(out.flush()?);
    }
    let mut table = Table::new(&[
        "data",
        "checker",
        "steps",
        "pass",
        "fail",
        "coverage",
        "true",
        "false",
        "precision",
        "first mistakes",
        "found",
    ]);
    for row in rows {
        table.row(vec![
            printable::line(&row.file).to_string(),
            printable::line(&row.checker).to_string(),
            grouped(row.steps),
            grouped(row.tally.pass),
            grouped(row.tally.fail),
            row.coverage.map_or("-".to_owned(), percent),
            grouped(row.true_fails),
            grouped(row.false_fails.len() as u64),
            between(row.precision, row.precision_interval),
            grouped(row.wrong_chains),
            between(row.recall, row.recall_interval),
        ]);
    }
    table.write(&mut out)?;
    writeln!(
        out,
        "\n  coverage: share of steps with a verdict; true, false: fails on steps labelled wrong, right; precision: true / (true + false);\n  \
         found: share of chains with a mistake whose first fail is on the first mistake; in brackets: 95 % intervals over problems."
    )?;
    // The row `all` would list the same fails a second time.
    for row in rows.iter().filter(|row| row.checker != "all") {
        for fail in &row.false_fails {
            writeln!(
                out,
                "\n  {}, chain {}, step {} is labelled right, but {} fails it: {}\n    {}",
                printable::line(&row.file),
                printable::line(&fail.chain),
                fail.step + 1,
                printable::line(&row.checker),
                printable::line(&fail.reason),
                printable::line(&fail.text),
            )?;
        }
    }
    Ok(out.flush()?)
}
