//! Bins of scores, for the reliability diagram and the expected calibration error.

use serde::Serialize;

use super::Figure;

/// The number of bins of either [`Binning`]; empty bins count too.
pub const BINS: usize = 10;

/// The rule that assigns scores to bins; the calibration error depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binning {
    /// Bins of equal width on `[0, 1]`. A bin includes its lower end, and the last bin also 1.
    EqualWidth,
    /// Bins with about equally many steps. Equal scores share a bin, so bins may differ in size.
    EqualMass,
}

impl Binning {
    /// Returns the bin of each score, from 0 to [`BINS`] - 1. `scores` must be sorted.
    pub(super) fn bins(self, scores: &[f32]) -> Vec<u8> {
        match self {
            Self::EqualWidth => {
                let bin =
                    |&score: &f32| ((f64::from(score) * BINS as f64) as usize).min(BINS - 1) as u8;
                scores.iter().map(bin).collect()
            }
            Self::EqualMass => equal_mass(scores),
        }
    }
}

/// Returns the equal-mass bin of each value. Equal values share the bin of the first one, since otherwise the order
/// of ties would change the calibration error.
pub(super) fn equal_mass<T: PartialEq>(rising: &[T]) -> Vec<u8> {
    let mut bins = Vec::with_capacity(rising.len());
    for (at, value) in rising.iter().enumerate() {
        let bin = if at > 0 && rising[at - 1] == *value {
            bins[at - 1]
        } else {
            (at * BINS / rising.len()) as u8
        };
        bins.push(bin);
    }
    bins
}

/// Weighted sums in each bin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    bins: [Sum; BINS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    weight: f64,
    score: f64,
    label: f64,
}

impl Sums {
    pub(super) fn add(&mut self, bin: u8, score: f64, label: f64) {
        let sum = &mut self.bins[usize::from(bin)];
        sum.weight += 1.0;
        sum.score += score;
        sum.label += label;
    }

    /// Adds other sums, `weight` times.
    pub(super) fn merge(&mut self, other: &Self, weight: f64) {
        for (bin, other) in self.bins.iter_mut().zip(&other.bins) {
            bin.weight += weight * other.weight;
            bin.score += weight * other.score;
            bin.label += weight * other.label;
        }
    }

    /// Returns the expected calibration error (Guo et al., arXiv 1706.04599): the distance of mean score and mean
    /// label of a bin, averaged over steps. Returns `None` without steps.
    pub(super) fn error(&self) -> Option<f64> {
        let all: f64 = self.bins.iter().map(|bin| bin.weight).sum();
        // |mean score - mean label| times the weight of the bin is the distance of the sums.
        let apart: f64 = self
            .bins
            .iter()
            .map(|bin| (bin.score - bin.label).abs())
            .sum();
        (all > 0.0).then(|| apart / all)
    }

    /// Returns the mean label of each bin, or `None` for an empty bin.
    pub(super) fn labels(&self) -> [Option<f64>; BINS] {
        self.bins
            .map(|bin| (bin.weight > 0.0).then(|| bin.label / bin.weight))
    }

    /// Returns the mean score of each bin, or `None` for an empty bin.
    pub(super) fn scores(&self) -> [Option<f64>; BINS] {
        self.bins
            .map(|bin| (bin.weight > 0.0).then(|| bin.score / bin.weight))
    }
}

/// A bin of the reliability diagram with at least one step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// The lowest score among the bin's steps, not the border of the bin.
    pub from: f32,
    /// The highest score among the bin's steps, not the border of the bin.
    pub to: f32,
    /// The number of scored steps with a label in this bin.
    pub steps: usize,
    /// The mean score over the bin's steps; equal to `label` for a calibrated model.
    pub score: f64,
    /// The mean label over the bin's steps, with an interval over problems.
    pub label: Figure,
}
