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
    /// Something happened to a chain of a problem.
    Chain {
        /// The problem's position in the input.
        index: usize,
        /// The problem's chains so far.
        tree: &'a ChainTree,
        /// The step, and the chain that ends with it.
        node: NodeId,
        /// The event.
        what: ChainEvent<'a>,
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

/// An event of the chain that ends with a node.
#[derive(Debug, Clone, Copy)]
pub enum ChainEvent<'a> {
    /// The chain goes on: these steps were begun after it, without text yet.
    Expanded(&'a [NodeId]),
    /// The step is held up in its middle, to be scored as far as it goes.
    Paused,
    /// The step, which is held up, got the score that it has so far, in `[0, 1]`.
    PartlyScored(f32),
    /// The step was found to be one with this earlier sibling, which stands for both.
    Merged(NodeId),
    /// The step closed.
    Closed,
    /// The step got its score, in `[0, 1]`.
    Scored(f32),
    /// The chain was dropped: in favour of better ones, or because the search is over.
    Pruned,
    /// The chain grows no further, for this reason.
    Finished(Finish),
}
