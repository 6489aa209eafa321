//! Wrong rollouts that wait to be searched for their own first errors, and which is next
//! (`OmegaPRM`, 2406.06592).

use beamgen_search::{ChainTree, NodeId};

use super::sampled::Prefix;

/// Falls with the share of right rollouts of the prefix: close to right is most worth searching.
const ALPHA: f64 = 0.5;
/// Falls with the rollout's length.
const BETA: f64 = 0.9;
/// The length, in tokens, at which the value of a rollout has fallen by [`BETA`].
const USUAL_TOKENS: f64 = 500.0;
/// The weight of prefixes that were seldom chosen.
const EXPLORATION: f64 = 0.125;

/// A wrong rollout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// The prefix it begins behind.
    pub prefix: usize,
    /// Its last node.
    pub end: NodeId,
}

/// Takes the rollout with the largest Q + U out of the pool, where Q = alpha^(1 - MC) beta^(tokens
/// / 500) and U = c sqrt(sum of N) / (1 + N). MC is the share of right rollouts of its prefix,
/// which is neither 0 nor 1, and N how often that prefix was chosen.
pub(super) fn select(
    pool: &mut Vec<Candidate>,
    prefixes: &mut [Prefix],
    tree: &ChainTree,
) -> Option<Candidate> {
    let chosen: u32 = prefixes.iter().map(|prefix| prefix.chosen).sum();
    let value = |candidate: &Candidate| {
        let prefix = &prefixes[candidate.prefix];
        if prefix.k == 0 || prefix.k == prefix.n {
            return None;
        }
        let share = f64::from(prefix.k) / f64::from(prefix.n);
        let tokens = tree.token_count(candidate.end) - tree.token_count(prefix.node);
        let q = ALPHA.powf(1.0 - share) * BETA.powf(tokens as f64 / USUAL_TOKENS);
        let u = EXPLORATION * f64::from(chosen).sqrt() / f64::from(1 + prefix.chosen);
        Some(q + u)
    };
    // Nodes are numbered as memory allows; streams are not.
    let stream = |candidate: &Candidate| tree.node(candidate.end).stream;
    let best = (0..pool.len())
        .filter_map(|at| Some((value(&pool[at])?, at)))
        .max_by(|&(a, i), &(b, j)| {
            a.total_cmp(&b)
                .then(stream(&pool[j]).cmp(&stream(&pool[i])))
        });
    let candidate = pool.swap_remove(best?.1);
    prefixes[candidate.prefix].chosen += 1;
    Some(candidate)
}
