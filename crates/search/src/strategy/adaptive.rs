//! Best-of-N with as many chains as a problem needs: sampling ends as soon as the answer is sure
//! enough, or as many chains were drawn as give the wanted probability of success.

use super::{Action, Scoring, Start, Strategy};
use crate::aggregation::Aggregation;
use crate::config::SearchConfig;
use crate::tree::{ChainTree, NodeId, State};

/// Chains of the first round, and the fewest of a later one.
const ROUND: usize = 4;

/// Independent chains in rounds, each round scored when all of its chains have ended.
///
/// After a round, the search ends if the best complete chain is sure: its score is at least
/// [`sure_score`](SearchConfig::sure_score), which a calibration has found for the wanted probability
/// of success C. Otherwise more chains are drawn, at most N.
///
/// Without a `sure_score`, scores are taken for probabilities of success: a chain is sure from C on,
/// and the probability p that one more chain is right is the mean score of the first steps so far
/// (each is a draw of what the policy does with the question); then
/// `ceil(log(1 - C) / log(1 - p))` chains are wanted in all (instance-adaptive sampling,
/// 2506.09338). Chain `i` does not depend on any of this: it is chain `i` of best-of-N.
#[derive(Debug, Clone)]
pub struct AdaptiveN {
    n: usize,
    wanted: f64,
    /// From which score on a chain is sure; `None`: scores are probabilities.
    sure_score: Option<f32>,
    aggregation: Aggregation,
    /// Where chains begin.
    start: NodeId,
    /// Chains begun so far.
    drawn: usize,
    /// The last nodes of the chains that have come to their end, and whether each was scored.
    ended: Vec<NodeId>,
    asked: bool,
}

impl AdaptiveN {
    /// At most [`n`](SearchConfig::n) chains for a probability of success of
    /// [`confidence`](SearchConfig::confidence), which is below 1.
    pub(super) fn of(config: &SearchConfig) -> Self {
        Self {
            n: config.n,
            wanted: f64::from(config.confidence),
            sure_score: (config.sure_score > 0.0).then_some(config.sure_score),
            aggregation: config.aggregation,
            start: ChainTree::ROOT,
            drawn: 0,
            ended: Vec::new(),
            asked: false,
        }
    }

    fn draw(&mut self, count: usize) -> Action {
        self.drawn += count;
        Action::expand(self.start, count)
    }

    /// Whether the best complete chain is sure enough.
    fn is_sure(&self, tree: &ChainTree) -> bool {
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

    /// The chains that are wanted in all; `n` if nothing was scored, or scores are no
    /// probabilities.
    fn planned(&self, tree: &ChainTree) -> usize {
        if self.sure_score.is_some() {
            return self.n;
        }
        let first = |end: &NodeId| {
            let path = tree.path(*end).into_iter();
            let drawn = path.filter(|&id| id > self.start);
            let steps = drawn.map(|id| tree.node(id));
            steps.filter_map(|node| node.score).map(f64::from).next()
        };
        let firsts: Vec<f64> = self.ended.iter().filter_map(first).collect();
        if firsts.is_empty() {
            return self.n;
        }
        let p = firsts.iter().sum::<f64>() / firsts.len() as f64;
        enough(self.wanted, p).min(self.n)
    }
}

/// How many draws of success probability `p` have one success among them with probability `wanted`.
fn enough(wanted: f64, p: f64) -> usize {
    let draws = (1.0 - wanted).ln() / (1.0 - p.clamp(0.0, 1.0)).ln();
    match draws.is_finite() {
        true => draws.ceil().max(1.0) as usize,
        // Of a sure success one is enough, of none no number is.
        false if p > 0.5 => 1,
        false => usize::MAX,
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
        node == self.start && self.drawn < self.n
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        self.start = start.node;
        vec![self.draw(ROUND.min(self.n))]
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
            // All chains of the round have ended: they are scored together.
            self.asked = true;
            let complete = self.complete(tree).map(Action::Score);
            let complete: Vec<Action> = complete.collect();
            if !complete.is_empty() {
                return complete;
            }
        }
        self.asked = false;
        let planned = self.planned(tree);
        if self.is_sure(tree) || self.drawn >= planned {
            return vec![Action::Done];
        }
        let more = (planned - self.drawn).min(self.drawn).max(ROUND);
        let more = more.min(self.n - self.drawn);
        vec![self.draw(more)]
    }
}
