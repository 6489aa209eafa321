//! Scored chains prepared for measuring: steps by rising score, problems numbered without gaps.

use std::collections::BTreeMap;

use serde::Serialize;

use super::chain::class;
use super::first_error::{Prediction, harmonic};
use super::ranking::roc;
use super::tally::Tally;
use super::{
    BINS, Best, Bin, Binning, Confusion, Figure, Figures, Measure, RocPoint, ScoredChain, auc,
    resample,
};
use crate::metrics::Range;

/// The sizes of the data from which figures are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// The number of chains, including those that the model refused.
    pub chains: usize,
    /// Chains that the model refused. They are misses among first errors, and have no scored steps.
    pub refused: usize,
    /// The number of distinct problems, the units of the bootstrap.
    pub problems: usize,
    /// The number of chains of the most frequent problem; a large one decides the figures.
    pub largest: usize,
    /// The number of chains whose labels determine the first wrong step, or show that all steps are right.
    pub first_errors: usize,
    /// The number of scored steps with a label, one half included.
    pub steps: usize,
    /// The number of scored steps with a label above one half.
    pub right: usize,
    /// The number of scored steps with a label below one half.
    pub wrong: usize,
}

/// First-error figures as means over problems.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OverProblems {
    /// The share of wrong chains whose first wrong step is the first flagged one.
    pub on_wrong: Option<f64>,
    /// The share of right chains without a flag.
    pub on_right: Option<f64>,
    /// The harmonic mean of `on_wrong` and `on_right`.
    pub f1: Option<f64>,
}

/// A scored step with a label.
struct Step {
    problem: usize,
    score: f32,
    label: f64,
    class: Option<bool>,
    is_flagged: bool,
    /// The number of characters minus the mean over all steps, as [`Moments`](super::Moments) requires.
    length: f64,
    width_bin: u8,
    mass_bin: u8,
}

struct Chain {
    problem: usize,
    first_error: Option<Prediction>,
    /// Whether the lowest score is the last; `None` without two scores.
    drifts: Option<bool>,
}

/// Scored chains in a form from which all measures are computed quickly, as the bootstrap needs.
pub struct View {
    problems: usize,
    refused: usize,
    chains: Vec<Chain>,
    /// The steps with labels, sorted by score as bins and ROC curves need them.
    steps: Vec<Step>,
    /// The sums of each problem, which a bootstrap sample only adds up.
    tallies: Vec<Tally>,
}

