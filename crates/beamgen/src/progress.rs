//! The events of one request, for its reader.

use std::collections::BTreeMap;

use beamgen_search::{ChainEvent, ChainTree, Event, Finish, Node, NodeId, Pruned};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// An event of a request. Node ids refer to the search tree at the time of the event; the result's
/// tree numbers its nodes differently.
///
/// Serialized, an event is an object whose key `event` has its name. A step has its text and, once
/// closed, its parent. Scores of single judges and texts of answers are left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Progress {
    /// The search of the request started.
    Started,
    /// New steps were begun after the last step of a chain.
    ChainExpanded {
        /// The last step of the chain.
        node: NodeId,
        /// The steps begun now, without text yet.
        children: Vec<NodeId>,
        /// The round of the search, if its strategy works in rounds.
        round: Option<u32>,
    },
    /// A step was paused before its end, so that its text so far can be scored.
    StepPaused {
        /// The step.
        node: NodeId,
        /// The step so far.
        #[serde(rename = "text", serialize_with = "text")]
        step: Box<Node>,
    },
    /// A paused step got a score for its text so far.
    StepPartlyScored {
        /// The step.
        node: NodeId,
        /// The probability that it is right.
        score: f32,
        /// The score of each judge by name; `None` if the judge abstained. Empty with a single
        /// judge.
        #[serde(skip)]
        judges: BTreeMap<String, Option<f32>>,
    },
    /// A step closed.
    StepClosed {
        /// The step.
        node: NodeId,
        /// The step with its text, tokens and parent.
        #[serde(flatten, serialize_with = "text_and_parent")]
        step: Box<Node>,
    },
    /// A step has the same text as an earlier sibling, which now represents both.
    StepMerged {
        /// The step.
        node: NodeId,
        /// The earlier sibling that stays.
        twin: NodeId,
        /// The number of steps that the sibling represents now, including itself.
        copies: usize,
    },
    /// A step got its score.
    StepScored {
        /// The step.
        node: NodeId,
        /// The probability that it is right.
        score: f32,
        /// The score of each judge by name; `None` if the judge abstained. Empty with a single
        /// judge.
        #[serde(skip)]
        judges: BTreeMap<String, Option<f32>>,
    },
    /// A chain was dropped, because others are better or because the search is over.
    ChainPruned {
        /// The last step of the chain.
        node: NodeId,
        /// The reason, with the chain's rank and the cutoff; `None` if none was recorded.
        pruned: Option<Pruned>,
    },
    /// A chain came to its end.
    ChainFinished {
        /// The last step of the chain.
        node: NodeId,
        /// The reason why the chain ended.
        finish: Finish,
        /// The text that is searched for the answer
        /// ([`ChainTree::solution`](beamgen_search::ChainTree::solution)).
        #[serde(skip)]
        text: String,
    },
    /// Memory ran out. The search starts again, and all earlier nodes are invalid.
    Restarted,
}

fn text<S: Serializer>(step: &Node, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&step.text)
}

fn text_and_parent<S: Serializer>(step: &Node, to: S) -> Result<S::Ok, S::Error> {
    let mut fields = to.serialize_map(Some(2))?;
    fields.serialize_entry("parent", &step.parent)?;
    fields.serialize_entry("text", &step.text)?;
    fields.end()
}

impl Progress {
    /// Returns the index of the problem that an event belongs to; `None` for an event of the whole
    /// run.
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
            // The result itself shows that a problem is finished, and a pass belongs to all
            // problems.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_serialized_as_python_reads_them() {
        let node = json!({
            "parent": 0, "children": [], "depth": 1, "stream": 0, "tokens": [1], "text": "1 + 1 = 2.\n",
            "logprob": -1.0, "score": null, "state": "open",
        });
        let step: Box<Node> = serde_json::from_value(node).unwrap();
        let judges = BTreeMap::from([("judge".to_owned(), Some(0.5))]);
        let node = NodeId(3);
        for (event, want) in [
            (Progress::Started, json!({"event": "started"})),
            (
                Progress::ChainExpanded {
                    node,
                    children: vec![NodeId(4)],
                    round: None,
                },
                json!({"event": "chain-expanded", "node": 3, "children": [4], "round": null}),
            ),
            (
                Progress::StepPaused {
                    node,
                    step: step.clone(),
                },
                json!({"event": "step-paused", "node": 3, "text": "1 + 1 = 2.\n"}),
            ),
            (
                Progress::StepPartlyScored {
                    node,
                    score: 0.5,
                    judges: judges.clone(),
                },
                json!({"event": "step-partly-scored", "node": 3, "score": 0.5}),
            ),
            (
                Progress::StepClosed { node, step },
                json!({"event": "step-closed", "node": 3, "parent": 0, "text": "1 + 1 = 2.\n"}),
            ),
            (
                Progress::StepMerged {
                    node,
                    twin: NodeId(2),
                    copies: 2,
                },
                json!({"event": "step-merged", "node": 3, "twin": 2, "copies": 2}),
            ),
            (
                Progress::StepScored {
                    node,
                    score: 0.1,
                    judges,
                },
                json!({"event": "step-scored", "node": 3, "score": 0.1_f32}),
            ),
            (
                Progress::ChainPruned { node, pruned: None },
                json!({"event": "chain-pruned", "node": 3, "pruned": null}),
            ),
            (
                Progress::ChainFinished {
                    node,
                    finish: Finish::EndOfText,
                    text: "2".to_owned(),
                },
                json!({"event": "chain-finished", "node": 3, "finish": "end-of-text"}),
            ),
            (Progress::Restarted, json!({"event": "restarted"})),
        ] {
            assert_eq!(serde_json::to_value(&event).unwrap(), want);
        }
        let scored = Progress::StepScored {
            node,
            score: 0.1,
            judges: BTreeMap::new(),
        };
        assert!(serde_json::to_string(&scored).unwrap().contains("0.1}"));
    }
}
