//! The data model of a labelled chain.

use std::collections::BTreeMap;

use beamgen_eval::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::Source;

/// A problem and one chain of steps, with the facts recorded on them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledChain {
    /// The name of the chain within its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The problem's text.
    pub problem: String,
    /// The steps in order, without blank texts.
    pub steps: Vec<LabelledStep>,
    /// The index of the first wrong step, from 0, or -1 if none is wrong, for sources that mark only
    /// that step. Nothing is known of the steps after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<i64>,
    /// Whether the chain's final answer is right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<bool>,
    /// The reference answer to the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The name of the data set that contains the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The difficulty of the problem, as the source names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The kind of mistake in the chain, as the source names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The generator that wrote the steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The rules that derive the chain's labels by default; empty for the usual rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rule: Vec<Source>,
}

/// A step and the raw facts about it. Each fact may be missing; a step without any has no label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledStep {
    /// The text of the step, without its boundary.
    pub text: String,
    /// The rating of an unnamed person: 1 right, 0 neutral, -1 wrong (PRM800K).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<i8>,
    /// The ratings of people, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ratings: BTreeMap<String, Rated>,
    /// A hard label of unknown origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<bool>,
    /// A soft label in `[0, 1]` of unknown origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft: Option<f64>,
    /// The counts of rollouts from this step, which sampled the rest of the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollouts: Option<Rollouts>,
    /// The verdicts of checkers, by name. A checker that abstained is missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub verdicts: BTreeMap<String, Checked>,
    /// The scores of judges, by name: the probability that the step is right.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub opinions: BTreeMap<String, f64>,
    /// Other steps after the same prefix, from which the chain does not continue. Only their own
    /// facts count, not those of their prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<LabelledStep>,
}

impl LabelledChain {
    /// Returns the fingerprint of the problem's text and the steps' texts. The facts do not change
    /// it, so the same chain has the same key in every file.
    #[must_use]
    pub fn key(&self) -> String {
        let mut hash = Fingerprint::default();
        hash.field(self.problem.as_bytes());
        for step in &self.steps {
            hash.field(step.text.as_bytes());
        }
        hash.finish()
    }

    /// Returns the chain without alternatives, and then a chain for each alternative: the steps
    /// before it without their facts, and the alternative. Every fact is in one chain only.
    #[must_use]
    pub fn with_alternatives(&self) -> Vec<Self> {
        let mut path = self.clone();
        for step in &mut path.steps {
            step.alternatives.clear();
        }
        let like = Self {
            steps: Vec::new(),
            first_error: None,
            outcome: None,
            class: None,
            ..path.clone()
        };
        let mut chains = vec![path];
        let mut before = Vec::new();
        for (step, i) in self.steps.iter().zip(1..) {
            for (other, j) in step.alternatives.iter().zip(1..) {
                let mut steps = before.clone();
                steps.push(LabelledStep {
                    alternatives: Vec::new(),
                    ..other.clone()
                });
                chains.push(Self {
                    id: self.id.as_ref().map(|id| format!("{id}/{i}.{j}")),
                    steps,
                    ..like.clone()
                });
            }
            before.push(LabelledStep::unlabelled(step.text.clone()));
        }
        chains
    }
}

impl LabelledStep {
    /// Makes a step without facts.
    #[must_use]
    pub fn unlabelled(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    /// Makes a step with a hard label of unknown origin.
    pub(crate) fn labelled(text: String, right: bool) -> Self {
        Self {
            right: Some(right),
            ..Self::unlabelled(text)
        }
    }
}

/// The opinion of a person on a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rated {
    /// 1 right, 0 neutral, -1 wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<i8>,
    /// The person's remark on the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The verdict of a checker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checked {
    /// The step was proved right.
    Pass,
    /// The step was proved wrong, for this reason.
    Fail(String),
}

/// The counts of completions sampled from a prefix, by their answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollouts {
    /// The number of completions that came to their own end.
    pub n: u32,
    /// The number of those completions whose answer is right.
    pub k: u32,
    /// The number of further completions that a length limit cut off, neither right nor wrong.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated: u32,
    /// The seed of the sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The generator of the completions, if another one wrote the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

/// A generator and how it was sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The name or fingerprint of the generator.
    pub generator: String,
    /// The sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