impl View {
    /// Prepares the measures of `chains`. A score below `threshold` flags a step as wrong. Steps whose index
    /// `position` rejects are left out of the measures of steps; measures of whole chains use all steps.
    pub fn new<'a>(
        chains: impl IntoIterator<Item = &'a ScoredChain>,
        threshold: f32,
        position: impl Fn(usize) -> bool,
    ) -> Self {
        let mut view = Self {
            problems: 0,
            refused: 0,
            chains: Vec::new(),
            steps: Vec::new(),
            tallies: Vec::new(),
        };
        let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
        for chain in chains {
            // Problems are renumbered without gaps, so that their numbers index the counts of a bootstrap sample.
            let next = numbers.len();
            let problem = *numbers.entry(chain.problem).or_insert(next);
            view.chains.push(Chain {
                problem,
                first_error: Prediction::new(chain, threshold),
                drifts: chain.scores.as_deref().and_then(drifts),
            });
            let Some(scores) = &chain.scores else {
                view.refused += 1;
                continue;
            };
            let steps = scores.iter().zip(&chain.labels).zip(&chain.lengths);
            for (at, ((&score, &label), &length)) in steps.enumerate() {
                let Some(label) = label.filter(|_| position(at)) else {
                    continue;
                };
                view.steps.push(Step {
                    problem,
                    score,
                    label,
                    class: class(label),
                    is_flagged: score < threshold,
                    length: f64::from(length),
                    width_bin: 0,
                    mass_bin: 0,
                });
            }
        }
        view.problems = numbers.len();
        view.prepare();
        view
    }

    fn prepare(&mut self) {
        // Bins are the same in all bootstrap samples. Bins that changed with the sample would add noise to the
        // calibration error.
        self.steps.sort_by(|a, b| a.score.total_cmp(&b.score));
        let scores: Vec<f32> = self.steps.iter().map(|step| step.score).collect();
        let width = Binning::EqualWidth.bins(&scores);
        let mass = Binning::EqualMass.bins(&scores);
        let lengths: f64 = self.steps.iter().map(|step| step.length).sum();
        let mean = lengths / self.steps.len().max(1) as f64;
        let sum: f64 = self.steps.iter().map(|step| f64::from(step.score)).sum();
        let mean_score = sum / self.steps.len().max(1) as f64;
        for (at, step) in self.steps.iter_mut().enumerate() {
            step.width_bin = width[at];
            step.mass_bin = mass[at];
            step.length -= mean;
        }
        self.tallies = vec![Tally::default(); self.problems];
        for chain in &self.chains {
            let tally = &mut self.tallies[chain.problem];
            if let Some(prediction) = chain.first_error {
                tally.first_errors.add(prediction);
            }
            if let Some(drifts) = chain.drifts {
                tally.could_drift += 1.0;
                tally.drifted += if drifts { 1.0 } else { 0.0 };
            }
        }
        for step in &self.steps {
            let tally = &mut self.tallies[step.problem];
            let score = f64::from(step.score);
            // A label of one half is neither right nor wrong. A step with this label counts only for the calibration
            // below.
            if let Some(is_right) = step.class {
                let class = usize::from(is_right);
                tally.confusion.add(is_right, step.is_flagged);
                tally.lengths[class].add(score - mean_score, step.length);
                tally.scores[class].0 += 1.0;
                tally.scores[class].1 += score;
            }
            tally.width.add(step.width_bin, score, step.label);
            tally.mass.add(step.mass_bin, score, step.label);
            tally.steps += 1.0;
            tally.squares += (score - step.label).powi(2);
            tally.certain += (score - 0.5).abs();
            tally.entropy += entropy(score);
        }
    }

    /// Returns the numbers of chains, problems and steps behind the figures.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let [right, wrong] = [true, false].map(|class| {
            let steps = self.steps.iter();
            steps.filter(|step| step.class == Some(class)).count()
        });
        let mut by_problem = vec![0; self.problems];
        for chain in &self.chains {
            by_problem[chain.problem] += 1;
        }
        Counts {
            chains: self.chains.len(),
            refused: self.refused,
            problems: self.problems,
            largest: by_problem.into_iter().max().unwrap_or(0),
            first_errors: self
                .chains
                .iter()
                .filter(|chain| chain.first_error.is_some())
                .count(),
            steps: self.steps.len(),
            right,
            wrong,
        }
    }

    /// Returns the mean label of the scored steps, or `None` without steps.
    #[must_use]
    pub fn mean_label(&self) -> Option<f64> {
        let sum: f64 = self.steps.iter().map(|step| step.label).sum();
        (!self.steps.is_empty()).then(|| sum / self.steps.len() as f64)
    }

    /// Computes first-error figures in which each problem has equal weight. A share is first computed for each
    /// problem, and then averaged over the problems that define it.
    #[must_use]
    pub fn over_problems(&self) -> OverProblems {
        let [on_wrong, on_right] = [Measure::OnWrong, Measure::OnRight].map(|of| {
            let values: Vec<f64> = self.tallies.iter().filter_map(|t| t.value(of)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        });
        let f1 = on_wrong.zip(on_right);
        OverProblems {
            on_wrong,
            on_right,
            f1: f1.map(|(a, b)| harmonic(a, b)),
        }
    }

    /// Computes every measure with an interval over problems. `seed` is for the bootstrap.
    #[must_use]
    pub fn figures(&self, seed: u64) -> Figures {
        Figures(resample(
            self.problems,
            Measure::ALL.map(Measure::range),
            seed,
            |counts| self.values(counts),
        ))
    }

    /// Computes every measure on all data without intervals, for tests.
    #[cfg(test)]
    pub(super) fn values_once(&self) -> [Option<f64>; Measure::ALL.len()] {
        self.values(&vec![1; self.problems])
    }

    /// Computes every measure if problem `i` is contained `counts[i]` times.
    fn values(&self, counts: &[u32]) -> [Option<f64>; Measure::ALL.len()] {
        let tally = self.tally(counts);
        Measure::ALL.map(|measure| match measure {
            Measure::Auc => auc(self.ranked(counts)),
            measure => tally.value(measure),
        })
    }

    fn tally(&self, counts: &[u32]) -> Tally {
        let mut tally = Tally::default();
        for (of_problem, &count) in self.tallies.iter().zip(counts) {
            // About a third of the problems are missing in a bootstrap sample.
            if count > 0 {
                tally.merge(of_problem, f64::from(count));
            }
        }
        tally
    }

    fn ranked(&self, counts: &[u32]) -> impl Iterator<Item = (f32, bool, f64)> {
        self.steps
            .iter()
            .filter_map(|step| Some((step.score, step.class?, f64::from(counts[step.problem]))))
    }

    /// Returns the ROC curve, which is empty if the steps are all right or all wrong.
    #[must_use]
    pub fn roc(&self) -> Vec<RocPoint> {
        roc(self.ranked(&vec![1; self.problems]))
    }

    /// Returns the point of the ROC curve at the threshold; `None` if the steps are all right or all wrong.
    #[must_use]
    pub fn flagged(&self) -> Option<RocPoint> {
        let share = |class| {
            let of_class = || self.steps.iter().filter(|step| step.class == Some(class));
            let flagged = of_class().filter(|step| step.is_flagged).count();
            (of_class().count() > 0).then(|| flagged as f64 / of_class().count() as f64)
        };
        Some(RocPoint {
            false_alarms: share(true)?,
            found: share(false)?,
        })
    }

    /// Returns the best F1 of wrong steps over thresholds; `None` if no step is wrong.
    #[must_use]
    pub fn best_f1_wrong(&self) -> Option<Best> {
        Best::of(|threshold| {
            let mut confusion = Confusion::default();
            for step in &self.steps {
                if let Some(is_right) = step.class {
                    confusion.add(is_right, step.score < threshold);
                }
            }
            confusion.f1_wrong()
        })
    }

    /// Returns the bins of the reliability diagram that have steps, by rising score. `seed` is for the intervals of
    /// the mean labels.
    #[must_use]
    pub fn calibration(&self, binning: Binning, seed: u64) -> Vec<Bin> {
        let bin = |step: &Step| match binning {
            Binning::EqualWidth => step.width_bin,
            Binning::EqualMass => step.mass_bin,
        };
        let sums = |counts: &[u32]| {
            let tally = self.tally(counts);
            match binning {
                Binning::EqualWidth => tally.width,
                Binning::EqualMass => tally.mass,
            }
        };
        let labels: [Option<Figure>; BINS] =
            resample(self.problems, [Range::Unit; BINS], seed, |counts| {
                sums(counts).labels()
            });
        let scores = sums(&vec![1; self.problems]).scores();
        let bins = (0..BINS).filter_map(|at| {
            // The steps are sorted by score, so the first and the last one of a bin have its extreme scores.
            let steps: Vec<&Step> = self
                .steps
                .iter()
                .filter(|step| usize::from(bin(step)) == at)
                .collect();
            Some(Bin {
                from: steps.first()?.score,
                to: steps.last()?.score,
                steps: steps.len(),
                score: scores[at]?,
                label: labels[at]?,
            })
        });
        bins.collect()
    }

    /// Returns the numbers of right and of wrong steps in `bins` bins of equal width on `[0, 1]`.
    #[must_use]
    pub fn histogram(&self, bins: usize) -> Vec<(usize, usize)> {
        let mut counts = vec![(0, 0); bins];
        for step in &self.steps {
            let bin = ((f64::from(step.score) * bins as f64) as usize).min(bins.saturating_sub(1));
            match step.class {
                Some(true) => counts[bin].0 += 1,
                Some(false) => counts[bin].1 += 1,
                None => {}
            }
        }
        counts
    }
}

/// Returns whether the last score is lower than all others; `None` for fewer than two scores.
fn drifts(scores: &[f32]) -> Option<bool> {
    let (last, others) = scores.split_last()?;
    (!others.is_empty()).then(|| others.iter().all(|other| last < other))
}

/// Returns the entropy of an event with probability `p`, in bits.
fn entropy(p: f64) -> f64 {
    // p log p tends to 0 at p = 0, where f64 gives NaN.
    let [yes, no] = [p, 1.0 - p].map(|p| if p > 0.0 { -p * p.log2() } else { 0.0 });
    yes + no
}
