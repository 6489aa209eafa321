//! How chains are written: sampling, seed, limits, and what ends a step.

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::ConfigError;

/// How tokens are sampled. What is not set is as the model's `generation_config.json` says, and where
/// that says nothing, the model's own distribution.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingSettings {
    /// Divides the logits; 0 takes the likeliest token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Keeps that many likeliest tokens; 0 keeps all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<usize>,
    /// Keeps the fewest likeliest tokens that have this probability together; 1 keeps all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Keeps tokens at least this fraction as likely as the likeliest one; 0 keeps all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_p: Option<f32>,
    /// Divides the positive and multiplies the negative logits of tokens in the prompt and the
    /// chain; 1 changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition_penalty: Option<f32>,
}

impl SamplingSettings {
    fn validate(&self) -> Result<(), ConfigError> {
        let (above_0, most) = (f32::MIN_POSITIVE, f32::MAX);
        let penalty = self.repetition_penalty;
        for (field, value, range, words) in [
            ("temperature", self.temperature, 0.0..=most, "0 or more"),
            ("top_p", self.top_p, above_0..=1.0, "above 0, at most 1"),
            ("min_p", self.min_p, 0.0..=1.0, "from 0 to 1"),
            ("repetition_penalty", penalty, above_0..=most, "above 0"),
        ] {
            if let Some(value) = value {
                ConfigError::check_range(field, value, range, words)?;
            }
        }
        Ok(())
    }
}

/// How the chains of a problem are written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeneratorConfig {
    /// How tokens are sampled.
    pub sampling: SamplingSettings,
    /// Chains of other seeds are independent.
    pub seed: u64,
    /// A step that has not closed after so many tokens is cut ("step-cap").
    pub max_step_tokens: usize,
    /// A chain that has not ended after so many tokens, or at the end of the model's context,
    /// is cut ("chain-cap").
    pub max_chain_tokens: usize,
    /// A step also ends after so many tokens and its chain goes on, as in searches by segments of
    /// fixed length (`TreeBoN`, arXiv:2410.16033); 0: at boundaries alone.
    pub step_tokens: usize,
    /// What ends a step; it belongs to the step it ends. A file may also give one string, or call
    /// it `boundary`.
    #[serde(alias = "boundary", deserialize_with = "one_or_more")]
    pub boundaries: Vec<String>,
    /// What begins a step where it stands at the beginning of a line; the step before ends there.
    #[serde(deserialize_with = "one_or_more")]
    pub starts: Vec<String>,
    /// Texts that mark the answer of a chain, outside of its thoughts. The chain ends ("answer")
    /// with the step in which that answer is whole
    /// ([`Answers::is_stated`](crate::Answers::is_stated)). Without markers, chains end by the
    /// end-of-text token only.
    pub answer_markers: Vec<String>,
    /// System message of the prompt, if any.
    pub system_prompt: Option<String>,
    /// What chat templates that ask for the date take for today, `YYYY-MM-DD`; not set: today, by
    /// UTC.
    pub date: Option<String>,
}

impl Default for GeneratorConfig {
    fn default() -> Self {
        Self {
            sampling: SamplingSettings::default(),
            seed: 0,
            max_step_tokens: 256,
            max_chain_tokens: 2048,
            step_tokens: 0,
            boundaries: vec!["\n".into()],
            starts: Vec::new(),
            answer_markers: vec!["The answer is".into(), "\\boxed{".into(), "####".into()],
            system_prompt: None,
            date: None,
        }
    }
}

impl GeneratorConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// A limit is 0, nothing ends a step, a boundary or a marker is empty, or a sampling setting is
    /// out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_count("max_step_tokens", self.max_step_tokens)?;
        ConfigError::check_count("max_chain_tokens", self.max_chain_tokens)?;
        if self.boundaries.is_empty() && self.starts.is_empty() && self.step_tokens == 0 {
            return Err(ConfigError::NoBoundary);
        }
        for (field, marks) in [
            ("boundaries", &self.boundaries),
            ("starts", &self.starts),
            ("answer_markers", &self.answer_markers),
        ] {
            if marks.iter().any(String::is_empty) {
                return Err(ConfigError::Empty { field });
            }
            let (count, bytes) = (marks.len(), marks.iter().map(String::len).sum());
            if count > Self::MOST_MARKS || bytes > Self::MOST_MARK_BYTES {
                return Err(ConfigError::Marks {
                    field,
                    count,
                    bytes,
                    most: Self::MOST_MARKS,
                    most_bytes: Self::MOST_MARK_BYTES,
                });
            }
        }
        self.sampling.validate()
    }

    /// Entries that `boundaries`, `starts` and `answer_markers` may have, each.
    pub const MOST_MARKS: usize = 64;
    /// Bytes that the entries of one of these lists may have together.
    pub const MOST_MARK_BYTES: usize = 4096;

    /// Most tokens of a step.
    pub fn longest_step(&self) -> usize {
        match self.step_tokens {
            0 => self.max_step_tokens,
            n => self.max_step_tokens.min(n),
        }
    }
}

/// A string, or a list of them.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a string or a list of strings")]
    enum Strings {
        One(String),
        More(Vec<String>),
    }
    Ok(match Strings::deserialize(from)? {
        Strings::One(one) => vec![one],
        Strings::More(more) => more,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_bad_settings_are_named() {
        assert!(GeneratorConfig::default().validate().is_ok());
        let marks = |field: &str, count: usize, bytes: usize| {
            serde_json::json!({field: vec!["x".repeat(bytes); count]}).to_string()
        };
        for field in ["boundaries", "starts", "answer_markers"] {
            let most: GeneratorConfig = serde_json::from_str(&marks(field, 64, 64)).unwrap();
            assert_eq!(most.validate(), Ok(()));
        }
        for (json, name) in [
            (r#"{"max_step_tokens": 0}"#, "max_step_tokens"),
            (r#"{"max_chain_tokens": 0}"#, "max_chain_tokens"),
            (r#"{"boundary": ""}"#, "boundaries"),
            (r#"{"boundaries": []}"#, "boundaries"),
            (r###"{"starts": ["## Step", ""]}"###, "starts"),
            (r#"{"answer_markers": [""]}"#, "answer_markers"),
            (&marks("boundaries", 65, 1), "boundaries"),
            (&marks("starts", 2, 2049), "starts"),
            (&marks("answer_markers", 64, 65), "answer_markers"),
            (r#"{"sampling": {"temperature": -1.0}}"#, "temperature"),
        ] {
            let config: GeneratorConfig = serde_json::from_str(json).unwrap();
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn boundaries_are_one_string_or_a_list() {
        let boundaries =
            |json| serde_json::from_str::<GeneratorConfig>(json).map(|config| config.boundaries);
        for json in [
            r#"{"boundary": "x"}"#,
            r#"{"boundaries": "x"}"#,
            r#"{"boundaries": ["x"]}"#,
        ] {
            assert_eq!(boundaries(json).unwrap(), ["x"]);
        }
        let error = boundaries(r#"{"boundaries": 3}"#).unwrap_err().to_string();
        assert!(error.contains("a string or a list of strings"), "{error}");
    }

    #[test]
    fn unknown_fields_are_refused() {
        assert!(serde_json::from_str::<GeneratorConfig>(r#"{"temperature": 1.0}"#).is_err());
    }
}
