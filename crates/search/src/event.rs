use crate::finish::Finish;
use crate::ledger::Ledger;
use crate::problem::Problem;
use crate::result::ProblemResult;
use crate::tree::{ChainTree, NodeId};

/// What happens during a run, told as it happens.
///
/// Nodes are those of the tree at that moment; the result's tree is numbered anew.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A problem was taken from the input.
    ProblemStarted {
        /// The problem's position in the input.
        index: usize,
        /// As it was given.
        problem: &'a Problem,
    },
    /// A step closed.
    StepClosed {
        /// The problem's position in the input.
        index: usize,
        /// The problem's chains so far.
        tree: &'a ChainTree,
        /// The step, and the chain that ends with it.
        node: NodeId,
    },
    /// A step got its score.
    StepScored {
        /// The problem's position in the input.
        index: usize,
        /// The problem's chains so far.
        tree: &'a ChainTree,
        /// The step, and the chain that ends with it.
        node: NodeId,
        /// In `[0, 1]`.
        score: f32,
    },
    /// An open chain was dropped in favour of better ones.
    ChainPruned {
        /// The problem's position in the input.
        index: usize,
        /// The problem's chains so far.
        tree: &'a ChainTree,
        /// The step, and the chain that ends with it.
        node: NodeId,
    },
    /// A chain grows no further.
    ChainFinished {
        /// The problem's position in the input.
        index: usize,
        /// The problem's chains so far.
        tree: &'a ChainTree,
        /// The step, and the chain that ends with it.
        node: NodeId,
        /// Why.
        finish: Finish,
    },
    /// Memory ran out and the problem was set back; it will start again from nothing.
    ProblemRestarted {
        /// The problem's position in the input.
        index: usize,
    },
    /// A problem's result is there.
    ProblemDone {
        /// Answer, chains, and what was spent.
        result: &'a ProblemResult,
    },
    /// A forward pass of the generator is over.
    Pass {
        /// Chains that were in the middle of a step.
        rows: usize,
        /// Problems at work.
        in_flight: usize,
        /// The run so far.
        ledger: &'a Ledger,
    },
}
