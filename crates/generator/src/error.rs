use thiserror::Error;

/// A generator that cannot be made.
#[derive(Debug, Error)]
pub enum Error {
    #[error("generator setting `{field}` must be at least 1")]
    Zero { field: &'static str },
    #[error("generator setting `{field}` must not be empty")]
    Empty { field: &'static str },
    #[error("nothing ends a step: generator settings `boundaries` and `starts` are both empty")]
    NoBoundary,
    #[error("the tokenizer names no end-of-text token, and a chain could never end")]
    NoEndOfText,
    #[error("the model has no language-model head, so it cannot write: it is a reward model")]
    NoHead,
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}
