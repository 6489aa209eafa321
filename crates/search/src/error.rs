use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// The cause of an error. Causes are equal if their messages are.
#[derive(Debug, Clone)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl Cause {
    /// Wraps an error, whose message becomes the message of the cause.
    pub fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        // Errors of other crates cannot be compared; tests only need equal messages.
        self.to_string() == other.to_string()
    }
}

impl From<&str> for Cause {
    fn from(message: &str) -> Self {
        Self(Arc::from(Box::from(message)))
    }
}

impl From<String> for Cause {
    fn from(message: String) -> Self {
        Self(Arc::from(Box::from(message)))
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// An error of a generator: it refused a problem or failed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum GenError {
    /// The prompt fills the model's context without any step.
    #[error("the prompt has {tokens} tokens, which leaves no room in a context of {context}")]
    PromptTooLong {
        /// The length of the rendered prompt.
        tokens: usize,
        /// The number of tokens that the model's context holds.
        context: usize,
    },
    /// The text cannot fit into the model's context. It was rejected by its length in bytes,
    /// without being tokenized.
    #[error("the prompt has {bytes} bytes, more than a context of {context} tokens holds")]
    TextTooLong {
        /// Bytes of the problem and the system prompt.
        bytes: usize,
        /// The number of tokens that the model's context holds.
        context: usize,
    },
    /// The chat template or the tokenizer refused the problem.
    #[error("the prompt cannot be rendered: {0}")]
    Prompt(String),
    /// The given steps of the problem leave no room for another step.
    #[error(
        "the problem gives {given} {what}, but a chain may have at most {most}: give fewer, or raise {setting}"
    )]
    GivenTooLong {
        /// The number of steps or tokens that the problem gives.
        given: usize,
        /// The unit that is counted: steps or tokens.
        what: &'static str,
        /// The largest number that a chain may have.
        most: usize,
        /// The setting that limits the length of a chain.
        setting: &'static str,
    },
    /// This generator cannot follow a setting; the text names the setting and the reason.
    #[error("{0}")]
    Settings(String),
    /// The generator failed a chain or a call. The problem ends, other problems continue.
    #[error("the generator failed: {0}")]
    Failed(Cause),
    /// The model cannot be used any more, which ends the run.
    #[error("the generator failed: {0}")]
    Lost(Cause),
}

impl GenError {
    /// Whether the prompt does not fit into the model's context.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::PromptTooLong { .. } | Self::TextTooLong { .. })
    }
}

/// An error of a scorer: it refused a problem or a chain, or failed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// The chain does not fit into the model's context.
    #[error("the chain has {tokens} tokens, more than the scorer's context of {context}")]
    TooLong {
        /// Tokens of the problem and all steps, as the scorer reads them.
        tokens: usize,
        /// The number of tokens that the scorer's context holds.
        context: usize,
    },
    /// The text cannot fit into the model's context. It was rejected by its length in bytes,
    /// without being tokenized.
    #[error(
        "the chain has {steps} steps and {bytes} bytes, more than the scorer's context of {context} tokens holds"
    )]
    TextTooLong {
        /// The number of steps that were to be read.
        steps: usize,
        /// The number of bytes of the problem and all steps.
        bytes: usize,
        /// The number of tokens that the scorer's context holds.
        context: usize,
    },
    /// The template or the tokenizer of the scorer refused the problem.
    #[error("the prompt cannot be rendered: {0}")]
    Prompt(String),
    /// The scorer's cache is too small for a single chain.
    #[error("the scorer has no memory for a chain of {tokens} tokens")]
    NoMemory {
        /// Tokens of the problem and all steps.
        tokens: usize,
    },
    /// The scorer failed a chain or a call. The problem ends, other problems continue.
    #[error("the scorer failed: {0}")]
    Failed(Cause),
    /// The model cannot be used any more, which ends the run.
    #[error("the scorer failed: {0}")]
    Lost(Cause),
    /// The scorer abstained on a step where every step needs a score.
    #[error("the scorer abstained on step {step}, and every step needs a score")]
    Abstained {
        /// The number of the step in its chain, from 1.
        step: usize,
    },
}

