use beamgen_engine::SamplingParams;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Settings of an [`LmGenerator`](crate::LmGenerator).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeneratorConfig {
    /// How tokens are drawn.
    pub sampling: SamplingParams,
    /// Chains of other seeds are independent.
    pub seed: u64,
    /// A step that has not closed after so many tokens is cut ("step-cap").
    pub max_step_tokens: usize,
    /// A chain that has not ended after so many tokens, or at the end of the model's context,
    /// is cut ("chain-cap").
    pub max_chain_tokens: usize,
    /// What ends a step. It belongs to the step it ends.
    pub boundary: String,
    /// A closed step with one of these in it ends the chain ("answer"). None: chains end by
    /// the end-of-text token alone.
    pub answer_markers: Vec<String>,
    /// System message of the prompt, if any.
    pub system_prompt: Option<String>,
}

impl Default for GeneratorConfig {
    fn default() -> Self {
        Self {
            sampling: SamplingParams::default(),
            seed: 0,
            max_step_tokens: 256,
            max_chain_tokens: 2048,
            boundary: "\n".into(),
            answer_markers: vec!["The answer is".into(), "\\boxed{".into()],
            system_prompt: None,
        }
    }
}

impl GeneratorConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// A limit is 0, the boundary or a marker is empty, or a sampling setting is out of range.
    pub fn validate(&self) -> Result<(), Error> {
        for (field, limit) in [
            ("max_step_tokens", self.max_step_tokens),
            ("max_chain_tokens", self.max_chain_tokens),
        ] {
            if limit == 0 {
                return Err(Error::Zero { field });
            }
        }
        if self.boundary.is_empty() {
            return Err(Error::Empty { field: "boundary" });
        }
        if self.answer_markers.iter().any(String::is_empty) {
            let field = "answer_markers";
            return Err(Error::Empty { field });
        }
        Ok(self.sampling.validate()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_bad_settings_are_named() {
        assert!(GeneratorConfig::default().validate().is_ok());
        for (json, name) in [
            (r#"{"max_step_tokens": 0}"#, "max_step_tokens"),
            (r#"{"max_chain_tokens": 0}"#, "max_chain_tokens"),
            (r#"{"boundary": ""}"#, "boundary"),
            (r#"{"answer_markers": [""]}"#, "answer_markers"),
            (r#"{"sampling": {"temperature": -1.0}}"#, "temperature"),
        ] {
            let config: GeneratorConfig = serde_json::from_str(json).unwrap();
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn unknown_fields_are_refused() {
        assert!(serde_json::from_str::<GeneratorConfig>(r#"{"temperature": 1.0}"#).is_err());
    }
}
