//! The split of chains into training and test sets.

use std::collections::{BTreeMap, BTreeSet};

use beamgen_eval::Fingerprint;

use crate::{LabelledChain, normalised};

/// A split by problem: all chains of one problem are in the same set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The indices of the training chains, ascending.
    pub train: Vec<usize>,
    /// The indices of the test chains, ascending.
    pub test: Vec<usize>,
    /// The indices, ascending, of chains in neither set, because their problem must not be trained
    /// on.
    pub excluded: Vec<usize>,
    /// The number of problems in training, test and neither, in this order.
    pub problems: [usize; 3],
}

/// Splits chains into training and test sets. The test set gets the part `share` of the problems,
/// but at least one problem. Problems are equal if their [`normalised`] texts are.
///
/// The split depends only on `seed` and the problems' texts, not on the order or number of chains.
/// Problems in `exclude` (normalised texts) are never in the training set; the test set does not
/// depend on `exclude`.
#[must_use]
pub fn split(chains: &[LabelledChain], share: f64, seed: u64, exclude: &BTreeSet<String>) -> Parts {
    let texts: Vec<String> = chains.iter().map(|c| normalised(&c.problem)).collect();
    // Problems are ranked by hash: the ranks of two problems do not change if others are added, so
    // the test set of a growing file changes little.
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

/// Returns a sort key that depends only on the problem's text and the seed.
fn rank(text: &str, seed: u64) -> String {
    let mut hash = Fingerprint::default();
    hash.field(&seed.to_le_bytes());
    hash.field(text.as_bytes());
    hash.finish()
}
