//! A chain with the labels and the scores of its steps, from which all measures are computed.

use serde::{Deserialize, Serialize};

/// The reason why a chain cannot be measured, a line of text that begins with the wrong field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidChain(String);

/// A chain with a label and a score for each step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoredChain {
    /// The name of the chain, unique in its file, for messages.
    pub id: String,
    /// The number of the chain's problem. The bootstrap resamples all chains of a problem together.
    pub problem: u32,
    /// The labels of the steps, from 0 to 1; `None` for a step without a label. A step is right above one half and
    /// wrong below. One half itself counts only for calibration.
    pub labels: Vec<Option<f64>>,
    /// The model's probability that a step is right, for each step; `None` if the model refused the chain.
    pub scores: Option<Vec<f32>>,
    /// The number of characters of each step, for the correlation of score and length.
    pub lengths: Vec<u32>,
    /// The difficulty of the problem as its source writes it; `None` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The name of the data set; `None` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The kind of mistake in the chain, for example a class of `PRMBench`; `None` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The model or person that wrote the chain; `None` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
}

impl ScoredChain {
    /// Returns the index of the first wrong step, and `Some(None)` if all steps are right. Returns `None` if a step
    /// without a label, or with one half, comes before the first wrong step.
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

    /// Checks that all lists have one item for each step, and that labels and scores are from 0 to 1.
    ///
    /// # Errors
    /// [`InvalidChain`] for the first list with another length or a value out of range.
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
        // `contains` is false for NaN, so NaN is refused too.
        let mut scores = self.scores.iter().flatten();
        if let Some(score) = scores.find(|score| !(0.0..=1.0).contains(*score)) {
            return Err(InvalidChain(format!(
                "field \"scores\": {score} is not in 0 to 1"
            )));
        }
        Ok(())
    }
}

/// Returns whether a step with this label is right; `None` for one half, which is undecided.
pub(super) fn class(label: f64) -> Option<bool> {
    (label != 0.5).then_some(label > 0.5)
}
