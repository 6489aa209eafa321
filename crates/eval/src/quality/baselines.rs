//! Scorers that do not read the text, to hold a model against.
//!
//! They are fitted on the very labels that they are measured on, so they show at best what the
//! prior, the length or the place of a step tells; a model has to be better than all of them.

use super::calibration::equal_mass;
use super::{BINS, ScoredChain};

/// How many bins of length [`Baseline::Length`] has.
pub const LENGTH_BINS: usize = BINS;

/// Steps at this position, counted from 1, and later ones are one bin of [`Baseline::Position`].
pub const LONGEST_POSITION: usize = 10;

/// What a baseline looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Nothing: every step has the mean label.
    Prior,
    /// The step's length: the mean label among steps of about that length.
    Length,
    /// The step's number: the mean label among steps with that number.
    Position,
}

impl Baseline {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Prior, Self::Length, Self::Position];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prior => "prior",
            Self::Length => "length",
            Self::Position => "position",
        }
    }

    /// The same chains with this baseline's scores. A chain that the model refused stays refused,
    /// so that both are measured on the same steps.
    #[must_use]
    pub fn score(self, chains: &[ScoredChain]) -> Vec<ScoredChain> {
        let bins = self.bins(chains);
        let mut sums = vec![(0.0, 0.0); BINS.max(LONGEST_POSITION)];
        let mut all = (0.0, 0.0);
        let scored = |chain: &&ScoredChain| chain.scores.is_some();
        for (chain, bins) in chains.iter().zip(&bins).filter(|(chain, _)| scored(chain)) {
            for (&label, &bin) in chain.labels.iter().zip(bins) {
                let Some(label) = label else { continue };
                sums[bin].0 += label;
                sums[bin].1 += 1.0;
                all.0 += label;
                all.1 += 1.0;
            }
        }
        let mean = |(sum, count): (f64, f64)| (count > 0.0).then(|| sum / count);
        // A bin in which no step has a label, and chains without any, take what is left to take.
        let prior = mean(all).unwrap_or(0.5);
        let score = |bin: &usize| mean(sums[*bin]).unwrap_or(prior) as f32;
        let with_scores = |(chain, bins): (&ScoredChain, &Vec<usize>)| ScoredChain {
            scores: chain
                .scores
                .as_ref()
                .map(|_| bins.iter().map(score).collect()),
            ..chain.clone()
        };
        chains.iter().zip(&bins).map(with_scores).collect()
    }

    /// The bin of every step of every chain.
    fn bins(self, chains: &[ScoredChain]) -> Vec<Vec<usize>> {
        let each = |bin: &dyn Fn(usize, u32) -> usize| {
            let of = |chain: &ScoredChain| {
                let steps = chain.lengths.iter().enumerate();
                steps.map(|(at, &length)| bin(at, length)).collect()
            };
            chains.iter().map(of).collect()
        };
        match self {
            Self::Prior => each(&|_, _| 0),
            Self::Position => each(&|at, _| at.min(LONGEST_POSITION - 1)),
            Self::Length => {
                let mut lengths: Vec<u32> = chains
                    .iter()
                    .flat_map(|chain| &chain.lengths)
                    .copied()
                    .collect();
                lengths.sort_unstable();
                let bins = equal_mass(&lengths);
                each(&|_, length| usize::from(bins[lengths.partition_point(|&l| l < length)]))
            }
        }
    }
}
