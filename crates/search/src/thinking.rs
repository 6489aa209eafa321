//! Settings of thoughts: text that a model writes to itself before its answer.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use strum::{Display, EnumString, VariantNames};

use crate::error::ConfigError;
use crate::numbers::is_default;

/// The most tokens of a thought if no budget is set. The published models of 1.5 to 32 billion
/// weights mostly think for less, and their authors recommend 8k to 32k.
pub const USUAL_BUDGET: usize = 8192;

/// Settings of the thoughts of a problem's chains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ThinkingConfig {
    /// The tag before a thought; `None`: the tag that the chat template names, or one of
    /// [`TAGS`](crate::thoughts::TAGS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// The tag after a thought; `None`: the counterpart of `open`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close: Option<String>,
    /// The most tokens of a thought. After as many tokens the thought is closed by force, and the
    /// answer follows. 0 turns thinking off by the chat template's own switch or, if it has none,
    /// by an empty thought. `None`: [`USUAL_BUDGET`] for a model whose chat template names tags of
    /// thoughts; other models may think within `max_chain_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<usize>,
    /// Whether `max_chain_tokens` limits thought and answer together, as `max_tokens` does in
    /// OpenAI's API. By default it limits the answer alone.
    #[serde(skip_serializing_if = "is_default")]
    pub shares_limit: bool,
    /// The text that is written before the closing tag of a thought that reaches its limit.
    pub message: String,
    /// The tokens that are kept for the answer. A thought ends early enough to leave this number
    /// of tokens in the budget of the problem and the context of the model, and as much time
    /// before the deadline; of short ones half.
    pub answer_reserve: usize,
    /// The rule that divides a thought into steps.
    #[serde(skip_serializing_if = "is_default")]
    pub steps: ThoughtSteps,
    /// The texts that the scorer reads.
    #[serde(skip_serializing_if = "is_default")]
    pub score: ScoredText,
}

impl Default for ThinkingConfig {
    fn default() -> Self {
        Self {
            open: None,
            close: None,
            budget: None,
            shares_limit: false,
            // The sentence of the Qwen3 report, section 4.3: https://arxiv.org/abs/2505.09388.
            message: "\n\nConsidering the limited time by the user, I have to give the solution \
                      based on the thinking directly now.\n"
                .into(),
            answer_reserve: 512,
            steps: ThoughtSteps::None,
            score: ScoredText::Answer,
        }
    }
}

impl ThinkingConfig {
    /// Checks that the settings fit together.
    ///
    /// # Errors
    /// A tag is empty, only one of the tags is named, a step has no token, or no scorer would read
    /// the steps of thoughts.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (field, tag) in [
            ("thinking.open", &self.open),
            ("thinking.close", &self.close),
        ] {
            if tag.as_ref().is_some_and(String::is_empty) {
                return Err(ConfigError::Empty { field });
            }
        }
        if self.open.is_some() != self.close.is_some() {
            return Err(ConfigError::OneTag);
        }
        ConfigError::check_count("thinking.answer_reserve", self.answer_reserve)?;
        if self.steps != ThoughtSteps::None && self.score == ScoredText::Answer {
            return Err(ConfigError::UnscoredThoughts);
        }
        Ok(())
    }
}

/// The rule that divides a thought into steps. In a file: `"none"`, `"paragraphs"` or a number of
/// tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThoughtSteps {
    /// A thought is not divided: it belongs to the first step of the answer.
    #[default]
    None,
    /// A blank line ends a step.
    Paragraphs,
    /// A step has this number of tokens.
    Tokens(usize),
}

impl Serialize for ThoughtSteps {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => to.serialize_str("none"),
            Self::Paragraphs => to.serialize_str("paragraphs"),
            Self::Tokens(tokens) => tokens.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for ThoughtSteps {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "\"none\", \"paragraphs\" or a number of tokens above 0"
        )]
        enum Read {
            Tokens(usize),
            Name(String),
        }
        let wanted = "expected \"none\", \"paragraphs\" or a number of tokens above 0";
        match Read::deserialize(from)? {
            Read::Tokens(tokens) if tokens > 0 => Ok(Self::Tokens(tokens)),
            Read::Name(name) if name == "none" => Ok(Self::None),
            Read::Name(name) if name == "paragraphs" => Ok(Self::Paragraphs),
            Read::Tokens(_) | Read::Name(_) => Err(D::Error::custom(wanted)),
        }
    }
}

