use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// What an error was caused by. Equal causes have equal messages.
#[derive(Debug, Clone)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl Cause {
    /// Keeps an error.
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

/// Why a generator refused a problem or failed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum GenError {
    /// The prompt alone fills the model's context.
    #[error("the prompt has {tokens} tokens, which leaves no room in a context of {context}")]
    PromptTooLong {
        /// Of the prompt.
        tokens: usize,
        /// Tokens that the model's context holds.
        context: usize,
    },
    /// The text is longer than any that fits into the model's context, and was not cut into tokens
    /// as a whole.
    #[error("the prompt has {bytes} bytes, more than a context of {context} tokens holds")]
    TextTooLong {
        /// Bytes of the problem and the system prompt.
        bytes: usize,
        /// Tokens that the model's context holds.
        context: usize,
    },
    /// The template or the tokenizer refused the problem.
    #[error("the prompt cannot be rendered: {0}")]
    Prompt(String),
    /// The steps that the problem gives leave no room for another.
    #[error(
        "the problem gives {given} {what}, and a chain may have {most}: give fewer, or raise {setting}"
    )]
    GivenTooLong {
        /// How many are given.
        given: usize,
        /// The name of the things that are counted.
        what: &'static str,
        /// The most that a chain may have.
        most: usize,
        /// The setting that says so.
        setting: &'static str,
    },
    /// Settings that this generator cannot follow.
    #[error("{0}")]
    Settings(String),
    /// It failed this chain or this call; the problem ends, others go on.
    #[error("the generator failed: {0}")]
    Failed(Cause),
    /// The model is lost: the run ends.
    #[error("the generator failed: {0}")]
    Lost(Cause),
}

impl GenError {
    /// Whether the prompt does not fit into the model's context.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::PromptTooLong { .. } | Self::TextTooLong { .. })
    }
}

/// Why a scorer refused a problem or a chain, or failed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// The chain does not fit into the model's context.
    #[error("the chain has {tokens} tokens, the scorer's context {context}")]
    TooLong {
        /// Of the problem and all steps, as the scorer reads them.
        tokens: usize,
        /// Tokens that the model's context holds.
        context: usize,
    },
    /// The text is longer than any that fits into the model's context, and was not cut into tokens
    /// as a whole.
    #[error(
        "the chain has {steps} steps and {bytes} bytes, more than the scorer's context of {context} tokens holds"
    )]
    TextTooLong {
        /// Steps that were to be read.
        steps: usize,
        /// Bytes of the problem or the steps.
        bytes: usize,
        /// Tokens that the model's context holds.
        context: usize,
    },
    /// The template or the tokenizer refused the problem.
    #[error("the prompt cannot be rendered: {0}")]
    Prompt(String),
    /// The cache is too small for this one chain.
    #[error("the scorer has no memory for a chain of {tokens} tokens")]
    NoMemory {
        /// Of the problem and all steps.
        tokens: usize,
    },
    /// It failed this chain or this call; the problem ends, others go on.
    #[error("the scorer failed: {0}")]
    Failed(Cause),
    /// The model is lost: the run ends.
    #[error("the scorer failed: {0}")]
    Lost(Cause),
    /// It abstains where a score of each step is wanted.
    #[error("the scorer has nothing to say about step {step}")]
    Abstained {
        /// Counted from 1.
        step: usize,
    },
}

impl ScoreError {
    /// Refuses a problem and steps that have more tokens than the context.
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

    /// Names the judge that an error is of, where the message would leave it open.
    pub(crate) fn of_judge(self, name: &str) -> Self {
        let named = |what: &dyn fmt::Display| format!("judge {name}: {what}");
        match self {
            Self::Prompt(reason) => Self::Prompt(named(&reason)),
            Self::Failed(cause) => Self::Failed(named(&cause).into()),
            Self::Lost(cause) => Self::Lost(named(&cause).into()),
            other => other,
        }
    }
}

