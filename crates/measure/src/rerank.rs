//! Choosing among samples that are there: every rule over every way to make one score of many.

use beamgen::eval::metrics::Interval;
use beamgen::eval::pool::{Sample, chosen_at_k};
use beamgen::{Aggregation, Choose};
use serde::Serialize;

use crate::intervals::interval;
use crate::report::markdown::{Column, between, share};

/// A share with its 95 % interval over problems.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Share {
    /// The share.
    pub share: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Share {
    /// The mean of one share a problem.
    pub(crate) fn over(by_problem: &[f64]) -> Self {
        Self::from(interval(by_problem))
    }

    /// The share in per cent with its ends.
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

/// The aggregations of step scores alone, without what a generator says of the steps.
pub(crate) fn aggregations() -> impl Iterator<Item = Aggregation> {
    let needs_generator = |of: &Aggregation| matches!(of, Aggregation::LikelyMin { .. });
    Aggregation::ALL
        .into_iter()
        .filter(move |of| !needs_generator(of))
}

/// Samples with what an aggregation makes of the scores of their steps.
pub(crate) fn scored<'s>(
    samples: impl IntoIterator<Item = Sample>,
    steps: impl IntoIterator<Item = &'s Vec<f32>>,
    aggregation: Aggregation,
) -> Vec<Sample> {
    let pairs = samples.into_iter().zip(steps);
    let score = |(sample, steps): (Sample, &Vec<f32>)| Sample {
        score: aggregation.fold(steps.iter().copied()),
        ..sample
    };
    pairs.map(score).collect()
}

/// The accuracy of best-of-N and of the weighted vote under one aggregation, from the samples of a cell.
#[derive(Clone, Debug, Serialize)]
pub struct Aggregated {
    /// The name of the set.
    pub set: String,
    /// The cell that the samples are from.
    pub name: String,
    /// How the scores of a chain's steps become its score.
    pub aggregation: Aggregation,
    /// The answer of the best chain.
    pub best: Share,
    /// The answer with the largest sum of scores.
    pub weighted: Share,
}

/// The columns of a table of aggregations.
pub const AGGREGATIONS: [Column<Aggregated>; 3] = [
    ("aggregation", |row| row.aggregation.to_string()),
    ("best-of-N", |row| row.best.shown()),
    ("weighted", |row| row.weighted.shown()),
];

/// The probability that what is chosen of all samples is right; without any it is 0.
pub(crate) fn chosen(samples: &[Sample], how: Choose) -> f64 {
    chosen_at_k(samples, samples.len(), how, 0).unwrap_or(0.0)
}
