use beamgen_search::ConfigError;
use thiserror::Error;

/// A generator that cannot be made. Every message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is out of range.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// The checkpoint names no end-of-text token.
    #[error(
        "the tokenizer names no end-of-text token, and a chain could never end: add eos_token_id to generation_config.json"
    )]
    NoEndOfText,
    /// The checkpoint gives hidden states, but no logits.
    #[error(
        "has no language-model head (lm_head.weight) and gives no logits: it cannot be a generator, but a reward model"
    )]
    NoHead,
    /// The grammar is wrong, or cannot be followed.
    #[error("generator setting `grammar` cannot be followed: {0}")]
    Grammar(String),
    /// This build follows no grammars.
    #[error(
        "generator setting `grammar` needs a build with the feature structured: leave it out, or use such a build"
    )]
    NoGrammars,
    /// A setting names a token that the vocabulary lacks.
    #[error(
        "generator setting `logit_bias` names token {token}, but the vocabulary has {tokens}: give ids below that"
    )]
    NoSuchToken {
        /// The id that was given.
        token: u32,
        /// The number of tokens.
        tokens: usize,
    },
    /// The engine refused the checkpoint.
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}
