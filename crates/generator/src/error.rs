use beamgen_search::ConfigError;
use thiserror::Error;

/// The reason why a generator cannot be made or cannot follow settings. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is out of range; the message names it.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// The checkpoint names no end-of-text token.
    #[error(
        "the tokenizer names no end-of-text token, and a chain could never end: add eos_token_id to generation_config.json"
    )]
    NoEndOfText,
    /// The checkpoint has no language-model head, so it gives no logits.
    #[error(
        "has no language-model head (lm_head.weight) and gives no logits: it cannot be a generator, but a reward model"
    )]
    NoHead,
    /// The grammar is invalid, too large, or has keywords that are not supported.
    #[error("generator setting `grammar` cannot be followed: {0}")]
    Grammar(String),
    /// This build was made without the feature `structured`, so it supports no grammars.
    #[error(
        "generator setting `grammar` needs a build with the feature structured: leave it out, or use such a build"
    )]
    NoGrammars,
    /// A token in `logit_bias` is not in the vocabulary.
    #[error(
        "generator setting `logit_bias` names token {token}, but the vocabulary has {tokens}: give ids below that"
    )]
    NoSuchToken {
        /// The token's id as it was given.
        token: u32,
        /// The number of tokens in the vocabulary.
        tokens: usize,
    },
    /// The tokenizer has no tokens for the text that closes a thought at its limit.
    #[error(
        "the tokenizer cannot write {text:?}, which closes a thought at its limit: change generator setting `thinking.message`, `thinking.open` or `thinking.close`"
    )]
    NoClosing {
        /// The message, the closing tag and the text after it.
        text: String,
    },
    /// A variable of the chat template has the name of something that every template gets.
    #[error(
        "generator setting `chat_template_kwargs` names `{name}`, which chat templates get from the problem: leave it out"
    )]
    Variable {
        /// The name of the variable.
        name: String,
    },
    /// The engine refused the checkpoint.
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}
