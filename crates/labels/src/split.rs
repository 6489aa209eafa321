//! Chains for training and chains to test with.

use std::collections::{BTreeMap, BTreeSet};

use beamgen_eval::Fingerprint;

use crate::{LabelledChain, normalised};

/// A part of each file, by problem: all chains of a problem are on the same side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Indices of the chains to train on, in their order.
    pub train: Vec<usize>,
    /// Indices of the chains to test with, in their order.
    pub test: Vec<usize>,
    /// Indices of chains that are in neither, because their problems are excluded from training.
    pub excluded: Vec<usize>,
    /// How many problems each of the three has.
    pub problems: [usize; 3],
}

/// Gives the share of the problems to the test, by [`normalised`] text, at least one. Which ones
/// depends on the seed and on the problems' texts alone, not on the chains' order or number. A
/// problem of `exclude` (normalised texts) is not in the training part; the test part does not
/// depend on `exclude`.
#[must_use]
pub fn split(chains: &[LabelledChain], share: f64, seed: u64, exclude: &BTreeSet<String>) -> Parts {
    let texts: Vec<String> = chains.iter().map(|c| normalised(&c.problem)).collect();
    let ranked: BTreeMap<String, &str> = texts
        .iter()
        .map(|text| (rank(text, seed), text.as_str()))
        .collect();
    let tested = (ranked.len() as f64 * share).round().max(1.0) as usize;
    let test: BTreeSet<&str> = ranked.values().copied().take(tested).collect();
    let left: BTreeSet<&str> = ranked.values().copied().skip(tested).collect();
    let excluded = left.iter().filter(|&&text| exclude.contains(text)).count();
    let mut parts = Parts {
        problems: [left.len() - excluded, test.len(), excluded],
        ..Parts::default()
    };
    for (i, text) in texts.iter().enumerate() {
        let part = match test.contains(text.as_str()) {
            true => &mut parts.test,
            false if exclude.contains(text) => &mut parts.excluded,
            false => &mut parts.train,
        };
        part.push(i);
    }
    parts
}

/// Where a problem stands among all, as if drawn at random.
fn rank(text: &str, seed: u64) -> String {
    let mut hash = Fingerprint::default();
    hash.field(&seed.to_le_bytes());
    hash.field(text.as_bytes());
    hash.finish()
}
