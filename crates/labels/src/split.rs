//! Splitting chains into training and test sets.

use std::collections::{BTreeMap, BTreeSet};

use beamgen_eval::Fingerprint;

use crate::{LabelledChain, normalised};

/// A split by problem: all chains of a problem are in the same set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The indices of the training chains, in rising order.
    pub train: Vec<usize>,
    /// The indices of the test chains, in rising order.
    pub test: Vec<usize>,
    /// The indices of the chains in neither set, whose problems are excluded from training.
    pub excluded: Vec<usize>,
    /// The numbers of problems: training, test, excluded.
    pub problems: [usize; 3],
}

/// Splits chains into training and test sets. The test set gets `share` of the problems by
/// [`normalised`] text, and at least one.
///
/// The choice depends only on the seed and on the problems' texts, not on the order or number of
/// chains. A problem of `exclude` (normalised texts) is never in the training set; the test set
/// does not depend on `exclude`.
#[must_use]
pub fn split(chains: &[LabelledChain], share: f64, seed: u64, exclude: &BTreeSet<String>) -> Parts {
    let texts: Vec<String> = chains.iter().map(|c| normalised(&c.problem)).collect();
    // Ranked by hash: a problem keeps its rank when others are added, so the test set of a growing
    // file changes little.
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
        let part = if test.contains(text.as_str()) {
            &mut parts.test
        } else if exclude.contains(text) {
            &mut parts.excluded
        } else {
            &mut parts.train
        };
        part.push(i);
    }
    parts
}

/// Returns a pseudo-random sort key of a problem.
fn rank(text: &str, seed: u64) -> String {
    let mut hash = Fingerprint::default();
    hash.field(&seed.to_le_bytes());
    hash.field(text.as_bytes());
    hash.finish()
}
