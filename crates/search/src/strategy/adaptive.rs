//! Best-of-N with as many chains as a problem needs: sampling stops when the answer is sure enough,
//! or when enough chains were sampled for the wanted probability of success.

use super::{Action, Scoring, Start, Strategy};
use crate::aggregation::Aggregation;
use crate::config::SearchConfig;
use crate::tree::{ChainTree, NodeId, State};

/// The number of chains of the first round, and the least number of a later round.
const ROUND: usize = 4;

/// Best-of-N that samples independent chains in rounds and scores each round when all of its chains
/// have ended.
///
/// After a round, the search ends if the best complete chain is sure enough: its score is at least
/// [`sure_score`](SearchConfig::sure_score). A calibration finds that score for the wanted
/// probability of success C. Otherwise more chains are sampled, at most N in all.
///
/// Without a `sure_score`, scores are taken as probabilities of success, and a chain is sure if its
/// score is at least C. The probability p that another chain is right is estimated by the mean
/// score of the first
/// steps so far, which are independent samples for the same question. The number of chains to
/// sample in all is `ceil(log(1 - C) / log(1 - p))` (instance-adaptive sampling,
/// <https://arxiv.org/abs/2506.09338>).
///
/// Chain `i` is always chain `i` of best-of-N; only the number of chains depends on the scores.
#[derive(Debug, Clone)]
pub struct AdaptiveN {
    n: usize,
    wanted: f64,
    /// The lowest score of a chain that is sure enough; `None`: scores are probabilities.
    sure_score: Option<f32>,
    aggregation: Aggregation,
    /// The node that all chains begin with: the root or the last given step.
    start: NodeId,
    /// The number of chains begun so far.
    sampled: usize,
    /// The last nodes of the chains that have ended, incomplete chains included.
    ended: Vec<NodeId>,
    /// Whether the scores of a round were requested and have not arrived yet.
    asked: bool,
}

impl AdaptiveN {
    /// Makes the strategy for a probability of success of [`confidence`](SearchConfig::confidence),
    /// which is below 1, with at most [`n`](SearchConfig::n) chains.
    pub(super) fn of(config: &SearchConfig) -> Self {
        Self {
            n: config.n,
            wanted: f64::from(config.confidence),
            sure_score: (config.sure_score > 0.0).then_some(config.sure_score),
            aggregation: config.aggregation,
            start: ChainTree::ROOT,
            sampled: 0,
            ended: Vec::new(),
            asked: false,
        }
    }

    fn sample(&mut self, count: usize) -> Action {
        self.sampled += count;
        Action::expand(self.start, count)
    }

    /// Whether the best complete chain scores high enough for the wanted probability of success.
    fn is_sure(&self, tree: &ChainTree) -> bool {
        // Chains cut short by a limit have scores, but no answer, so only complete chains count.
        let ends = self.complete(tree);
        let scores = ends.filter_map(|end| tree.chain_score(end, self.aggregation));
        let best = scores.max_by(f32::total_cmp);
        best.is_some_and(|best| match self.sure_score {
            Some(sure) => best >= sure,
            None => f64::from(best) >= self.wanted,
        })
    }

    fn complete(&self, tree: &ChainTree) -> impl Iterator<Item = NodeId> {
        let ended = self.ended.iter().copied();
        ended.filter(|&end| tree.node(end).is_complete())
    }

    /// Returns the number of chains to sample in all; N if no first step was scored, or if scores
    /// are not probabilities.
    fn planned(&self, tree: &ChainTree) -> usize {
        if self.sure_score.is_some() {
            return self.n;
        }
        let mut firsts: Vec<f64> = Vec::new();
        for &end in &self.ended {
            // The first scored step after the given steps: given steps are the same for all chains,
            // so they are no sample.
            let path = tree.path(end).into_iter();
            let mut sampled = path.filter(|&id| id > self.start);
            let first = sampled.find_map(|id| tree.node(id).score);
            firsts.extend(first.map(f64::from));
        }
        if firsts.is_empty() {
            return self.n;
        }
        let p = firsts.iter().sum::<f64>() / firsts.len() as f64;
        enough(self.wanted, p).min(self.n)
    }
}

/// Returns the number of samples with success probability `p` of which at least one succeeds with
/// probability `wanted`.
fn enough(wanted: f64, p: f64) -> usize {
    let count = (1.0 - wanted).ln() / (1.0 - p.clamp(0.0, 1.0)).ln();
    if count.is_finite() {
        count.ceil().max(1.0) as usize
    } else if p > 0.5 {
        // With p = 1 the quotient is not finite, and one sample is enough.
        1
    } else {
        // With p = 0 no number of samples is enough.
        usize::MAX
    }
}

impl Strategy for AdaptiveN {
    fn scoring(&self) -> Scoring {
        Scoring::OnDemand
    }

    fn merges_siblings(&self) -> bool {
        false
    }

    fn keeps_expanded(&self, node: NodeId) -> bool {
        node == self.start && self.sampled < self.n
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        self.start = start.node;
        vec![self.sample(ROUND.min(self.n))]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        if !self.asked {
            let mut actions = Vec::new();
            for &node in nodes {
                match tree.node(node).state {
                    State::Open => actions.push(Action::expand(node, 1)),
                    _ => self.ended.push(node),
                }
            }
            if !actions.is_empty() {
                return actions;
            }
            // All chains of the round have ended, so one scorer call can read them together.
            self.asked = true;
            let complete = self.complete(tree).map(Action::Score);
            let complete: Vec<Action> = complete.collect();
            if !complete.is_empty() {
                return complete;
            }
        }
        self.asked = false;
        let planned = self.planned(tree);
        if self.is_sure(tree) || self.sampled >= planned {
            return vec![Action::Done];
        }
        // At most doubled in a round: the estimate of p is crude while few chains are known.
        let more = (planned - self.sampled).min(self.sampled).max(ROUND);
        let more = more.min(self.n - self.sampled);
        vec![self.sample(more)]
    }
}
