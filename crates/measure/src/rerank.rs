//! Choices among samples that exist already: every rule, over every aggregation of step scores.

use beamgen::eval::metrics::Interval;
use beamgen::eval::pool::{Sample, chosen_at_k};
use beamgen::{Aggregation, Choose};
use serde::Serialize;

use crate::intervals::interval;
use crate::report::markdown::{Column, between, share};

/// A share with its 95 % interval over problems.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Share {
    /// The share, 0 to 1.
    pub share: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
}

impl Share {
    /// Returns the mean of a share per problem, with its interval.
    pub(crate) fn over(by_problem: &[f64]) -> Self {
        Self::from(interval(by_problem))
    }

    /// Writes the share in per cent, with the ends of its interval.
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

/// Returns the aggregations that need only step scores, without a generator's probabilities.
pub(crate) fn aggregations() -> impl Iterator<Item = Aggregation> {
    Aggregation::ALL
        .into_iter()
        .filter(|of| !matches!(of, Aggregation::LikelyMin { .. }))
}

/// Sets the score of each sample to an aggregation of its step scores.
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

/// The accuracy of best-of-N and of the weighted vote under an aggregation, from the samples of a
/// cell.
#[derive(Clone, Debug, Serialize)]
pub struct Aggregated {
    /// The name of the set.
    pub set: String,
    /// The label of the cell with the samples.
    pub name: String,
    /// The aggregation of step scores into a chain's score.
    pub aggregation: Aggregation,
    /// The accuracy of the best chain's answer.
    pub best: Share,
    /// The accuracy of the answer with the largest sum of scores.
    pub weighted: Share,
}

/// The columns of a table of aggregations.
pub const AGGREGATIONS: [Column<Aggregated>; 3] = [
    ("aggregation", |row| row.aggregation.to_string()),
    ("best-of-N", |row| row.best.shown()),
    ("weighted", |row| row.weighted.shown()),
];

/// Returns the probability that the choice among all samples is right; 0 without samples.
pub(crate) fn chosen(samples: &[Sample], how: Choose) -> f64 {
    // All samples together are the only subset, so the seed has no effect.
    chosen_at_k(samples, samples.len(), how, 0).unwrap_or(0.0)
}
