//! The search strategy that samples chains to their end and then rollouts from their prefixes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use beamgen_search::{Action, ChainTree, NodeId, OutcomeKind, Scoring, Start, State, Strategy};

use super::bisect::Search;
use super::pool::Candidate;
use super::sampled::{End, Part, Sampled};
use super::{Grader, Mine, Mode, MonteCarlo};

pub(super) struct Labeller {
    options: MonteCarlo,
    is_right: Grader,
    /// The samples, which [`Labelling`](super::Labelling) reads.
    sampled: Arc<Mutex<Sampled>>,
    phase: Phase,
    cache_tokens: usize,
    /// The maximum number of rollouts that grow at the same time.
    width: u32,
    /// The number of rollouts that were searched for a first error so far.
    searches: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Chains are being sampled.
    Chains,
    /// The chains are being scored, to choose among them.
    Scores(Mine),
    /// Rollouts are being sampled.
    Rollouts,
}

/// The limit for [`Labeller::width`], in rollouts of one problem.
const WIDEST: u32 = 128;

/// Returns how many rollouts may grow at the same time. One problem takes at most a quarter of the
/// cache, since other problems are searched, too. The width changes the order of sampling but not
/// the samples.
fn width(cache_tokens: usize, longest_chain: u64) -> u32 {
    let fit = cache_tokens as u64 / (4 * longest_chain.max(1));
    u32::try_from(fit).unwrap_or(u32::MAX).clamp(1, WIDEST)
}

impl Labeller {
    pub(super) fn new(options: MonteCarlo, is_right: Grader, sampled: Arc<Mutex<Sampled>>) -> Self {
        Self {
            options,
            is_right,
            sampled,
            phase: Phase::Chains,
            cache_tokens: 0,
            width: 1,
            searches: 0,
        }
    }

    fn end(&self, tree: &ChainTree, node: NodeId) -> Option<End> {
        match tree.node(node).state {
            State::Open => None,
            State::Finished(finish) => {
                let outcome = tree.node(node).outcome.as_ref().map(|outcome| outcome.kind);
                // A chain that the verifier cannot judge is neither right nor wrong.
                if let Some(OutcomeKind::Unknown | OutcomeKind::Lost) = outcome {
                    return Some(End::Lost);
                }
                Some(End::of(finish, || match outcome {
                    Some(kind) => kind == OutcomeKind::Right,
                    None => (self.is_right)(&tree.solution(node)),
                }))
            }
            // Neither open nor finished: the budget or the end of the search pruned the node.
            _ => Some(End::Lost),
        }
    }

    /// Returns the number of rollouts per prefix. The adaptive mode needs the share of right
    /// chains, so all chains must have ended.
    fn target(&self, sampled: &Sampled) -> u32 {
        let times = match (self.options.mode, sampled.pass_rate()) {
            (Mode::Adaptive, Some(0.9..)) => 1,
            (Mode::Adaptive, Some(0.1..)) => 2,
            (Mode::Adaptive, _) => 4,
            _ => 1,
        };
        self.options.rollouts.saturating_mul(times)
    }

    /// Returns the prefixes that need more rollouts now, each with the number of rollouts.
    fn wanted(&self, sampled: &Sampled) -> Vec<(usize, u32)> {
        let left = |at: usize| sampled.target - sampled.prefixes[at].drawn;
        let all = (0..sampled.prefixes.len()).filter(|at| {
            let mined = sampled.mined.as_ref();
            mined.is_none_or(|mined| mined.contains(at))
        });
        match self.options.mode {
            Mode::All | Mode::Adaptive => all.map(|at| (at, left(at))).collect(),
            Mode::Early => {
                let mut waves = Vec::new();
                for at in all {
                    let prefix = &sampled.prefixes[at];
                    if prefix.alive == 0 && prefix.k == 0 {
                        // As many again as were requested so far: each wave doubles the total.
                        waves.push((at, prefix.drawn.max(1).min(left(at))));
                    }
                }
                waves
            }
            Mode::Binary => {
                // A chain that is not a hard example may share prefixes with one, but is not
                // searched itself.
                let chains = sampled.chains.iter();
                let chains = chains.filter(|chain| sampled.mined.is_none() || chain.mined);
                let needed = chains.filter_map(|chain| match sampled.search(chain) {
                    Search::Needs(step) => Some(chain.prefixes[step]),
                    _ => None,
                });
                let mut needed: Vec<usize> = needed.collect();
                // Chains with a common beginning may need the same step: its rollouts are started
                // once.
                needed.sort_unstable();
                needed.dedup();
                needed.into_iter().map(|at| (at, left(at))).collect()
            }
        }
    }

