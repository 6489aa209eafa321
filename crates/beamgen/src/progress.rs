//! What happens to a request's problem, as its reader is told.

use std::collections::BTreeMap;

use beamgen_search::{ChainEvent, ChainTree, Event, Finish, Node, NodeId, Pruned};

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
            | Event::Chain { index, .. }
            | Event::ProblemRestarted { index } => Some(index),
            Event::ProblemDone { .. } | Event::Pass { .. } => None,
        }
    }

    pub(crate) fn of(event: &Event<'_>) -> Option<Self> {
        match *event {
            Event::ProblemStarted { .. } => Some(Self::Started),
            Event::Chain {
                tree, node, what, ..
            } => Some(Self::of_chain(tree, node, what)),
            Event::ProblemRestarted { .. } => Some(Self::Restarted),
            Event::ProblemDone { .. } | Event::Pass { .. } => None,
        }
    }

    fn of_chain(tree: &ChainTree, node: NodeId, what: ChainEvent<'_>) -> Self {
        let at = tree.node(node);
        match what {
            ChainEvent::Expanded(children) => Self::ChainExpanded {
                node,
                children: children.to_vec(),
                round: children.first().and_then(|&child| tree.node(child).round),
            },
            ChainEvent::Paused => Self::StepPaused {
                node,
                step: Box::new(at.clone()),
            },
            ChainEvent::PartlyScored(score) => Self::StepPartlyScored {
                node,
                score,
                judges: at.judges.clone(),
            },
            ChainEvent::Merged(twin) => Self::StepMerged {
                node,
                twin,
                copies: tree.node(twin).copies,
            },
            ChainEvent::Closed => Self::StepClosed {
                node,
                step: Box::new(at.clone()),
            },
            ChainEvent::Scored(score) => Self::StepScored {
                node,
                score,
                judges: at.judges.clone(),
            },
            ChainEvent::Pruned => Self::ChainPruned {
                node,
                pruned: at.pruned,
            },
            ChainEvent::Finished(finish) => Self::ChainFinished {
                node,
                finish,
                text: tree.solution(node),
            },
        }
    }
}