/// A search configuration that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A count is 0.
    #[error("{field} must be at least 1")]
    Zero {
        /// The setting.
        field: &'static str,
    },
    /// A count is so large that memory would run out, or that it would never be worked off.
    #[error("{field} = {value} is too large: at most {most}")]
    TooLarge {
        /// The setting.
        field: &'static str,
        /// What was asked for.
        value: usize,
        /// The largest value taken.
        most: usize,
    },
    /// N < M.
    #[error(
        "n = {n} is less than m = {m}: a beam of n chains keeps n/m of them, which must be at least 1"
    )]
    FewerChainsThanFactor {
        /// Chains.
        n: usize,
        /// Children of each kept chain.
        m: usize,
    },
    /// A number outside of its range.
    #[error("{field} = {value} is out of range: it must be {range}")]
    OutOfRange {
        /// The setting.
        field: &'static str,
        /// What was asked for.
        value: String,
        /// What is allowed, in words.
        range: &'static str,
    },
    /// A key that has no meaning with another.
    #[error("{field} works only with {with}")]
    Misplaced {
        /// The setting.
        field: &'static str,
        /// What it works with.
        with: String,
    },
    /// The strategy or the choice reads scores.
    #[error("{what} needs a scorer, and there is none")]
    NeedsScorer {
        /// The strategy or the choice.
        what: &'static str,
    },
    /// A list of marks with too many of them, or too long ones: each is looked for behind every
    /// token.
    #[error(
        "generator setting `{field}` has {count} entries of {bytes} bytes: at most {most} entries of {most_bytes} bytes together are taken"
    )]
    Marks {
        /// The list.
        field: &'static str,
        /// Entries of the list.
        count: usize,
        /// Bytes of all of them.
        bytes: usize,
        /// The most entries taken.
        most: usize,
        /// The most bytes taken.
        most_bytes: usize,
    },
    /// A list of marks with an empty one.
    #[error("generator setting `{field}` must not be empty")]
    Empty {
        /// The list.
        field: &'static str,
    },
    /// Steps would never end.
    #[error(
        "nothing ends a step: generator settings `boundaries` and `starts` are empty, and `step_tokens` is 0"
    )]
    NoBoundary,
    /// A name that stands for nothing.
    #[error("unknown {field} {value:?} (known: {known})")]
    Unknown {
        /// What is named.
        field: &'static str,
        /// The name.
        value: String,
        /// All names there are.
        known: String,
    },
}

impl ConfigError {
    /// The setting at fault, if it is one: a key of the tables `search` or `generator`.
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
            Self::NeedsScorer { .. } => None,
        }
    }

    /// Refuses what is not in `range`, described by `words`.
    ///
    /// # Errors
    /// The field with its value.
    pub fn check_range(
        field: &'static str,
        value: f32,
        range: impl std::ops::RangeBounds<f32>,
        words: &'static str,
    ) -> Result<(), Self> {
        // Not a number is in no range.
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

    /// Refuses 0.
    ///
    /// # Errors
    /// The field with its value.
    pub fn check_count(field: &'static str, value: usize) -> Result<(), Self> {
        if value == 0 {
            return Err(Self::Zero { field });
        }
        Ok(())
    }

    /// Refuses more than `most`.
    pub(crate) fn check_most(field: &'static str, value: usize, most: usize) -> Result<(), Self> {
        if value <= most {
            Ok(())
        } else {
            Err(Self::TooLarge { field, value, most })
        }
    }

    /// Refuses what is not a positive number.
    ///
    /// # Errors
    /// The field with its value.
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

/// Why a run stopped.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The settings cannot be run.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The generator is lost.
    #[error(transparent)]
    Generator(#[from] GenError),
    /// The scorer is lost.
    #[error(transparent)]
    Scorer(#[from] ScoreError),
    /// Scores that are none: not a number, say, or not one a step.
    #[error("the scorer broke its contract: {0}")]
    BadScores(String),
    /// A step of a chain that was not being written, say.
    #[error("the generator broke its contract: {0}")]
    BadStep(String),
    /// An action on a node that cannot take it.
    #[error("the strategy broke its contract: {0}")]
    BadAction(String),
}
