//! Choices among existing samples, by every rule and every aggregation of step scores.

use beamgen::eval::metrics::Interval;
use beamgen::eval::pool::{Sample, chosen_at_k};
use beamgen::{Aggregation, Choose};
use serde::Serialize;

use crate::intervals::interval;
use crate::report::markdown::{Column, between, share};

/// A share with its 95 % interval over problems.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Share {
    /// The share, 0 to 1, as a mean over problems.
    pub share: f64,
    /// The lower end of the 95 % interval over problems.
    pub low: f64,
    /// The upper end of the 95 % interval over problems.
    pub high: f64,
}

impl Share {
    /// Returns the mean of one share for each problem, with its interval.
    pub(crate) fn over(by_problem: &[f64]) -> Self {
        Self::from(interval(by_problem))
    }

    pub(crate) fn shown(self) -> String {
        between(self.share, (self.low, self.high), share)
    }
}

impl From<Interval> for Share {
    fn from(Interval { mean, low, high }: Interval) -> Self {
        Self {
            share: mean,
            low,
            high,
        }
    }
}

/// Returns the aggregations that need only step scores and no token probabilities of a generator.
pub(crate) fn aggregations() -> impl Iterator<Item = Aggregation> {
    Aggregation::ALL
        .into_iter()
        .filter(|of| !matches!(of, Aggregation::LikelyMin { .. }))
}

/// Returns the samples with new scores, the aggregation of each sample's step scores.
pub(crate) fn scored<'s>(
    samples: impl IntoIterator<Item = Sample>,
    steps: impl IntoIterator<Item = &'s Vec<f32>>,
    aggregation: Aggregation,
) -> Vec<Sample> {
    let pairs = samples.into_iter().zip(steps);
    pairs
        .map(|(sample, steps)| Sample {
            score: aggregation.fold(steps.iter().copied()),
            ..sample
        })
        .collect()
}

/// The accuracy of choices among the samples of a cell if step scores are aggregated in one way.
#[derive(Clone, Debug, Serialize)]
pub struct Aggregated {
    /// The name of the set.
    pub set: String,
    /// The label of the cell that stored the samples.
    pub name: String,
    /// The aggregation of step scores into the score of a sample.
    pub aggregation: Aggregation,
    /// The accuracy of best-of-N, which takes the answer of the sample with the highest score.
    pub best: Share,
    /// The accuracy of the weighted vote, which takes the answer with the largest sum of scores.
    pub weighted: Share,
}

/// The columns of a table of aggregations.
pub const AGGREGATIONS: [Column<Aggregated>; 3] = [
    ("aggregation", |row| row.aggregation.to_string()),
    ("best-of-N", |row| row.best.shown()),
    ("weighted", |row| row.weighted.shown()),
];

/// Returns the probability that the choice among all samples is right, or 0 without samples.
pub(crate) fn chosen(samples: &[Sample], how: Choose) -> f64 {
    // There is only one subset of all samples, so the seed has no effect.
    chosen_at_k(samples, samples.len(), how, 0).unwrap_or(0.0)
}
