use serde::{Deserialize, Serialize};

use crate::choose::{Choose, FinishedChain, choose, ranked};
use crate::ledger::Ledger;
use crate::problem::Problem;
use crate::tree::{ChainTree, Node, NodeId};

/// What became of one problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProblemResult {
    /// Position in the input, from 0.
    pub index: usize,
    /// The problem as it came.
    pub problem: Problem,
    /// Everything that was sampled, in depth-first order.
    pub tree: ChainTree,
    /// All chains that grew no further of themselves, in depth-first order; incomplete ones too.
    pub finished: Vec<FinishedChain>,
    /// Last node of the chain to show: the one whose answer was chosen or, if there is no answer,
    /// the best chain there is.
    pub chosen: Option<NodeId>,
    /// The answer. `None` is "no answer": no complete chain states one, or it is withheld.
    pub answer: Option<String>,
    /// Whether the answer is a guess: nothing in the chosen chain marks it as the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_guess: bool,
    /// The answer that would have been given, were the score of its chain not below the threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// Score of the chosen chain.
    pub score: Option<f32>,
    /// Why the problem was refused, if it was (a prompt longer than the context, say).
    pub error: Option<String>,
    /// What it cost.
    pub ledger: Ledger,
    /// Seconds from admission to the result.
    pub elapsed: f64,
}

impl ProblemResult {
    /// The chosen chain step by step, without empty steps.
    pub fn steps(&self) -> Vec<&Node> {
        self.chosen
            .map(|node| self.tree.steps(node).collect())
            .unwrap_or_default()
    }

    /// The chosen chain if it is a finished one.
    pub fn chosen_chain(&self) -> Option<&FinishedChain> {
        let chosen = self.chosen?;
        self.finished.iter().find(|chain| chain.node == chosen)
    }

    /// The chain that another way of choosing takes from the same search.
    pub fn choose(&self, how: Choose, chains: usize) -> Option<&FinishedChain> {
        choose_capped(&self.finished, how, chains).map(|i| &self.finished[i])
    }

    /// The chain that best-of-`k` would have chosen. Meaningful for a best-of-N result with
    /// N >= `k`: its chains are independent and in the order of their streams.
    pub fn choose_first(&self, k: usize, how: Choose) -> Option<&FinishedChain> {
        let first = &self.finished[..k.min(self.finished.len())];
        choose(first, how).map(|i| &first[i])
    }
}

/// [`choose`] among at most `limit` chains: a search that met more answers than its N gives the
/// vote to those with the best scores, not to those that ended first.
pub(crate) fn choose_capped(chains: &[FinishedChain], how: Choose, limit: usize) -> Option<usize> {
    let mut best = ranked(chains);
    best.truncate(limit);
    best.sort_unstable();
    let pool: Vec<FinishedChain> = best.iter().map(|&i| chains[i].clone()).collect();
    choose(&pool, how).map(|i| best[i])
}

/// What a run spent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RunSummary {
    /// Results delivered.
    pub problems: usize,
    /// Problems refused with an error.
    pub failed: usize,
    /// Problems with an answer.
    pub answered: usize,
    /// Problems set back and begun again because memory ran out. What they had spent is in the
    /// ledger here and in no problem's.
    pub restarts: usize,
    /// All that was spent.
    pub ledger: Ledger,
    /// Seconds of the whole run.
    pub elapsed: f64,
}
