//! The bins of the reliability diagram and the expected calibration error.

use serde::Serialize;

use super::Figure;

/// The number of bins of either kind.
pub const BINS: usize = 10;

/// The kind of bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binning {
    /// Equally wide bins of `[0, 1]`. A bin includes its lower end, the last also its upper end.
    EqualWidth,
    /// Bins with equally many steps. Equal scores share a bin, so bins may differ in size.
    EqualMass,
}

impl Binning {
    /// Returns the bin, below [`BINS`], of each score. `scores` must rise.
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

/// Returns the equal-mass bin of each value. The first of equal values decides for all of them:
/// otherwise the order of ties would change the calibration error.
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

    /// Returns the expected calibration error: the distance of mean score and mean label in each
    /// bin, averaged over steps (Guo et al., arXiv 1706.04599). Returns `None` without steps.
    pub(super) fn error(&self) -> Option<f64> {
        let all: f64 = self.bins.iter().map(|bin| bin.weight).sum();
        // |mean score - mean label| times the share of steps: the weight of the bin cancels out.
        let apart: f64 = self
            .bins
            .iter()
            .map(|bin| (bin.score - bin.label).abs())
            .sum();
        (all > 0.0).then(|| apart / all)
    }

    /// Returns the mean label in each bin; `None` for an empty bin.
    pub(super) fn labels(&self) -> [Option<f64>; BINS] {
        self.bins
            .map(|bin| (bin.weight > 0.0).then(|| bin.label / bin.weight))
    }

    /// Returns the mean score in each bin; `None` for an empty bin.
    pub(super) fn scores(&self) -> [Option<f64>; BINS] {
        self.bins
            .map(|bin| (bin.weight > 0.0).then(|| bin.score / bin.weight))
    }
}

/// A bin of the reliability diagram that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// The lowest score in the bin.
    pub from: f32,
    /// The highest score in the bin.
    pub to: f32,
    /// The number of labelled steps in the bin.
    pub steps: usize,
    /// The mean score of the bin's steps.
    pub score: f64,
    /// The mean label of the bin's steps, with its interval over problems.
    pub label: Figure,
}
