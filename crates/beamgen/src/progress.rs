//! What happens to a request's problem, as its reader is told.

use beamgen_search::{Event, Finish, NodeId};

/// What happens to a request's problem, told as it happens. Nodes are those of the tree at that
/// moment; the result's tree is numbered anew.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// It left the queue.
    Started,
    /// A step closed.
    StepClosed {
        /// The step.
        node: NodeId,
        /// The step before it.
        parent: Option<NodeId>,
        /// Its text, boundary included.
        text: String,
    },
    /// A step got its score.
    StepScored {
        /// The step.
        node: NodeId,
        /// The probability that it is right.
        score: f32,
    },
    /// A chain was dropped in favour of better ones.
    ChainPruned {
        /// Its last step.
        node: NodeId,
    },
    /// A chain grows no further.
    ChainFinished {
        /// Its last step.
        node: NodeId,
        /// Why.
        finish: Finish,
    },
    /// Memory ran out; the problem will start again from nothing.
    Restarted,
}

impl Progress {
    pub(crate) fn of(event: &Event<'_>) -> Option<(usize, Self)> {
        Some(match *event {
            Event::ProblemStarted { index, .. } => (index, Self::Started),
            Event::StepClosed { index, tree, node } => {
                let step = tree.node(node);
                let (parent, text) = (step.parent, step.text.clone());
                (index, Self::StepClosed { node, parent, text })
            }
            Event::StepScored {
                index, node, score, ..
            } => (index, Self::StepScored { node, score }),
            Event::ChainPruned { index, node, .. } => (index, Self::ChainPruned { node }),
            Event::ChainFinished {
                index,
                node,
                finish,
                ..
            } => (index, Self::ChainFinished { node, finish }),
            Event::ProblemRestarted { index } => (index, Self::Restarted),
            Event::ProblemDone { .. } | Event::Pass { .. } => return None,
        })
    }
}
