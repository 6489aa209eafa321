use beamgen_search::ConfigError;
use thiserror::Error;

/// A generator that cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Setting(#[from] ConfigError),
    #[error(
        "the tokenizer names no end-of-text token, and a chain could never end: add eos_token_id to generation_config.json"
    )]
    NoEndOfText,
    #[error(
        "has no language-model head (lm_head.weight) and gives no logits: it cannot be a generator, but a reward model (--prm)"
    )]
    NoHead,
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}
