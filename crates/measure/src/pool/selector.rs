//! Selectors: the ways to choose a solution of a pool.

use beamgen::eval::pass_at_k::pass_at_k;
use beamgen::eval::pool::{Sample, chosen_at_k, pass_rate};
use beamgen::{Aggregation, Choose};

use super::outline::{FILE, Outline};
use super::row::Row;
use crate::rerank;

/// A way to choose a solution.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    pub name: String,
    way: Way,
    by: By,
    /// Whether solutions with a step that a checker proves wrong are left out.
    veto: bool,
    /// Whether figures show the selector.
    pub is_main: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// A random solution: the accuracy of a single sample.
    Single,
    /// A right solution if there is any: an upper bound, since it needs the truth.
    Pass,
    Choose(Choose),
}

/// The source of a solution's score.
#[derive(Clone, Debug)]
enum By {
    Nothing,
    Shorter,
    Longer,
    Scorer {
        name: String,
        aggregation: Aggregation,
        /// Whether the scores are log-odds. Their order is meaningful, sums of them are not.
        log_odds: bool,
        /// Whether any solution has several scores.
        by_step: bool,
    },
}

/// The name of the selector with which all others are compared.
pub(super) const MAJORITY: &str = "majority";

/// Returns all selectors of a set: those without scores, and every scorer with every aggregation.
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
        // Only the main selectors get a twin with a veto, which keeps the table short.
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
    // A scorer that refused every solution cannot choose.
    if scores.is_empty() {
        return Vec::new();
    }
    // With a single score per solution, all aggregations are the same.
    let by_step = scores.iter().any(|scores| scores.len() > 1);
    let main = outline.aggregation;
    let aggregations: Vec<Aggregation> = if !by_step {
        vec![main]
    } else if rerank::aggregations().any(|of| of == main) {
        rerank::aggregations().collect()
    } else {
        // A main aggregation outside the usual list is added, so that figures have it.
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
    /// A right answer, whatever its steps.
    Right,
    /// A right answer from a solution without a wrong step.
    Sound,
}

impl Selector {
    /// Whether curves over k show the selector: the main ones without a veto.
    pub(super) fn is_over_k(&self) -> bool {
        self.is_main && !self.veto
    }

    /// Returns the probability that the choice among `k` of a problem's solutions counts; `None` if
    /// there are fewer. `number` is that of the problem and seeds the subsets of votes.
    pub(super) fn value(&self, row: &Row, k: usize, counts: Counts, number: u64) -> Option<f64> {
        let samples = self.samples(row, counts);
        match self.way {
            _ if k > samples.len() => None,
            // The share of right solutions is the expected accuracy of a random one.
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
        // If all solutions are proved wrong, a veto would leave none to choose.
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
            // Negated, since the highest score is the best.
            By::Shorter => Some(-(row.length[at] as f32)),
            By::Longer => Some(row.length[at] as f32),
            By::Scorer {
                name,
                aggregation,
                log_odds,
                by_step,
            } => {
                let scores = row.scores.get(name)?[at].as_ref()?.iter().copied();
                // The sigmoid of large log-odds rounds to 1, so single scores keep their order only
                // without it.
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
