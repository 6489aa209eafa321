//! Verdicts of checkers on labelled chains, counted against the labels.

use std::collections::BTreeMap;

use beamgen::checkers::{CheckItem, Opinion, Panel, Tally, Verdict};
use beamgen::eval::metrics::Range;
use beamgen::eval::quality::resample;
use beamgen_labels::{LabelRule, LabelledChain};
use serde::Serialize;

use crate::Watch;

/// The number of chains that are checked together, so that a checker command gets many steps at a time.
pub const AT_ONCE: usize = 64;

/// The seed of the bootstrap, which is fixed so that a repeated report is the same.
const SEED: u64 = 0;

/// The figures of one checker on one file.
#[derive(Default, Serialize)]
pub struct Row {
    /// The name of the file.
    pub file: String,
    /// The name of the checker, or `all`.
    pub checker: String,
    /// The number of steps.
    pub steps: u64,
    /// The number of verdicts of each kind.
    #[serde(flatten)]
    pub tally: Tally,
    /// The share of steps on which the checker gave a verdict.
    pub coverage: Option<f64>,
    /// Fails on steps that are labelled wrong.
    pub true_fails: u64,
    /// Fails on steps without a label, such as steps after the first wrong one.
    pub unlabelled_fails: u64,
    /// The share of `true_fails` among the fails on labelled steps.
    pub precision: Option<f64>,
    /// The 95 % interval of the precision over problems.
    pub precision_interval: Option<(f64, f64)>,
    /// Chains with a step that is labelled wrong.
    pub wrong_chains: u64,
    /// The number of wrong chains whose first fail is on their first wrong step.
    pub first_mistakes: u64,
    /// The share of `first_mistakes` among `wrong_chains`.
    pub recall: Option<f64>,
    /// The 95 % interval of the recall over problems.
    pub recall_interval: Option<(f64, f64)>,
    #[serde(skip)]
    by_problem: BTreeMap<String, Counted>,
    /// Fails on steps that are labelled right.
    pub false_fails: Vec<FalseFail>,
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
pub struct FalseFail {
    /// The id of the chain.
    pub chain: String,
    /// From 0.
    pub step: usize,
    /// The reason that the checker gives.
    pub reason: String,
    /// The text of the step.
    pub text: String,
}

/// Returns the opinion of each checker on each step of each chain, indexed `[chain][step][checker]`.
pub fn opinions(panel: &mut Panel, chains: &[LabelledChain]) -> Vec<Vec<Vec<Opinion>>> {
    // All chains are opened before the check, so that a command can work on several at once.
    let ids: Vec<_> = chains.iter().map(|c| panel.open(&c.problem)).collect();
    let items = ids.iter().zip(chains).map(|(&id, chain)| CheckItem {
        id,
        steps: chain.steps.iter().map(|step| step.text.as_str()).collect(),
    });
    let said = panel.check(&items.collect::<Vec<_>>());
    for id in ids {
        panel.release(id);
    }
    said
}

/// Checks the chains of a file, and counts the verdicts: a row for each checker and, if there are several, a row `all`.
/// `each` gets the id of each chain and the opinions on its steps.
///
/// # Errors
/// `each` failed.
pub fn check<E>(
    panel: &mut Panel,
    file: &str,
    chains: &[LabelledChain],
    rule: &LabelRule,
    watch: &mut dyn Watch,
    each: &mut Each<'_, E>,
) -> Result<Vec<Row>, E> {
    let mut rows = empty_rows(panel, file);
    for (batch, some) in chains.chunks(AT_ONCE).enumerate() {
        if watch.is_cancelled() {
            break;
        }
        let said = opinions(panel, some);
        for (at, (chain, opinions)) in some.iter().zip(&said).enumerate() {
            let number = batch * AT_ONCE + at + 1;
            let id = chain.id.clone().unwrap_or_else(|| number.to_string());
            count(&mut rows, chain, &id, opinions, &rule.labels(chain));
            each(&id, opinions)?;
            watch.done(None);
        }
    }
    Ok(rows.into_iter().map(Row::done).collect())
}

/// Takes the id of a chain and the opinions on its steps, indexed `[step][checker]`.
type Each<'a, E> = dyn FnMut(&str, &[Vec<Opinion>]) -> Result<(), E> + 'a;

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