    /// Chooses the hard examples by score, releases the caches of all other chains, and starts
    /// rollouts.
    fn mine(&mut self, mine: Mine, sampled: &mut Sampled, tree: &ChainTree) -> Vec<Action> {
        self.phase = Phase::Rollouts;
        let ends: Vec<NodeId> = sampled.chains.iter().map(|chain| chain.node).collect();
        sampled.mine(mine.wrong, |at| {
            tree.chain_score(ends[at], mine.aggregation)
        });
        let mined = sampled.mined.clone().unwrap_or_default();
        let mut actions = Vec::new();
        for (at, prefix) in sampled.prefixes.iter().enumerate() {
            if !mined.contains(&at) && sampled.kept.remove(&prefix.node) {
                actions.push(Action::Prune(prefix.node));
            }
        }
        self.begin_rollouts(sampled, tree, &mut actions);
        actions
    }

    /// Starts rollouts until `width` of them grow at the same time.
    fn begin_rollouts(&self, sampled: &mut Sampled, tree: &ChainTree, actions: &mut Vec<Action>) {
        let alive: u32 = sampled.prefixes.iter().map(|prefix| prefix.alive).sum();
        let mut room = self.width.saturating_sub(alive);
        let mut is_idle = alive == 0;
        for (at, count) in self.wanted(sampled) {
            let prefix = &mut sampled.prefixes[at];
            if tree.node(prefix.node).state != State::Expanded {
                // The budget pruned the prefix and its cache is gone: its rollouts count as done.
                prefix.drawn = sampled.target;
                continue;
            }
            let count = match self.options.mode {
                // A wave is started whole or not at all. The end of a wave decides which rollouts
                // are dropped, and results must not depend on the memory.
                Mode::Early if count > room && !is_idle => 0,
                Mode::Early => count,
                _ => count.min(room),
            };
            if count == 0 {
                continue;
            }
            is_idle = false;
            room = room.saturating_sub(count);
            prefix.drawn += count;
            if prefix.drawn == sampled.target {
                // The last rollout takes the cache over, so the cache need not be kept for another
                // fork.
                sampled.kept.remove(&prefix.node);
            }
            actions.push(Action::expand(prefix.node, count as usize));
        }
    }
}

