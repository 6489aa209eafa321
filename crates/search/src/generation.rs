//! Settings of the generator: sampling, seed, limits, and what ends a step.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{ConfigError, GenError};
use crate::grammar::Grammar;
use crate::numbers::is_default;
use crate::thinking::ThinkingConfig;

/// Settings of sampling. A setting that is `None` has the value of the model's
/// `generation_config.json`; if that is silent, tokens are sampled from the model's own
/// distribution.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingSettings {
    /// The divisor of the logits; 0 takes the likeliest token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// The number of likeliest tokens to keep; 0 keeps all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<usize>,
    /// The least sum of probabilities to keep: tokens are kept, likeliest first, until their sum
    /// reaches it; 1 keeps all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// The least probability of a kept token, as a fraction of the likeliest token's; 0 keeps all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_p: Option<f32>,
    /// The divisor of positive logits and factor of negative logits of tokens that occur in the
    /// prompt or the chain; 1 changes nothing.
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

/// Settings of the chains of a problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeneratorConfig {
    /// The way in which a token is picked from the logits.
    pub sampling: SamplingSettings,
    /// The seed of all random numbers. Chains of different seeds are independent.
    pub seed: u64,
    /// The most tokens of a step. A step that reaches the limit ends its chain ("step-cap").
    pub max_step_tokens: usize,
    /// The most tokens of a chain, without its thought. A chain that reaches the limit or the end
    /// of the model's context is cut off ("chain-cap").
    pub max_chain_tokens: usize,
    /// The fixed length of steps in tokens, as in searches by segments (`TreeBoN`,
    /// arXiv:2410.16033): a step also ends after this many tokens. 0: steps end only at boundaries.
    pub step_tokens: usize,
    /// The texts that end a step and belong to it. A file may also give a single string, or call
    /// the list `boundary`.
    #[serde(alias = "boundary", deserialize_with = "one_or_more")]
    pub boundaries: Vec<String>,
    /// The texts that begin a step at the beginning of a line; the step before ends there.
    #[serde(deserialize_with = "one_or_more")]
    pub starts: Vec<String>,
    /// The texts that mark the answer of a chain, outside of its thoughts. The chain ends
    /// ("answer") with the step in which its answer is complete
    /// ([`Answers::is_stated`](crate::Answers::is_stated)). Without markers, chains end only with
    /// the end-of-text token.
    pub answer_markers: Vec<String>,
    /// The texts at which a chain stops ("stop"), wherever they occur in the sampled text. If
    /// several occur, the first to be complete counts. The chain's text ends before the stop text.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "one_or_more"
    )]
    pub stop: Vec<String>,
    /// Whether the text at which a chain stops is part of the chain's text.
    #[serde(skip_serializing_if = "is_default")]
    pub include_stop: bool,
    /// The system message of the prompt; `None` for none.
    pub system_prompt: Option<String>,
    /// Variables of the chat template, such as `enable_thinking`, as in `apply_chat_template` of
    /// `transformers`.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub chat_template_kwargs: serde_json::Map<String, serde_json::Value>,
    /// The thoughts before an answer.
    #[serde(skip_serializing_if = "is_default")]
    pub thinking: ThinkingConfig,
    /// The date for chat templates that ask for it, `YYYY-MM-DD`; `None` for the current date in
    /// UTC.
    pub date: Option<String>,
    /// The number of likeliest tokens whose log-probabilities are kept for each token, next to the
    /// log-probability of the token itself; at most [`MOST_LOGPROBS`](Self::MOST_LOGPROBS). `None`
    /// keeps none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<usize>,
    /// The form that the text of each chain has to take; `None`: any form. With a grammar no text
    /// marks an answer: chains end with the end-of-text token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grammar: Option<Grammar>,
    /// Numbers that are added to the logits of tokens, by the tokens' ids, after the repetition
    /// penalty and before all other settings; each from -100 to 100.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", with = "by_token")]
    pub logit_bias: BTreeMap<u32, f32>,
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
            stop: Vec::new(),
            include_stop: false,
            system_prompt: None,
            chat_template_kwargs: serde_json::Map::new(),
            thinking: ThinkingConfig::default(),
            date: None,
            logprobs: None,
            grammar: None,
            logit_bias: BTreeMap::new(),
        }
    }
}

