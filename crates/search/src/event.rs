use crate::finish::Finish;
use crate::ledger::Ledger;
use crate::problem::Problem;
use crate::result::ProblemResult;
use crate::tree::{ChainTree, NodeId};

/// Something that happens during a run, reported at once. Steps of rollouts have no events of their
/// own.
///
/// Nodes are numbered as in the tree at that moment; the tree of the result is renumbered.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A problem was taken from the input.
    ProblemStarted {
        /// The problem's position in the input.
        index: usize,
        /// The problem as it was given.
        problem: &'a Problem,
    },
    /// The state of a chain of a problem changed.
    Chain {
        /// The problem's position in the input.
        index: usize,
        /// All chains of the problem so far.
        tree: &'a ChainTree,
        /// The node of the step; the chain is the path to it.
        node: NodeId,
        /// The change, with the data that belongs to it.
        what: ChainEvent<'a>,
    },
    /// Memory ran out and the problem was set back; it will start again from nothing.
    ProblemRestarted {
        /// The problem's position in the input.
        index: usize,
    },
    /// The search of a problem has ended and its result is made.
    ProblemDone {
        /// The answer, the chains and the cost.
        result: &'a ProblemResult,
        /// Bytes that the chains of other problems hold in the caches.
        cache_bytes: u64,
    },
    /// A forward pass of the generator has ended.
    Pass {
        /// The number of chains that were in the middle of a step.
        rows: usize,
        /// The number of problems in flight.
        in_flight: usize,
        /// Bytes that chains hold in the caches of both models.
        cache_bytes: u64,
        /// The cost of the run so far.
        ledger: &'a Ledger,
    },
}

/// A change to the chain that ends with a node.
#[derive(Debug, Clone, Copy)]
pub enum ChainEvent<'a> {
    /// The chain continues: these steps were begun after it and have no text yet.
    Expanded(&'a [NodeId]),
    /// The step was paused in the middle, so that its beginning can be scored.
    Paused,
    /// The beginning of the paused step got this score, in `[0, 1]`.
    PartlyScored(f32),
    /// The step has the same text as this earlier sibling, which now represents both.
    Merged(NodeId),
    /// The step closed.
    Closed,
    /// The step got this score, in `[0, 1]`.
    Scored(f32),
    /// The chain was dropped for better ones, or because the search has ended.
    Pruned,
    /// The chain ended for this reason.
    Finished(Finish),
}
