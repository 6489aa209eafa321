use thiserror::Error;

/// A generator that cannot be made.
#[derive(Debug, Error)]
pub enum Error {
    #[error("generator setting `{field}` must be at least 1")]
    Zero { field: &'static str },
    #[error("generator setting `{field}` must not be empty")]
    Empty { field: &'static str },
    #[error(
        "nothing ends a step: generator settings `boundaries` and `starts` are empty, and `step_tokens` is 0"
    )]
    NoBoundary,
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
