//! Selectors: ways to choose one of a problem's solutions.

use beamgen::eval::pass_at_k::pass_at_k;
use beamgen::eval::pool::{Sample, chosen_at_k, pass_rate};
use beamgen::{Aggregation, Choose};

use super::outline::{FILE, Outline};
use super::row::Row;
use crate::rerank;

/// A way to choose one of a problem's solutions: a rule, a source of scores, and perhaps a veto.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    pub name: String,
    way: Way,
    by: By,
    /// Whether solutions with a step that a checker proves wrong are left out.
    veto: bool,
    pub is_main: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// A random solution, whose accuracy is that of a single sample.
    Single,
    /// A right solution if one exists: an upper bound, since no selector knows the truth.
    Pass,
    Choose(Choose),
}

/// The source of the score by which `Way::Choose` ranks solutions.
#[derive(Clone, Debug)]
enum By {
    Nothing,
    Shorter,
    Longer,
    Scorer {
        name: String,
        aggregation: Aggregation,
        /// True if the scores are log-odds. Log-odds can be compared, but their sums have no meaning.
        log_odds: bool,
        /// Whether any solution has several scores.
        by_step: bool,
    },
}

/// The name of the selector with which the others are compared.
pub(super) const MAJORITY: &str = "majority";

/// Returns all selectors of a set: those without scores, and those by each scorer with each aggregation.
pub(super) fn all(outline: &Outline, set: usize, rows: &[&Row]) -> Vec<Selector> {
    let choose = Way::Choose;
    let mut all = vec![
        plain("single sample", Way::Single, By::Nothing, true),
        plain("pass@k", Way::Pass, By::Nothing, true),
        plain(MAJORITY, choose(Choose::Majority), By::Nothing, true),
        plain("shortest", choose(Choose::Best), By::Shorter, true),
        plain("longest", choose(Choose::Best), By::Longer, false),
    ];
    let own = rows.iter().any(|row| row.scores.contains_key(FILE));
    let scorers = outline.scorers.iter().map(|scorer| scorer.name.as_str());
    for name in own.then_some(FILE).into_iter().chain(scorers) {
        all.extend(by_scorer(outline, set, rows, name));
    }
    if !outline.checkers.is_empty() {
        // Only main selectors also get a variant with a veto, which keeps the table short.
        let vetoed: Vec<Selector> = all
            .iter()
            .filter(|of| of.is_main && matches!(of.way, Way::Choose(_)))
            .map(|of| Selector {
                name: format!("{}, veto", of.name),
                veto: true,
                ..of.clone()
            })
            .collect();
        all.extend(vetoed);
    }
    all
}

fn plain(name: &str, way: Way, by: By, is_main: bool) -> Selector {
    Selector {
        name: name.to_owned(),
        way,
        by,
        veto: false,
        is_main,
    }
}

fn by_scorer(outline: &Outline, set: usize, rows: &[&Row], name: &str) -> Vec<Selector> {
    let given = rows.iter().filter_map(|row| row.scores.get(name));
    let scores: Vec<&Vec<f32>> = given.flatten().flatten().collect();
    // A scorer that refused every solution cannot choose one.
    if scores.is_empty() {
        return Vec::new();
    }
    // With one score for each solution, all aggregations are equal.
    let by_step = scores.iter().any(|scores| scores.len() > 1);
    let main = outline.aggregation;
    let aggregations: Vec<Aggregation> = if !by_step {
        vec![main]
    } else if rerank::aggregations().any(|of| of == main) {
        rerank::aggregations().collect()
    } else {
        // Figures show the main aggregation, so it is added if the usual ones lack it.
        rerank::aggregations().chain([main]).collect()
    };
    let mut all = Vec::new();
    for aggregation in aggregations {
        let shown = if by_step {
            format!("{name} {aggregation}")
        } else {
            name.to_owned()
        };
        for (how, word) in [(Choose::Best, "best"), (Choose::Weighted, "weighted")] {
            all.push(Selector {
                name: format!("{shown}, {word}"),
                way: Way::Choose(how),
                by: By::Scorer {
                    name: name.to_owned(),
                    aggregation,
                    log_odds: name == FILE && outline.sets[set].log_odds,
                    by_step,
                },
                veto: false,
                is_main: aggregation == main,
            });
        }
    }
    all
}

/// The kind of solutions that count as right.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Counts {
    /// A right answer, even if a step is wrong.
    Right,
    /// A right answer, and no step that is known to be wrong.
    Sound,
}

impl Selector {
    pub(super) fn is_over_k(&self) -> bool {
        self.is_main && !self.veto
    }

    /// Returns the probability that the choice among `k` random solutions of a problem is right by `counts`. Returns
    /// `None` if the problem has fewer solutions. The problem's `number` is the seed for the subsets of votes.
    pub(super) fn value(&self, row: &Row, k: usize, counts: Counts, number: u64) -> Option<f64> {
        let samples = self.samples(row, counts);
        match self.way {
            _ if k > samples.len() => None,
            // The expected accuracy of a random solution is the share of right ones.
            Way::Single => pass_rate(&samples),
            Way::Pass => {
                let right = samples.iter().filter(|sample| sample.correct).count();
                pass_at_k(samples.len(), right, k)
            }
            Way::Choose(how) => chosen_at_k(&samples, k, how, number),
        }
    }

    fn samples(&self, row: &Row, counts: Counts) -> Vec<Sample> {
        let mut samples: Vec<Sample> = row.samples().collect();
        for (at, sample) in samples.iter_mut().enumerate() {
            sample.score = self.score(row, at);
            sample.correct &= counts == Counts::Right || !row.is_unsound(at);
        }
        // A veto on all solutions would leave none, so it has no effect then.
        if self.veto && (0..samples.len()).any(|at| !row.is_vetoed(at)) {
            for (at, sample) in samples.iter_mut().enumerate() {
                sample.class = sample.class.filter(|_| !row.is_vetoed(at));
            }
        }
        samples
    }

    fn score(&self, row: &Row, at: usize) -> Option<f32> {
        match &self.by {
            By::Nothing => None,
            // The shortest solution must have the highest score.
            By::Shorter => Some(-(row.length[at] as f32)),
            By::Longer => Some(row.length[at] as f32),
            By::Scorer {
                name,
                aggregation,
                log_odds,
                by_step,
            } => {
                let scores = row.scores.get(name)?[at].as_ref()?.iter().copied();
                // The sigmoid of large log-odds rounds to 1. Single scores that are only compared therefore stay
                // log-odds, which keep their order.
                if *log_odds && (*by_step || self.way != Way::Choose(Choose::Best)) {
                    aggregation.fold(scores.map(sigmoid))
                } else {
                    aggregation.fold(scores)
                }
            }
        }
    }
}

fn sigmoid(log_odds: f32) -> f32 {
    (1.0 / (1.0 + (-f64::from(log_odds)).exp())) as f32
}