/// The texts of a chain that thinks which the scorer reads. Tags are never read.
#[derive(
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ScoredText {
    /// The answer alone, as most reward models were trained, whose context is 4,096 tokens.
    #[default]
    Answer,
    /// The thought alone.
    Thought,
    /// The thought and the answer.
    Both,
}

/// The thought at the beginning of a step. A chain has one thought, before its answer, so the text
/// of a step that has a part of it begins with that part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thought {
    /// The number of bytes of the step's text that belong to the thought, its tags included.
    pub bytes: usize,
    /// The bytes of the opening tag at the beginning of the thought, and of white space before it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open: usize,
    /// The bytes of the closing tag at the end of the thought.
    #[serde(default, skip_serializing_if = "is_default")]
    pub close: usize,
    /// The number of the step's tokens that belong to the thought.
    pub tokens: usize,
    /// The number of those tokens that were not sampled: the last ones, which close the thought at
    /// its limit. They have no log-probability.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forced: usize,
}

impl Thought {
    /// Returns the number of tokens that were sampled.
    pub fn sampled(self) -> usize {
        self.tokens.saturating_sub(self.forced)
    }

    /// Returns the text of the thought in a step, without its tags.
    pub fn text(self, step: &str) -> &str {
        step.get(self.open..self.bytes.saturating_sub(self.close))
            .unwrap_or_default()
    }
}

impl ScoredText {
    /// Returns what the scorer reads of a step; `None`: its whole text.
    pub(crate) fn of(self, text: &str, thought: Option<Thought>) -> Option<String> {
        match (self, thought) {
            (Self::Answer | Self::Both, None) => None,
            (Self::Thought, None) => Some(String::new()),
            (Self::Answer, Some(thought)) => {
                Some(text.get(thought.bytes..).unwrap_or_default().to_owned())
            }
            (Self::Thought, Some(thought)) => Some(thought.text(text).to_owned()),
            (Self::Both, Some(thought)) => {
                let answer = text.get(thought.bytes..).unwrap_or_default();
                Some([thought.text(text), answer].concat())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_thoughts_are_read_and_written() {
        for (json, steps) in [
            (r#""none""#, ThoughtSteps::None),
            (r#""paragraphs""#, ThoughtSteps::Paragraphs),
            ("64", ThoughtSteps::Tokens(64)),
        ] {
            assert_eq!(serde_json::from_str::<ThoughtSteps>(json).unwrap(), steps);
            assert_eq!(serde_json::to_string(&steps).unwrap(), json);
        }
        for wrong in ["0", "-1", r#""lines""#, "true"] {
            let error = serde_json::from_str::<ThoughtSteps>(wrong).unwrap_err();
            assert!(error.to_string().contains("paragraphs"), "{error}");
        }
    }

    #[test]
    fn settings_that_do_not_fit_are_refused() {
        let refused = |json: &str| {
            let config: ThinkingConfig = serde_json::from_str(json).unwrap();
            config.validate().unwrap_err().to_string()
        };
        assert!(refused(r#"{"open": "<a>"}"#).contains("thinking.close"));
        assert!(refused(r#"{"open": "", "close": "</a>"}"#).contains("thinking.open"));
        assert!(refused(r#"{"steps": 64}"#).contains("thinking.score"));
        assert!(refused(r#"{"answer_reserve": 0}"#).contains("answer_reserve"));
        assert_eq!(ThinkingConfig::default().validate(), Ok(()));
    }

    #[test]
    fn the_scorer_reads_the_chosen_texts_without_tags() {
        let text = "<think>a</think>b";
        let thought = Thought {
            bytes: 16,
            open: 7,
            close: 8,
            tokens: 3,
            forced: 0,
        };
        let read = |score: ScoredText, thought| score.of(text, thought);
        assert_eq!(read(ScoredText::Answer, Some(thought)).unwrap(), "b");
        assert_eq!(read(ScoredText::Thought, Some(thought)).unwrap(), "a");
        assert_eq!(read(ScoredText::Both, Some(thought)).unwrap(), "ab");
        assert_eq!(read(ScoredText::Answer, None), None);
        assert_eq!(read(ScoredText::Both, None), None);
        assert_eq!(read(ScoredText::Thought, None).unwrap(), "");
    }
}
