use std::path::PathBuf;

use thiserror::Error;

/// A reward model that cannot be made.
#[derive(Debug, Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Spec {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("the step token {token:?} is {count} tokens of the reward model's vocabulary, not one")]
    StepToken { token: String, count: usize },
    #[error("the reward model's head has {found} weights, its hidden states {expected} values")]
    HeadWidth { expected: usize, found: usize },
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}
