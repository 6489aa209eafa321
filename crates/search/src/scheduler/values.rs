//! The steps of a problem whose values by rollouts are awaited, and how values are computed.

use std::collections::{BTreeMap, HashMap};

use crate::aggregation::Aggregation;
use crate::choose::Answers;
use crate::config::SearchConfig;
use crate::outcome::Outcome;
use crate::rollouts::{Poll, RolloutsConfig};
use crate::strategy::Scoring;
use crate::tree::{ChainTree, NodeId};

/// The worth of completions at the moment when values are computed.
pub(super) enum Worth {
    Vote(Poll),
    Prm(Aggregation),
    Outcome,
}

/// The rollouts of a problem.
pub(super) struct Rollouts {
    pub config: RolloutsConfig,
    /// The steps whose value is awaited, with the ends of their rollouts.
    pub awaited: BTreeMap<NodeId, Vec<NodeId>>,
    /// The answers of complete chains, by node: an answer is looked for once.
    classes: HashMap<NodeId, Option<String>>,
}

impl Rollouts {
    /// Makes the state for a search with rollouts; `None` for a search without.
    pub(super) fn of(config: &SearchConfig) -> Option<Self> {
        let config = config.rollouts.clone().filter(|config| config.count > 0)?;
        Some(Self {
            config,
            awaited: BTreeMap::new(),
            classes: HashMap::new(),
        })
    }

    /// Returns when the steps of a search are scored: never if only the rollouts give values.
    pub(super) fn scoring(&self, usual: Scoring) -> Scoring {
        if self.config.uses_scores() {
            usual
        } else {
            Scoring::Never
        }
    }

    /// Whether the scorer scores steps before they are completed.
    pub(super) fn scores_steps(&self) -> bool {
        self.config.weight < 1.0
    }

    /// Counts the answers of all complete chains.
    pub(super) fn poll(&mut self, tree: &ChainTree, answers: &dyn Answers) -> Poll {
        let mut poll = Poll::default();
        for (id, node) in tree.nodes().filter(|(_, node)| node.is_complete()) {
            let class = self.classes.entry(id).or_insert_with(|| {
                let answer = answers.extract(&tree.solution(id))?;
                Some(answers.class(&answer.text))
            });
            if let Some(class) = class {
                poll.add(class, node.copies);
            }
        }
        poll
    }

    /// Returns the mean worth of the completions that end with `ends`.
    pub(super) fn value(&self, tree: &ChainTree, ends: &[NodeId], how: &Worth) -> f32 {
        let worth = |&end: &NodeId| {
            if !tree.node(end).is_complete() {
                return 0.0;
            }
            match *how {
                Worth::Vote(ref poll) => {
                    let class = self.classes.get(&end).and_then(Option::as_deref);
                    poll.worth(class)
                }
                Worth::Prm(rule) => f64::from(tree.scored(end, rule).unwrap_or(0.0)),
                Worth::Outcome => {
                    let outcome = tree.node(end).outcome.as_ref();
                    f64::from(u8::from(outcome.is_some_and(Outcome::is_right)))
                }
            }
        };
        let mut worths: Vec<f64> = ends.iter().map(worth).collect();
        // Completions end in an order that depends on the other problems in flight; their sum must
        // not.
        worths.sort_unstable_by(f64::total_cmp);
        (worths.iter().sum::<f64>() / ends.len().max(1) as f64) as f32
    }
}
