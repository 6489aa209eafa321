use super::{Action, BestOfN, Scoring, Start, Strategy, StrategySpec};
use crate::tree::{ChainTree, NodeId};

/// One chain, never branched. With temperature 0 in the generator it is greedy decoding.
#[derive(Debug, Clone)]
pub struct Greedy(BestOfN);

impl Greedy {
    /// `scored` says whether the chain's steps are scored when it is finished.
    pub fn new(scored: bool) -> Self {
        Self(BestOfN::new(1, scored))
    }
}

impl Strategy for Greedy {
    fn scoring(&self) -> Scoring {
        self.0.scoring()
    }

    fn merges_siblings(&self) -> bool {
        false
    }

    fn in_rounds(&self) -> bool {
        self.0.in_rounds()
    }

    fn begin(&mut self, start: Start) -> Vec<Action> {
        self.0.begin(start)
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        self.0.on_steps(tree, nodes)
    }
}

/// The row of the table of strategies.
pub(super) const SPEC: StrategySpec = StrategySpec {
    in_rounds: false,
    is_greedy: true,
    needs_scorer: |config| (config.threshold > 0.0).then_some("a threshold"),
    chains: |_| 1,
    ..StrategySpec::new(
        "greedy",
        "one chain of the likeliest tokens",
        |_, has_scorer| Ok(Box::new(Greedy::new(has_scorer))),
    )
};
