//! Wrong rollouts that may be searched for their own first errors, and the choice of the next one
//! (`OmegaPRM`, <https://arxiv.org/abs/2406.06592>).

use beamgen_search::{ChainTree, NodeId};

use super::sampled::Prefix;

/// The base of the value's first factor, which rises with the share of right rollouts of the
/// prefix: a prefix that is usually completed rightly is most worth searching.
const ALPHA: f64 = 0.5;
/// The base of the value's second factor, which falls with the length of the rollout.
const BETA: f64 = 0.9;
/// The length, in tokens, at which the second factor has fallen to [`BETA`].
const USUAL_TOKENS: f64 = 500.0;
/// The weight of the bonus for prefixes that were seldom chosen.
const EXPLORATION: f64 = 0.125;

/// A wrong rollout that may be searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// The index of the prefix that the rollout continues.
    pub prefix: usize,
    /// The last node of the rollout.
    pub end: NodeId,
}

/// Takes the rollout with the largest Q + U out of the pool, where Q = alpha^(1 - MC) beta^(tokens
/// / 500) and U = c sqrt(sum of N) / (1 + N). MC is the share of right rollouts of the rollout's
/// prefix, and N is how often that prefix was chosen. Rollouts with an MC of 0 or 1 stay in the
/// pool.
pub(super) fn select(
    pool: &mut Vec<Candidate>,
    prefixes: &mut [Prefix],
    tree: &ChainTree,
) -> Option<Candidate> {
    let chosen: u32 = prefixes.iter().map(|prefix| prefix.chosen).sum();
    let mut best: Option<(f64, u64, usize)> = None;
    for (at, candidate) in pool.iter().enumerate() {
        let prefix = &prefixes[candidate.prefix];
        // Without a right rollout the error may be in the prefix itself.
        if prefix.k == 0 || prefix.k == prefix.n {
            continue;
        }
        let share = f64::from(prefix.k) / f64::from(prefix.n);
        let tokens = tree.token_count(candidate.end) - tree.token_count(prefix.node);
        let q = ALPHA.powf(1.0 - share) * BETA.powf(tokens as f64 / USUAL_TOKENS);
        let u = EXPLORATION * f64::from(chosen).sqrt() / f64::from(1 + prefix.chosen);
        // Ties go to the smaller stream: the numbers of nodes depend on when memory was free, streams
        // do not.
        let stream = tree.node(candidate.end).stream;
        let is_better = best.is_none_or(|(most, first, _)| {
            let order = (q + u).total_cmp(&most).then(first.cmp(&stream));
            order.is_gt()
        });
        if is_better {
            best = Some((q + u, stream, at));
        }
    }
    let candidate = pool.swap_remove(best?.2);
    prefixes[candidate.prefix].chosen += 1;
    Some(candidate)
}
