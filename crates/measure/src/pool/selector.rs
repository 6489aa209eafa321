//! The ways to choose a solution of a pool.

use beamgen::eval::pass_at_k::pass_at_k;
use beamgen::eval::pool::{Sample, chosen_at_k, pass_rate};
use beamgen::{Aggregation, Choose};

use super::outline::{FILE, Outline};
use super::row::Row;
use crate::rerank;

/// A way to choose, by its name in tables.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    pub name: String,
    way: Way,
    by: By,
    /// Whether solutions with a step that a checker proves wrong are left out.
    veto: bool,
    /// Whether plots show it.
    pub is_main: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// One at random.
    Single,
    /// A right one if there is any: a bound, which knows the truth.
    Pass,
    Choose(Choose),
}

/// The meaning of a solution's score.
#[derive(Clone, Debug)]
enum By {
    Nothing,
    Shorter,
    Longer,
    Scorer {
        name: String,
        aggregation: Aggregation,
        /// Whether its scores are log-odds, which only their order says something of.
        log_odds: bool,
        /// Whether any solution has several scores.
        by_step: bool,
    },
}

/// The name of the way that the others are compared with.
pub(super) const MAJORITY: &str = "majority";

/// All ways for a set: what needs no scores, and every scorer by every aggregation.
pub(super) fn all(outline: &Outline, set: usize, rows: &[&Row]) -> Vec<Selector> {
    let plain = |name: &str, way, by, is_main| Selector {
        name: name.to_owned(),
        way,
        by,
        veto: false,
        is_main,
    };
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
        let with_veto = |of: &Selector| Selector {
            name: format!("{}, veto", of.name),
            veto: true,
            ..of.clone()
        };
        let chooses = |of: &&Selector| of.is_main && matches!(of.way, Way::Choose(_));
        let vetoed: Vec<Selector> = all.iter().filter(chooses).map(with_veto).collect();
        all.extend(vetoed);
    }
    all
}

fn by_scorer(outline: &Outline, set: usize, rows: &[&Row], name: &str) -> Vec<Selector> {
    let given = rows.iter().filter_map(|row| row.scores.get(name));
    let scores: Vec<&Vec<f32>> = given.flatten().flatten().collect();
    // What refused every solution chooses none.
    if scores.is_empty() {
        return Vec::new();
    }
    let by_step = scores.iter().any(|scores| scores.len() > 1);
    let main = outline.aggregation;
    let aggregations: Vec<Aggregation> = if !by_step {
        vec![main]
    } else if rerank::aggregations().any(|of| of == main) {
        rerank::aggregations().collect()
    } else {
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
    /// A right answer.
    Right,
    /// A right answer of a solution without a wrong step.
    Sound,
}

impl Selector {
    /// Whether it is shown over k: what is drawn, without the veto.
    pub(super) fn is_over_k(&self) -> bool {
        self.is_main && !self.veto
    }

    /// The probability that what is chosen among `k` of a problem's solutions counts; `None` if there
    /// are fewer. `number` is that of the problem, for votes over drawn subsets.
    pub(super) fn value(&self, row: &Row, k: usize, counts: Counts, number: u64) -> Option<f64> {
        let samples = self.samples(row, counts);
        match self.way {
            _ if k > samples.len() => None,
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
        // Where all are proved wrong, nothing tells them apart.
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
            By::Shorter => Some(-(row.length[at] as f32)),
            By::Longer => Some(row.length[at] as f32),
            By::Scorer {
                name,
                aggregation,
                log_odds,
                by_step,
            } => {
                let scores = row.scores.get(name)?[at].as_ref()?.iter().copied();
                // The order of single scores is kept as it is: probabilities near 1 may be equal.
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
