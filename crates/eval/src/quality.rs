//! The quality of a reward model's step scores, measured on labelled chains.
//!
//! [`measure`] computes every [`Measure`] for a list of [`ScoredChain`]s. The interval of a measure
//! resamples *problems*, because steps of one chain and chains of one problem are alike. A figure
//! that is not defined on the data is `None`, for example an area under the ROC curve without wrong steps.

mod baselines;
mod calibration;
mod chain;
mod confusion;
mod correlation;
mod first_error;
mod measures;
mod ranking;
mod resample;
mod tally;
mod view;

pub use baselines::{Baseline, LENGTH_BINS, LONGEST_POSITION};
pub use calibration::{BINS, Bin, Binning};
pub use chain::{InvalidChain, ScoredChain};
pub use confusion::Confusion;
use correlation::Moments;
pub use correlation::{pearson, spearman};
pub use first_error::Best;
pub use measures::{Figures, Measure};
pub use ranking::{RocPoint, auc};
pub use resample::{Figure, resample};
pub use view::{Counts, OverProblems, View};

/// Computes all measures of `chains` with intervals. A score below `threshold` flags a step as wrong. `seed` is for
/// the bootstrap.
#[must_use]
pub fn measure<'a>(
    chains: impl IntoIterator<Item = &'a ScoredChain>,
    threshold: f32,
    seed: u64,
) -> Figures {
    View::new(chains, threshold, |_| true).figures(seed)
}

#[cfg(test)]
mod tests;
