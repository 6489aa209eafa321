//! Whether scores are probabilities: bins of the expected calibration error.

use serde::Serialize;

use super::Figure;

/// How many bins there are of either kind.
pub const BINS: usize = 10;

/// How scores are put into bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binning {
    /// Equally wide bins of `[0, 1]`; the last has both its ends.
    EqualWidth,
    /// Bins with equally many steps, as far as equal scores allow, which share a bin.
    EqualMass,
}

impl Binning {
    /// The bin, below [`BINS`], of each score; `scores` rise.
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

/// The first of equal values decides for all of them.
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

    /// The expected calibration error: the mean over steps of how far the mean score of their bin
    /// is from its mean label (Guo et al., 1706.04599). `None` without steps.
    pub(super) fn error(&self) -> Option<f64> {
        let all: f64 = self.bins.iter().map(|bin| bin.weight).sum();
        let apart: f64 = self
            .bins
            .iter()
            .map(|bin| (bin.score - bin.label).abs())
            .sum();
        (all > 0.0).then(|| apart / all)
    }

    /// The mean label in each bin.
    pub(super) fn labels(&self) -> [Option<f64>; BINS] {
        self.bins
            .map(|bin| (bin.weight > 0.0).then(|| bin.label / bin.weight))
    }

    /// The mean score in each bin.
    pub(super) fn scores(&self) -> [Option<f64>; BINS] {
        self.bins
            .map(|bin| (bin.weight > 0.0).then(|| bin.score / bin.weight))
    }
}

/// A bin that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// Its lowest score.
    pub from: f32,
    /// Its highest.
    pub to: f32,
    /// Labelled steps in it.
    pub steps: usize,
    /// Their mean score.
    pub score: f64,
    /// Their mean label.
    pub label: Figure,
}
