//! What happens to a request's problem, as its reader is told.

use std::collections::BTreeMap;

use beamgen_search::{Event, Finish, Node, NodeId, Pruned};

/// What happens to a request's problem, told as it happens. Nodes are those of the tree at that
/// moment; the result's tree is numbered anew.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// It left the queue.
    Started,
    /// A chain goes on: steps were begun after it.
    ChainExpanded {
        /// The step that they follow.
        node: NodeId,
        /// The steps begun now, without text yet.
        children: Vec<NodeId>,
        /// The round of the search, if its strategy works in rounds.
        round: Option<u32>,
    },
    /// A step is held up in its middle, to be scored as far as it goes.
    StepPaused {
        /// The step.
        node: NodeId,
        /// The step so far.
        step: Box<Node>,
    },
    /// A step that is held up got the score that it has so far.
    StepPartlyScored {
        /// The step.
        node: NodeId,
        /// The probability that it is right.
        score: f32,
        /// What each judge said, if there are several, by name; `None` for one that abstained.
        judges: BTreeMap<String, Option<f32>>,
    },
    /// A step closed.
    StepClosed {
        /// The step.
        node: NodeId,
        /// Its text, its tokens, the step before it.
        step: Box<Node>,
    },
    /// A step has the text of an earlier sibling, which stands for both.
    StepMerged {
        /// The step.
        node: NodeId,
        /// The sibling.
        twin: NodeId,
        /// How many have that text by now.
        copies: usize,
    },
    /// A step got its score.
    StepScored {
        /// The step.
        node: NodeId,
        /// The probability that it is right.
        score: f32,
        /// What each judge said, if there are several, by name; `None` for one that abstained.
        judges: BTreeMap<String, Option<f32>>,
    },
    /// A chain was dropped: in favour of better ones, or because the search is over.
    ChainPruned {
        /// Its last step.
        node: NodeId,
        /// Why, and how.
        pruned: Option<Pruned>,
    },
    /// A chain grows no further.
    ChainFinished {
        /// Its last step.
        node: NodeId,
        /// Why.
        finish: Finish,
        /// Text that its answer is found in ([`ChainTree::solution`](beamgen_search::ChainTree::solution)).
        text: String,
    },
    /// Memory ran out; the problem will start again from nothing.
    Restarted,
}

impl Progress {
    /// The problem that an event is about; `None` if it is about the run.
    pub(crate) fn index(event: &Event<'_>) -> Option<usize> {
        match *event {
            Event::ProblemStarted { index, .. }
            | Event::ChainExpanded { index, .. }
            | Event::StepPaused { index, .. }
            | Event::StepPartlyScored { index, .. }
            | Event::StepMerged { index, .. }
            | Event::StepClosed { index, .. }
            | Event::StepScored { index, .. }
            | Event::ChainPruned { index, .. }
            | Event::ChainFinished { index, .. }
            | Event::ProblemRestarted { index } => Some(index),
            Event::ProblemDone { .. } | Event::Pass { .. } => None,
        }
    }

    pub(crate) fn of(event: &Event<'_>) -> Option<Self> {
        Some(match *event {
            Event::ProblemStarted { .. } => Self::Started,
            Event::ChainExpanded {
                tree,
                node,
                children,
                ..
            } => Self::ChainExpanded {
                node,
                children: children.to_vec(),
                round: children.first().and_then(|&child| tree.node(child).round),
            },
            Event::StepPaused { tree, node, .. } => Self::StepPaused {
                node,
                step: Box::new(tree.node(node).clone()),
            },
            Event::StepPartlyScored {
                tree, node, score, ..
            } => Self::StepPartlyScored {
                node,
                score,
                judges: tree.node(node).judges.clone(),
            },
            Event::StepMerged {
                tree, node, twin, ..
            } => Self::StepMerged {
                node,
                twin,
                copies: tree.node(twin).copies,
            },
            Event::StepClosed { tree, node, .. } => Self::StepClosed {
                node,
                step: Box::new(tree.node(node).clone()),
            },
            Event::StepScored {
                tree, node, score, ..
            } => Self::StepScored {
                node,
                score,
                judges: tree.node(node).judges.clone(),
            },
            Event::ChainPruned { tree, node, .. } => Self::ChainPruned {
                node,
                pruned: tree.node(node).pruned,
            },
            Event::ChainFinished {
                tree, node, finish, ..
            } => Self::ChainFinished {
                node,
                finish,
                text: tree.solution(node),
            },
            Event::ProblemRestarted { .. } => Self::Restarted,
            Event::ProblemDone { .. } | Event::Pass { .. } => return None,
        })
    }
}
