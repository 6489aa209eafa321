use std::path::PathBuf;

use thiserror::Error;

/// A model that cannot be loaded or run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A field of `config.json` that `candle-transformers` cannot follow.
    #[error("{}: {reason}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The field, and what it has to be.
        reason: String,
    },
    /// `candle` refused the weights, or failed.
    #[error("{model}: {reason}")]
    Candle {
        /// The checkpoint.
        model: String,
        /// In candle's words.
        reason: String,
    },
    /// The checkpoint has less memory than it takes.
    #[error(
        "{model} takes {needed} MiB in float32, and {free} MiB are free: candle-transformers keeps all weights so"
    )]
    Memory {
        /// The checkpoint.
        model: String,
        /// Of the weights, in MiB.
        needed: u64,
        /// Of the machine, in MiB.
        free: u64,
    },
    /// The settings or the tokenizer are no generator's.
    #[error(transparent)]
    Generator(#[from] beamgen_generator::Error),
    /// The engine refused one of the checkpoint's files.
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}

/// Candle's errors come with a backtrace.
pub(crate) fn first_line(error: &candle_core::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}
