use beamgen_engine::Checkpoint;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// How a reward model is read: the contents of `prm.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrmSpec {
    /// How a chain is written down.
    pub format: Format,
    /// What ends every step; one token of the model's vocabulary. The score of a step is read
    /// there.
    pub step_token: String,
    /// From a hidden state to a probability.
    pub head: HeadKind,
    /// Name of the head's weights, `[1, hidden]`.
    pub weight: String,
    /// Name of the head's bias, `[1]`.
    #[serde(default)]
    pub bias: Option<String>,
}

/// How a chain is written down and where it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The prompt, then each step followed by the step token; read at the step tokens.
    StepToken,
}

/// From a hidden state to a probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadKind {
    /// One linear output and the logistic function.
    LinearSigmoid,
}

impl PrmSpec {
    /// Reads `prm.json` of a checkpoint.
    ///
    /// # Errors
    /// It cannot be read, or [`Error::Spec`] with line and field.
    pub fn load(checkpoint: impl Into<Checkpoint>) -> Result<Self, Error> {
        let checkpoint = checkpoint.into();
        let text = checkpoint.required_text("prm.json")?;
        serde_json::from_str(&text).map_err(|source| Error::Spec {
            path: checkpoint.path_of("prm.json"),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_says_everything_or_is_refused() {
        let text = r#"{"format": "step-token", "step_token": "\n", "head": "linear-sigmoid",
            "weight": "score.weight", "bias": "score.bias"}"#;
        let spec: PrmSpec = serde_json::from_str(text).unwrap();
        assert_eq!(spec.format, Format::StepToken);
        assert_eq!(spec.bias.as_deref(), Some("score.bias"));
        for (from, to) in [
            ("\"weight\"", "\"weights\""),
            ("step-token", "step-tag"),
            ("linear-sigmoid", "softmax"),
        ] {
            assert!(serde_json::from_str::<PrmSpec>(&text.replace(from, to)).is_err());
        }
    }

    #[test]
    fn a_directory_without_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = PrmSpec::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("prm.json"), "{error}");
    }
}
