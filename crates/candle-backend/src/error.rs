use std::path::PathBuf;

use thiserror::Error;

/// A model that cannot be loaded or run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A field of `config.json` has a value that `candle-transformers` does not implement.
    #[error("{}: {reason}", path.display())]
    Config {
        /// The path of `config.json`, for the message.
        path: PathBuf,
        /// The field, and the values that are supported.
        reason: String,
    },
    /// `candle` refused the weights, or failed.
    #[error("{model}: {reason}")]
    Candle {
        /// The path of the checkpoint.
        model: String,
        /// The first line of candle's message; further lines are a backtrace.
        reason: String,
    },
    /// The weights need more memory than is free.
    #[error(
        "{model} needs {needed} MiB in float32, but {free} MiB are free: candle-transformers keeps \
         all weights in float32"
    )]
    Memory {
        /// The path of the checkpoint.
        model: String,
        /// The size of the weights in float32, in MiB.
        needed: u64,
        /// The memory that may be used, in MiB.
        free: u64,
    },
    /// A setting is invalid, or the tokenizer does not fit a generator.
    #[error(transparent)]
    Generator(#[from] beamgen_generator::Error),
    /// The engine refused one of the checkpoint's files.
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}

/// Returns the first line of an error of candle; further lines are a backtrace.
pub(crate) fn first_line(error: &candle_core::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}