/// Locks the samples. If a grader panicked under the lock, the samples are still consistent, so a
/// poisoned lock is used.
pub(super) fn lock(sampled: &Mutex<Sampled>) -> MutexGuard<'_, Sampled> {
    sampled.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Strategy for Labeller {
    fn scoring(&self) -> Scoring {
        match self.options.mine {
            Some(_) => Scoring::OnDemand,
            None => Scoring::Never,
        }
    }

    /// Labels may follow from the reference, so any verifier may be asked.
    fn asks_verifier(&self) -> bool {
        true
    }

    /// Two equal rollouts are two samples, and each counts.
    fn merges_siblings(&self) -> bool {
        false
    }

    fn keeps_expanded(&self, node: NodeId) -> bool {
        lock(&self.sampled).kept.contains(&node)
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        // The search restarts a problem that it set back: earlier samples are dropped.
        *lock(&self.sampled) = Sampled::default();
        self.cache_tokens = start.cache_tokens;
        self.phase = Phase::Chains;
        self.searches = 0;
        vec![Action::expand(start.node, self.options.chains)]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        let shared = Arc::clone(&self.sampled);
        let sampled = &mut *lock(&shared);
        // Every growing rollout is reported in the same call, so the counts start at 0. A rollout
        // that is not in `nodes` was dropped by the budget.
        for prefix in &mut sampled.prefixes {
            prefix.alive = 0;
        }
        if let Phase::Scores(mine) = self.phase {
            return self.mine(mine, sampled, tree);
        }
        let mut chains_grow = false;
        let mut growing = Vec::new();
        let mut released = Vec::new();
        for &node in nodes {
            let end = self.end(tree, node);
            let (continues, rollout_of) =
                match sampled.part(tree, node, self.phase == Phase::Chains) {
                    None => (false, None),
                    Some(Part::Chain(chain)) => (sampled.grow(chain, tree, node, end), None),
                    Some(Part::Rollout(prefix)) => {
                        sampled.roll(prefix, node, end);
                        if self.options.mine.is_some() && end.is_some() {
                            // A graded rollout is removed from the tree; otherwise the search would
                            // score it at its end.
                            released.push(node);
                        }
                        // A wrong rollout may be searched later; that needs the caches of all its
                        // steps.
                        if self.options.searches > 0 {
                            match end {
                                None => _ = sampled.kept.insert(node),
                                Some(End::Wrong) => {
                                    sampled.pool.push(Candidate { prefix, end: node });
                                }
                                Some(_) => released.extend(sampled.release(tree, node, prefix)),
                            }
                        }
                        (end.is_none(), Some(prefix))
                    }
                };
            if continues {
                chains_grow |= rollout_of.is_none();
                growing.push((node, rollout_of));
            }
        }
        for candidate in sampled.take_hopeless() {
            released.extend(sampled.release(tree, candidate.end, candidate.prefix));
        }
        let mut actions: Vec<Action> = released.into_iter().map(Action::Prune).collect();
        for (node, rollout_of) in growing {
            let settled = rollout_of.filter(|&prefix| {
                self.options.mode == Mode::Early && sampled.prefixes[prefix].k > 0
            });
            match settled {
                None => actions.push(Action::expand(node, 1)),
                Some(prefix) => {
                    sampled.prefixes[prefix].alive -= 1;
                    sampled.rollout_of.remove(&node);
                    actions.push(Action::Prune(node));
                    let node = sampled.prefixes[prefix].node;
                    if sampled.kept.remove(&node) {
                        actions.push(Action::Prune(node));
                    }
                }
            }
        }
        if self.phase == Phase::Chains && !chains_grow {
            self.phase = Phase::Rollouts;
            sampled.target = self.target(sampled);
            self.width = width(self.cache_tokens, sampled.longest());
            if self.options.mixed && !sampled.is_mixed() {
                // No prefix is in the empty set, so this problem gets no rollouts.
                sampled.mined = Some(HashSet::new());
                let kept = std::mem::take(&mut sampled.kept);
                actions.extend(kept.into_iter().map(Action::Prune));
            } else if let Some(mine) = self.options.mine {
                self.phase = Phase::Scores(mine);
                let ended = sampled.ended().into_iter();
                actions.extend(ended.map(|at| Action::Score(sampled.chains[at].node)));
            }
        }
        if self.phase == Phase::Rollouts {
            self.begin_rollouts(sampled, tree, &mut actions);
            // One search at a time: the choice of the next rollout depends on the earlier results.
            while self.searches < self.options.searches
                && !actions.iter().any(|a| matches!(a, Action::Expand { .. }))
                && sampled.reuse_rollout(tree)
            {
                self.searches += 1;
                self.begin_rollouts(sampled, tree, &mut actions);
            }
        }
        actions
    }
}
