//! The pool of wrong rollouts in which a first error may be searched, and the choice of the next
//! rollout (`OmegaPRM`, <https://arxiv.org/abs/2406.06592>).

use beamgen_search::{ChainTree, NodeId};

use super::sampled::Prefix;

/// The base alpha of Q. Its factor grows with the share of right rollouts: if most rollouts of a
/// prefix are right, an error in a wrong one is most informative.
const ALPHA: f64 = 0.5;
/// The base beta of Q. Its factor falls with the length of the rollout.
const BETA: f64 = 0.9;
/// The length in tokens at which the second factor of Q equals [`BETA`].
const USUAL_TOKENS: f64 = 500.0;
/// The factor c of U, which favours prefixes that were rarely chosen.
const EXPLORATION: f64 = 0.125;

/// A wrong rollout in which the first error may be searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// The index of the prefix after which the rollout begins.
    pub prefix: usize,
    /// The node of the tree at which the rollout ends.
    pub end: NodeId,
}

/// Takes the rollout with the largest Q + U out of the pool, where Q = alpha^(1 - MC) beta^(tokens
/// / 500) and U = c sqrt(sum of N) / (1 + N). MC is the share of right rollouts from the rollout's
/// prefix, and N counts how often a rollout of that prefix was chosen. Rollouts with MC 0 or 1 are
/// never chosen and stay in the pool.
pub(super) fn select(
    pool: &mut Vec<Candidate>,
    prefixes: &mut [Prefix],
    tree: &ChainTree,
) -> Option<Candidate> {
    let chosen: u32 = prefixes.iter().map(|prefix| prefix.chosen).sum();
    let mut best: Option<(f64, u64, usize)> = None;
    for (at, candidate) in pool.iter().enumerate() {
        let prefix = &prefixes[candidate.prefix];
        // With MC 0 the error may be in the prefix; with MC 1 no rollout is wrong.
        if prefix.k == 0 || prefix.k == prefix.n {
            continue;
        }
        let share = f64::from(prefix.k) / f64::from(prefix.n);
        let tokens = tree.token_count(candidate.end) - tree.token_count(prefix.node);
        let q = ALPHA.powf(1.0 - share) * BETA.powf(tokens as f64 / USUAL_TOKENS);
        let u = EXPLORATION * f64::from(chosen).sqrt() / f64::from(1 + prefix.chosen);
        // Ties go to the smaller stream. Node ids depend on when memory was free, streams do not.
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
