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
    /// A chain goes on: steps were begun after it.
    ChainExpanded {
        /// The problem's position in the input.
        index: usize,
        /// The problem's chains so far.
        tree: &'a ChainTree,
        /// The step that they follow.
        node: NodeId,
        /// The steps begun now, without text yet.
        children: &'a [NodeId],
    },
    /// A step is held up in its middle, to be scored as far as it goes.
    StepPaused {
        /// The problem's position in the input.
        index: usize,
        /// The problem's chains so far.
        tree: &'a ChainTree,
        /// The step, and the chain that ends with it.
        node: NodeId,
    },
    /// A step that is held up got the score that it has so far.
    StepPartlyScored {
        /// The problem's position in the input.
        index: usize,
        /// The problem's chains so far.
        tree: &'a ChainTree,
        /// The step, and the chain that ends with it.
        node: NodeId,
        /// In `[0, 1]`.
        score: f32,
    },
    /// A step was found to be one with an earlier sibling.
    StepMerged {
        /// The problem's position in the input.
        index: usize,
        /// The problem's chains so far.
        tree: &'a ChainTree,
        /// The step.
        node: NodeId,
        /// The sibling that stands for both.
        twin: NodeId,
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
    /// A chain was dropped: in favour of better ones, or because the search is over.
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
        /// Bytes that the chains of other problems hold in the caches.
        cache_bytes: u64,
    },
    /// A forward pass of the generator is over.
    Pass {
        /// Chains that were in the middle of a step.
        rows: usize,
        /// Problems at work.
        in_flight: usize,
        /// Bytes that chains hold in the caches of both models.
        cache_bytes: u64,
        /// The run so far.
        ledger: &'a Ledger,
    },
}
