//! The data model: a chain of steps with the facts recorded on each step.

use std::collections::BTreeMap;

use beamgen_eval::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::Source;

/// A problem and one chain of steps that answers it, with the recorded facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledChain {
    /// The identifier of the chain within its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The problem's text.
    pub problem: String,
    /// The steps in order; no text is blank.
    pub steps: Vec<LabelledStep>,
    /// The index of the first wrong step, from 0, or -1 if no step is wrong. Data sets that mark
    /// only this step set the field; the steps after it may be right or wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<i64>,
    /// Whether the chain's final answer is right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<bool>,
    /// The reference answer to the problem, which `outcome` refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The name of the data set that the chain comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The difficulty of the problem, in the words of the data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The kind of mistake in the chain, in the words of the data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The generator that wrote the steps, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The sources of labels for this chain, in order of precedence. If empty,
    /// [`LabelRule`](crate::LabelRule) uses its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rule: Vec<Source>,
}

/// A step and the raw facts about it. Each fact may be missing; a step without any has no label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledStep {
    /// The step as the generator wrote it, without the boundary that ends it.
    pub text: String,
    /// The rating by a person without a name: 1 right, 0 neutral, -1 wrong, as in PRM800K.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<i8>,
    /// The ratings by people with names; the key is the name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ratings: BTreeMap<String, Rated>,
    /// A hard label whose origin is not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<bool>,
    /// A soft label in `[0, 1]` whose origin is not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft: Option<f64>,
    /// The counts of rollouts: completions that were sampled after this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollouts: Option<Rollouts>,
    /// The verdicts of checkers; the key is the checker's name. A checker that abstained has no
    /// entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub verdicts: BTreeMap<String, Checked>,
    /// The scores of judges: the probability that the step is right; the key is the judge's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub opinions: BTreeMap<String, f64>,
    /// Other candidates for this step, from which the chain does not continue. An alternative has
    /// facts about itself only; the steps before it are those of the chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<LabelledStep>,
}

impl LabelledChain {
    /// Returns a hash of the problem's text and the steps' texts. Facts are not hashed, so a chain
    /// has the same key in every file.
    #[must_use]
    pub fn key(&self) -> String {
        let mut hash = Fingerprint::default();
        hash.field(self.problem.as_bytes());
        for step in &self.steps {
            hash.field(step.text.as_bytes());
        }
        hash.finish()
    }

    /// Returns the chain without its alternatives, and one further chain for each alternative.
    /// Steps before an alternative lose their facts there, so that each fact counts once.
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
    /// Makes a step that has a text and no facts.
    #[must_use]
    pub fn unlabelled(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    /// Makes a step with a hard label and no other facts.
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
    /// A remark in the person's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The verdict of a checker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checked {
    /// The checker proved the step right.
    Pass,
    /// The step was proved wrong, for this reason.
    Fail(String),
}

/// The counts of completions that were sampled after a prefix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollouts {
    /// The number of completions that ended by themselves.
    pub n: u32,
    /// The number of completions among `n` whose answer is right; at most `n`.
    pub k: u32,
    /// The number of completions, not among `n`, that the length limit cut off.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated: u32,
    /// The seed with which the completions were sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The generator of the completions, if it is not the generator of the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

/// A generator and how it was sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// A name or fingerprint that identifies the generator.
    pub generator: String,
    /// The sampling temperature, finite and at least 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