impl ScoreError {
    /// Makes the error for a problem and steps whose bytes exceed what the context can hold.
    pub fn text_too_long(problem: &str, steps: &[&str], context: usize) -> Self {
        Self::TextTooLong {
            steps: steps.len(),
            bytes: problem.len() + steps.iter().map(|step| step.len()).sum::<usize>(),
            context,
        }
    }

    /// Whether the problem or the chain does not fit into the model's context.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::TooLong { .. } | Self::TextTooLong { .. })
    }

    /// Prefixes the message with the judge's name, unless the message tells which judge failed.
    pub(crate) fn of_judge(self, name: &str) -> Self {
        match self {
            Self::Prompt(reason) => Self::Prompt(format!("judge {name}: {reason}")),
            Self::Failed(cause) => Self::Failed(format!("judge {name}: {cause}").into()),
            Self::Lost(cause) => Self::Lost(format!("judge {name}: {cause}").into()),
            other => other,
        }
    }
}

/// The reason why a configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A count is 0.
    #[error("{field} must be at least 1")]
    Zero {
        /// The setting's key.
        field: &'static str,
    },
    /// A count is so large that memory would run out, or that the search would never end.
    #[error("{field} = {value} is too large: at most {most}")]
    TooLarge {
        /// The setting's key.
        field: &'static str,
        /// The refused value, which is above `most`.
        value: usize,
        /// The largest allowed value.
        most: usize,
    },
    /// `n` is smaller than `m` in a strategy that keeps n/m chains.
    #[error(
        "n = {n} is less than m = {m}: a beam of n chains keeps n/m of them, which must be at least 1"
    )]
    FewerChainsThanFactor {
        /// The number of chains of a beam.
        n: usize,
        /// The number of children of each kept chain.
        m: usize,
    },
    /// A number is outside of its range.
    #[error("{field} = {value} is out of range: it must be {range}")]
    OutOfRange {
        /// The setting's key, or words for a number inside a value, such as "the bound of veto".
        field: &'static str,
        /// The refused number as text; it may be NaN or infinite.
        value: String,
        /// The allowed range, in words.
        range: &'static str,
    },
    /// A setting has no effect together with the other settings.
    #[error("{field} works only with {with}")]
    Misplaced {
        /// The key of the setting without effect.
        field: &'static str,
        /// The settings under which `field` has an effect, in words.
        with: String,
    },
    /// The strategy or the choice of an answer needs scores.
    #[error("{what} needs a scorer, but none is set")]
    NeedsScorer {
        /// The strategy or the choice, in words.
        what: &'static str,
    },
    /// The search is to use outcomes, but the verifier of the problem is not open, or there is none.
    #[error(
        "a search sees outcomes of an open verifier only, and {name:?} is not: choose a command as `verifier` and set `verifier_open`, or choose \"lean\""
    )]
    NeedsOpenVerifier {
        /// The name of the problem's verifier.
        name: String,
    },
    /// A list of boundaries or markers is too long. Every entry is searched for after every token,
    /// so the lists are limited.
    #[error(
        "generator setting `{field}` has {count} entries of {bytes} bytes: at most {most} entries and {most_bytes} bytes together are allowed"
    )]
    Marks {
        /// The key of the list: `boundaries`, `starts`, `answer_markers` or `stop`.
        field: &'static str,
        /// The number of entries in the list.
        count: usize,
        /// The number of bytes of all entries together.
        bytes: usize,
        /// The largest allowed number of entries.
        most: usize,
        /// The largest allowed number of bytes.
        most_bytes: usize,
    },
    /// A list of boundaries or markers contains an empty text.
    #[error("generator setting `{field}` must not be empty")]
    Empty {
        /// The key of the list with the empty text.
        field: &'static str,
    },
    /// No setting ends a step: `boundaries` and `starts` are empty, and `step_tokens` is 0.
    #[error("nothing ends a step: set generator setting `boundaries`, `starts` or `step_tokens`")]
    NoBoundary,
    /// Only one of the two tags of thoughts is named.
    #[error(
        "generator settings `thinking.open` and `thinking.close` name the two tags of thoughts: set both, or leave both out"
    )]
    OneTag,
    /// Thoughts are divided into steps that no scorer reads.
    #[error(
        "generator setting `thinking.steps` divides thoughts into steps that nothing scores: set `thinking.score` to \"thought\" or \"both\", or `thinking.steps` to \"none\""
    )]
    UnscoredThoughts,
    /// A name, for example of a strategy, is not known.
    #[error("unknown {field} {value:?} (known: {known})")]
    Unknown {
        /// The setting or kind of thing that is named.
        field: &'static str,
        /// The name as it was given.
        value: String,
        /// All known names, separated by commas.
        known: String,
    },
}

