//! What is measured: a chain with labels and scores.

use serde::{Deserialize, Serialize};

/// Why a chain cannot be measured: one line, the field first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidChain(String);

/// A chain, what is known of its steps, and what a model said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoredChain {
    /// Names the chain.
    pub id: String,
    /// The number of its problem: chains of one problem are resampled together.
    pub problem: u32,
    /// A label in `[0, 1]` for each step, `None` where nothing is known. Above one half the step is
    /// right, below it is wrong; exactly one half is neither and counts for calibration only.
    pub labels: Vec<Option<f64>>,
    /// A probability for each step that it is right; `None` if the model refused the chain.
    pub scores: Option<Vec<f32>>,
    /// Characters of each step.
    pub lengths: Vec<u32>,
    /// Difficulty, as the source names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The data set it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The kind of mistake in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
}

impl ScoredChain {
    /// The chain's first wrong step: `Some(None)` if all steps are known to be right, and `None` if
    /// the labels do not tell, since the class of an earlier step is unknown.
    #[must_use]
    pub fn first_error(&self) -> Option<Option<usize>> {
        for (at, label) in self.labels.iter().enumerate() {
            match label.and_then(class) {
                Some(true) => {}
                Some(false) => return Some(Some(at)),
                None => return None,
            }
        }
        Some(None)
    }

    /// What cannot be measured about it: one line, the field first.
    ///
    /// # Errors
    /// Lists of different lengths, a label or a score outside of `[0, 1]`.
    pub fn check(&self) -> Result<(), InvalidChain> {
        let steps = self.labels.len();
        if self.lengths.len() != steps {
            let lengths = self.lengths.len();
            return Err(InvalidChain(format!(
                "field \"lengths\": {lengths} of {steps} steps"
            )));
        }
        if let Some(scores) = self.scores.as_ref().filter(|s| s.len() != steps) {
            let scores = scores.len();
            return Err(InvalidChain(format!(
                "field \"scores\": {scores} of {steps} steps"
            )));
        }
        let mut labels = self.labels.iter().flatten();
        if let Some(label) = labels.find(|label| !(0.0..=1.0).contains(*label)) {
            return Err(InvalidChain(format!(
                "field \"labels\": {label} is not in 0 to 1"
            )));
        }
        let mut scores = self.scores.iter().flatten();
        if let Some(score) = scores.find(|score| !(0.0..=1.0).contains(*score)) {
            return Err(InvalidChain(format!(
                "field \"scores\": {score} is not in 0 to 1"
            )));
        }
        Ok(())
    }
}

/// Whether a step with this label is right; `None` for one half.
pub(super) fn class(label: f64) -> Option<bool> {
    (label != 0.5).then_some(label > 0.5)
}
