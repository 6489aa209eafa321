//! Strategies: pure policies that see a tree and answer with actions.

mod beam;
mod best_of_n;
mod greedy;

pub use beam::Beam;
pub use best_of_n::BestOfN;
pub use greedy::Greedy;

use crate::tree::{ChainTree, NodeId};

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Sample `count` next steps of an open node. A node is expanded once; steps are started in the
    /// order of the actions, so the most promising node comes first.
    Expand { node: NodeId, count: usize },
    /// Drop an open node and give its memory back.
    Prune(NodeId),
    /// Nothing more is wanted; what is still growing is dropped.
    Done,
}

/// When steps are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scoring {
    /// Every step as soon as it and its siblings have closed; the strategy sees the score.
    EveryStep,
    /// The chains that came to their end, each in one read, after the strategy is done.
    AtEnd,
    /// Not at all.
    Never,
}

/// The policy for one problem. It must not depend on the order in which nodes settle, only on the
/// tree: then the result does not depend on what else is in flight.
pub trait Strategy {
    /// When steps are scored; the same throughout.
    fn scoring(&self) -> Scoring;

    /// Whether siblings with the same text are one candidate. If so, siblings settle together.
    fn merges_siblings(&self) -> bool;

    /// The first actions; usually [`Action::Expand`] of the root.
    fn begin(&mut self) -> Vec<Action>;

    /// Called with the nodes that closed (and, with [`Scoring::EveryStep`], were scored) since the
    /// last call, in order of age: open or finished ones. `outstanding` steps are still to settle;
    /// if it is 0 and no step is asked for, the search ends.
    fn settled(&mut self, tree: &ChainTree, nodes: &[NodeId], outstanding: usize) -> Vec<Action>;
}
