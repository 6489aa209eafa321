use crate::finish::Finish;
use crate::ledger::Ledger;
use crate::problem::Problem;
use crate::result::ProblemResult;
use crate::tree::{ChainTree, NodeId};

/// What happens during a run, told as it happens.
///
/// `index` is the problem's position in the input. Nodes are those of the tree at that moment; the
/// result's tree is numbered anew.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A problem was taken from the input.
    ProblemStarted { index: usize, problem: &'a Problem },
    /// A step closed.
    StepClosed {
        index: usize,
        tree: &'a ChainTree,
        node: NodeId,
    },
    /// A step got its score.
    StepScored {
        index: usize,
        tree: &'a ChainTree,
        node: NodeId,
        score: f32,
    },
    /// An open chain was dropped in favour of better ones.
    ChainPruned {
        index: usize,
        tree: &'a ChainTree,
        node: NodeId,
    },
    /// A chain grows no further.
    ChainFinished {
        index: usize,
        tree: &'a ChainTree,
        node: NodeId,
        finish: Finish,
    },
    /// Memory ran out and the problem was set back; it will start again from nothing.
    ProblemRestarted { index: usize },
    /// A problem's result is there.
    ProblemDone { result: &'a ProblemResult },
    /// A forward pass of the generator is over.
    Pass {
        /// Chains that were in the middle of a step.
        rows: usize,
        in_flight: usize,
        /// The run so far.
        ledger: &'a Ledger,
    },
}
