//! The format: one labelled chain.

use std::collections::BTreeMap;

use beamgen_eval::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::Source;

/// A problem, one chain of steps, and what is known of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledChain {
    /// Names the chain within its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The problem's text.
    pub problem: String,
    /// In order; no text is blank.
    pub steps: Vec<LabelledStep>,
    /// The index of the first wrong step, from 0, or -1 if none is wrong: for sources that mark
    /// that step alone. What stands behind it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<i64>,
    /// Whether the chain's final answer is right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<bool>,
    /// The reference answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The data set it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Difficulty, as the source names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The kind of mistake in it, as the source names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Who wrote the steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The rules that derive the chain's labels where nobody names others; empty for the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rule: Vec<Source>,
}

/// A step and the raw facts about it. Each fact may be missing; a step without any has no label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledStep {
    /// Without its boundary.
    pub text: String,
    /// The rating of a person without a name: 1 right, 0 neutral, -1 wrong (PRM800K).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<i8>,
    /// The ratings of people, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ratings: BTreeMap<String, Rated>,
    /// A hard label whose origin the source does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<bool>,
    /// A soft label in `[0, 1]` whose counts the source does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft: Option<f64>,
    /// Rollouts from behind this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollouts: Option<Rollouts>,
    /// The verdicts of checkers, by their names. A checker that abstained is missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub verdicts: BTreeMap<String, Checked>,
    /// The scores of judges, by their names: the probability that the step is right.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub opinions: BTreeMap<String, f64>,
    /// Other steps at this place, which the chain does not go on from: they share its prefix, and
    /// only their own label counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<LabelledStep>,
}

impl LabelledChain {
    /// The name of the problem and its steps, the same in every file; what is known of them does not
    /// matter.
    #[must_use]
    pub fn key(&self) -> String {
        let mut hash = Fingerprint::default();
        hash.field(self.problem.as_bytes());
        for step in &self.steps {
            hash.field(step.text.as_bytes());
        }
        hash.finish()
    }

    /// The chain without its alternatives, and then a chain for each of them: the steps before it
    /// without what is known of them, and it. So every label is in one chain only.
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
    /// A step of which nothing is known.
    #[must_use]
    pub fn unlabelled(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    /// A step with a hard label whose origin is not known.
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
    /// A remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The verdict of a checker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checked {
    /// The step was verified.
    Pass,
    /// The step was proved wrong, for this reason.
    Fail(String),
}

/// How many completions of a prefix came to the right answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollouts {
    /// Completions that came to an end.
    pub n: u32,
    /// Those of them whose answer is right.
    pub k: u32,
    /// Further completions that a length limit cut off: neither right nor wrong.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated: u32,
    /// Of the draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Who completed, if it is not who wrote the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

/// A generator and how it was sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The generator's name or fingerprint.
    pub generator: String,
    /// The temperature sampled at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