impl GeneratorConfig {
    /// Checks that each setting is in its range and that some setting ends a step.
    ///
    /// # Errors
    /// A limit is 0, no setting ends a step, a boundary or a marker is empty, or a sampling setting
    /// is out of range.
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
            ("stop", &self.stop),
        ] {
            // An empty mark occurs everywhere: each token would end a step, state an answer or stop
            // the chain.
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
        if let Some(logprobs) = self.logprobs {
            ConfigError::check_most("logprobs", logprobs, Self::MOST_LOGPROBS)?;
        }
        ConfigError::check_most("logit_bias", self.logit_bias.len(), Self::MOST_BIASES)?;
        for &bias in self.logit_bias.values() {
            ConfigError::check_range("logit_bias", bias, -100.0..=100.0, "from -100 to 100")?;
        }
        self.thinking.validate()?;
        self.sampling.validate()
    }

    /// Returns the most tokens of a chain, thought and answer together, under settings in effect
    /// ([`Generator::resolve`](crate::Generator::resolve)).
    pub fn most_tokens(&self) -> usize {
        match self.thinking.budget {
            Some(budget) if !self.thinking.shares_limit => {
                self.max_chain_tokens.saturating_add(budget)
            }
            _ => self.max_chain_tokens,
        }
    }

    /// The most entries of each of the lists `boundaries`, `starts`, `answer_markers` and `stop`.
    pub const MOST_MARKS: usize = 64;
    /// The most bytes of all entries of one of the lists `boundaries`, `starts`, `answer_markers`
    /// and `stop` together.
    pub const MOST_MARK_BYTES: usize = 4096;

    /// Refuses settings that act on the logits of each token, for a generator that has no logits.
    /// `most` is the number of alternatives of a token whose log-probabilities the generator knows;
    /// `None`: it knows no log-probabilities at all.
    ///
    /// # Errors
    /// [`GenError::Settings`] with the first such setting.
    pub fn check_without_logits(&self, most: Option<usize>) -> Result<(), GenError> {
        let logprobs = if most.is_none() {
            "logprobs"
        } else {
            "logprobs above 0"
        };
        for (field, is_set) in [
            ("grammar", self.grammar.is_some()),
            ("logit_bias", !self.logit_bias.is_empty()),
            (logprobs, self.logprobs > most),
        ] {
            if is_set {
                return Err(GenError::Settings(format!(
                    "generator setting `{field}` needs the logits of each token, which this generator does not give: leave it out, or use a local model"
                )));
            }
        }
        Ok(())
    }

    /// The largest allowed value of [`logprobs`](Self::logprobs).
    pub const MOST_LOGPROBS: usize = 20;
    /// The most tokens with a bias: each of them costs time at every token of every chain.
    pub const MOST_BIASES: usize = 1024;

    /// Returns the most tokens of a step: the lower of `max_step_tokens` and `step_tokens`, if the
    /// latter is not 0.
    pub fn longest_step(&self) -> usize {
        match self.step_tokens {
            0 => self.max_step_tokens,
            n => self.max_step_tokens.min(n),
        }
    }
}

/// Reads and writes maps from token ids to numbers: keys in TOML and JSON are texts.
mod by_token {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        biases: &BTreeMap<u32, f32>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(biases.iter().map(|(token, bias)| (token.to_string(), bias)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<u32, f32>, D::Error> {
        let biases = BTreeMap::<String, f32>::deserialize(from)?;
        let biases = biases.into_iter().map(|(token, bias)| {
            let id = token.parse();
            let id = id.map_err(|_| {
                let what =
                    format!("{token:?} is not the id of a token: a key must be a whole number");
                D::Error::custom(what)
            })?;
            Ok((id, bias))
        });
        biases.collect()
    }
}

/// Reads a string, or a list of strings.
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
        fn marks(field: &str, count: usize, bytes: usize) -> String {
            serde_json::json!({field: vec!["x".repeat(bytes); count]}).to_string()
        }
        assert!(GeneratorConfig::default().validate().is_ok());
        for field in ["boundaries", "starts", "answer_markers", "stop"] {
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
            (r#"{"logprobs": 21}"#, "logprobs"),
            (r#"{"logit_bias": {"5": -101.0}}"#, "logit_bias"),
            (&marks("boundaries", 65, 1), "boundaries"),
            (&marks("starts", 2, 2049), "starts"),
            (&marks("answer_markers", 64, 65), "answer_markers"),
            (r#"{"stop": ["x", ""]}"#, "stop"),
            (&marks("stop", 65, 1), "stop"),
            (&marks("stop", 64, 65), "stop"),
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
    fn stops_are_written_only_where_they_are_set() {
        let plain = serde_json::to_value(GeneratorConfig::default()).unwrap();
        assert!(plain.get("stop").is_none() && plain.get("include_stop").is_none());
        let json = r#"{"stop": "Q:", "include_stop": true}"#;
        let config: GeneratorConfig = serde_json::from_str(json).unwrap();
        assert_eq!(config.stop, ["Q:"]);
        let written = serde_json::to_value(&config).unwrap();
        assert_eq!(written["stop"], serde_json::json!(["Q:"]));
        assert_eq!(written["include_stop"], true);
    }

    #[test]
    fn unknown_fields_are_refused() {
        assert!(serde_json::from_str::<GeneratorConfig>(r#"{"temperature": 1.0}"#).is_err());
    }
}
