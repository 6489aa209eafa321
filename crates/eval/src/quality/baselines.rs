//! Baselines for a reward model: scorers that do not read the text of the steps.
//!
//! A baseline is fitted to the same labels that it is measured on. Its figures are thus an upper bound of what the
//! share of right steps, the length or the position can predict. A useful model is better than all baselines.

use super::calibration::equal_mass;
use super::{BINS, ScoredChain};

/// The number of bins of [`Baseline::Length`]; bins have about equally many steps.
pub const LENGTH_BINS: usize = BINS;

/// The number of bins of [`Baseline::Position`]. The last bin also has all later steps.
pub const LONGEST_POSITION: usize = 10;

/// The property of a step that decides its score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// No property: the score is the mean of all labels.
    Prior,
    /// The length: the score is the mean label of steps with a similar length.
    Length,
    /// The position in the chain: the score is the mean label of steps at this position.
    Position,
}

impl Baseline {
    /// All baselines, in the order of reports.
    pub const ALL: [Self; 3] = [Self::Prior, Self::Length, Self::Position];

    /// Returns the name in tables and in JSON reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prior => "prior",
            Self::Length => "length",
            Self::Position => "position",
        }
    }

    /// Returns the chains with the scores of this baseline. Chains that the model refused get no scores, so that
    /// model and baseline are measured on the same steps.
    #[must_use]
    pub fn score(self, chains: &[ScoredChain]) -> Vec<ScoredChain> {
        let bins = self.bins(chains);
        let mut sums = vec![(0.0, 0.0); BINS.max(LONGEST_POSITION)];
        let mut all = (0.0, 0.0);
        let scored = chains
            .iter()
            .zip(&bins)
            .filter(|(chain, _)| chain.scores.is_some());
        for (chain, bins) in scored {
            for (&label, &bin) in chain.labels.iter().zip(bins) {
                let Some(label) = label else { continue };
                sums[bin].0 += label;
                sums[bin].1 += 1.0;
                all.0 += label;
                all.1 += 1.0;
            }
        }
        // A bin without labels gets the mean of all labels, or one half if there are no labels.
        let prior = mean(all).unwrap_or(0.5);
        let score = |bin: &usize| mean(sums[*bin]).unwrap_or(prior) as f32;
        let chains = chains.iter().zip(&bins).map(|(chain, bins)| {
            let scores = chain
                .scores
                .as_ref()
                .map(|_| bins.iter().map(score).collect());
            ScoredChain {
                scores,
                ..chain.clone()
            }
        });
        chains.collect()
    }

    fn bins(self, chains: &[ScoredChain]) -> Vec<Vec<usize>> {
        match self {
            Self::Prior => each_step(chains, |_, _| 0),
            Self::Position => each_step(chains, |at, _| at.min(LONGEST_POSITION - 1)),
            Self::Length => {
                let mut lengths: Vec<u32> = chains
                    .iter()
                    .flat_map(|chain| &chain.lengths)
                    .copied()
                    .collect();
                lengths.sort_unstable();
                let bins = equal_mass(&lengths);
                each_step(chains, |_, length| {
                    usize::from(bins[lengths.partition_point(|&l| l < length)])
                })
            }
        }
    }
}

fn mean((sum, count): (f64, f64)) -> Option<f64> {
    (count > 0.0).then(|| sum / count)
}

/// Returns the result of `bin` for each step of each chain, given the step's index and length.
fn each_step(chains: &[ScoredChain], bin: impl Fn(usize, u32) -> usize) -> Vec<Vec<usize>> {
    let chains = chains.iter().map(|chain| {
        let steps = chain.lengths.iter().enumerate();
        steps.map(|(at, &length)| bin(at, length)).collect()
    });
    chains.collect()
}