impl ConfigError {
    /// Returns the setting at fault, a key of the tables `search` or `generator`; `None` if the
    /// error concerns no single setting.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            Self::Zero { field }
            | Self::TooLarge { field, .. }
            | Self::OutOfRange { field, .. }
            | Self::Misplaced { field, .. }
            | Self::Marks { field, .. }
            | Self::Empty { field }
            | Self::Unknown { field, .. } => Some(field),
            Self::FewerChainsThanFactor { .. } => Some("n"),
            Self::NoBoundary => Some("boundaries"),
            Self::OneTag => Some("thinking.open"),
            Self::UnscoredThoughts => Some("thinking.steps"),
            Self::NeedsOpenVerifier { .. } => Some("outcome_scores"),
            Self::NeedsScorer { .. } => None,
        }
    }

    /// Checks that `value` is in `range`, which `words` describe.
    ///
    /// # Errors
    /// The value is outside of the range, or not finite.
    pub fn check_range(
        field: &'static str,
        value: f32,
        range: impl std::ops::RangeBounds<f32>,
        words: &'static str,
    ) -> Result<(), Self> {
        // A range that is open above contains infinity, and NaN is outside of every range.
        if range.contains(&value) && value.is_finite() {
            Ok(())
        } else {
            Err(Self::OutOfRange {
                field,
                value: value.to_string(),
                range: words,
            })
        }
    }

    /// Checks that a count is not 0.
    ///
    /// # Errors
    /// The count is 0.
    pub fn check_count(field: &'static str, value: usize) -> Result<(), Self> {
        if value == 0 {
            return Err(Self::Zero { field });
        }
        Ok(())
    }

    /// Checks that a count is at most `most`.
    pub(crate) fn check_most(field: &'static str, value: usize, most: usize) -> Result<(), Self> {
        if value <= most {
            Ok(())
        } else {
            Err(Self::TooLarge { field, value, most })
        }
    }

    /// Checks that `value` is a positive number.
    ///
    /// # Errors
    /// The value is not positive, or not finite.
    pub fn check_positive(field: &'static str, value: f32) -> Result<(), Self> {
        Self::check_range(field, value, f32::MIN_POSITIVE.., "a positive number")
    }

    pub(crate) fn unknown(
        field: &'static str,
        value: &str,
        known: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        Self::Unknown {
            field,
            value: value.to_owned(),
            known: known.join(", "),
        }
    }
}

/// An error that ends the whole run. An error of a single problem is in its result instead.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The settings of the run are invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The generator is lost.
    #[error(transparent)]
    Generator(#[from] GenError),
    /// The scorer is lost.
    #[error(transparent)]
    Scorer(#[from] ScoreError),
    /// The scorer returned invalid scores: NaN, for example, or too few.
    #[error("the scorer broke its contract: {0}")]
    BadScores(String),
    /// The generator returned an invalid step: of a chain that was not growing, for example.
    #[error("the generator broke its contract: {0}")]
    BadStep(String),
    /// The strategy asked for an action that the node cannot take.
    #[error("the strategy broke its contract: {0}")]
    BadAction(String),
}
