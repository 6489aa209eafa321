//! Converts events of a search to JSON. A step has the keys of a node of the tree in a run file;
//! docs/reference/http.md lists all types of events.

use std::collections::{BTreeMap, HashMap};

use beamgen::Progress;
use beamgen::eval::MathAnswers;
use beamgen::result::{Answer, Answers};
use beamgen::strategy::{Finish, Node, NodeId};
use serde_json::{Value, json};

/// Converts events of one search to JSON, and counts the votes for each answer on the way.
#[derive(Default)]
pub(crate) struct Events {
    /// The number of tokens of all steps closed so far.
    pub tokens: usize,
    /// The number of votes for each class of equal answers.
    votes: HashMap<String, usize>,
    /// The class and the answer of each complete chain, by its last node.
    answers: HashMap<NodeId, (String, Answer)>,
}

impl Events {
    /// Appends the JSON of an event to `to`, and an event `answer` if the votes change.
    pub(crate) fn add(&mut self, progress: &Progress, to: &mut Vec<Value>) {
        match progress {
            Progress::Started => to.push(json!({"type": "started"})),
            Progress::ChainExpanded {
                node,
                children,
                round,
            } => {
                let mut event = json!({"type": "expanded", "node": node, "children": children});
                if let Some(round) = round {
                    event["round"] = (*round).into();
                }
                to.push(event);
            }
            Progress::StepPaused { node, step } => to.push(step_event(*node, step)),
            Progress::StepClosed { node, step } => {
                self.tokens += step.sampled_tokens();
                to.push(step_event(*node, step));
            }
            Progress::StepScored {
                node,
                score,
                judges,
            } => {
                let event = json!({"type": "score", "node": node, "score": score});
                to.push(with_judges(event, judges));
            }
            Progress::StepPartlyScored {
                node,
                score,
                judges,
            } => {
                let event = json!({"type": "partial_score", "node": node, "partial_score": score});
                to.push(with_judges(event, judges));
            }
            Progress::StepMerged { node, twin, copies } => {
                to.push(json!({"type": "duplicate", "node": node, "duplicate_of": twin, "copies": copies}));
                // The merged chain's vote still counts, now for its sibling.
                self.answers.remove(node);
                self.tell_answer(*twin, to);
            }
            Progress::ChainPruned { node, pruned } => {
                to.push(json!({"type": "pruned", "node": node, "pruned": pruned}));
            }
            Progress::ChainFinished { node, finish, text } => {
                to.push(json!({"type": "finished", "node": node, "finish": finish.name()}));
                self.finished(*node, *finish, text, to);
            }
            Progress::Restarted => {
                // A restart discards all nodes, and their votes with them.
                *self = Self::default();
                to.push(json!({"type": "restarted"}));
            }
            _ => {}
        }
    }

    fn finished(&mut self, node: NodeId, finish: Finish, text: &str, to: &mut Vec<Value>) {
        let answer = finish
            .is_complete()
            .then(|| MathAnswers.extract(text))
            .flatten();
        if let Some(answer) = answer {
            // Votes are per value: 1/2 and 0.5 are in the same class.
            let class = MathAnswers.class(&answer.text);
            *self.votes.entry(class.clone()).or_default() += 1;
            self.answers.insert(node, (class, answer));
            self.tell_answer(node, to);
        }
    }

    fn tell_answer(&self, node: NodeId, to: &mut Vec<Value>) {
        let Some((class, answer)) = self.answers.get(&node) else {
            return;
        };
        let votes = self.votes.get(class);
        let mut event =
            json!({"type": "answer", "node": node, "answer": answer.text, "votes": votes});
        if answer.is_guess {
            event["guess"] = true.into();
        }
        to.push(event);
    }
}

/// Adds each judge's score to an event, if there are several judges.
fn with_judges(mut event: Value, judges: &BTreeMap<String, Option<f32>>) -> Value {
    if !judges.is_empty() {
        event["judges"] = json!(judges);
    }
    event
}

/// Returns the event of a closed step: its node with the keys of a run file, except those that are
/// known only later.
fn step_event(node: NodeId, step: &Node) -> Value {
    let mut event = json!({"type": "step", "node": node});
    let keys = serde_json::to_value(step).unwrap_or_default();
    if let (Some(event), Value::Object(keys)) = (event.as_object_mut(), keys) {
        // These keys get their values after the step is closed.
        let later = [
            "children",
            "copies",
            "score",
            "judges",
            "quantiles",
            "pruned",
        ];
        event.extend(
            keys.into_iter()
                .filter(|(key, _)| !later.contains(&key.as_str())),
        );
    }
    event
}
