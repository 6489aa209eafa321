//! A chain with labels and scores, the unit of all measures.

use serde::{Deserialize, Serialize};

/// The reason why a chain cannot be measured: one line that begins with the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidChain(String);

/// A chain with the labels of its steps and a model's scores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoredChain {
    /// The chain's name in files and messages.
    pub id: String,
    /// The number of the chain's problem: chains of one problem are resampled together.
    pub problem: u32,
    /// A label in `[0, 1]` for each step; `None` for an unlabelled step. Above one half the step is
    /// right and below one half wrong. Exactly one half counts only for calibration.
    pub labels: Vec<Option<f64>>,
    /// The model's probability that the step is right, for each step; `None` if the model refused
    /// the chain.
    pub scores: Option<Vec<f32>>,
    /// The number of characters of each step.
    pub lengths: Vec<u32>,
    /// The difficulty in the source's own words; `None` if the source names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The data set that the chain comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The kind of mistake in the chain, such as `PRMBench`'s classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The model or person that wrote the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
}

impl ScoredChain {
    /// Returns the index of the first wrong step. `Some(None)` if all steps are known to be right;
    /// `None` if an unlabelled or undecided step comes before the first wrong one.
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

    /// Checks that the lists have one item for each step, with values in range.
    ///
    /// # Errors
    /// [`InvalidChain`] for lists of different lengths, and for a label or a score outside of
    /// `[0, 1]`.
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
        // `contains` is false for NaN, so a score that is not a number is refused, too.
        let mut scores = self.scores.iter().flatten();
        if let Some(score) = scores.find(|score| !(0.0..=1.0).contains(*score)) {
            return Err(InvalidChain(format!(
                "field \"scores\": {score} is not in 0 to 1"
            )));
        }
        Ok(())
    }
}

/// Whether a step with this label is right; `None` for one half, which is undecided.
pub(super) fn class(label: f64) -> Option<bool> {
    (label != 0.5).then_some(label > 0.5)
}
