use std::path::PathBuf;

use thiserror::Error;

/// A model that cannot be loaded or run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A field of `config.json` asks for something that `candle-transformers` does not implement.
    #[error("{}: {reason}", path.display())]
    Config {
        /// The path of `config.json`.
        path: PathBuf,
        /// The field, and the values that are supported.
        reason: String,
    },
    /// `candle` refused the weights, or failed.
    #[error("{model}: {reason}")]
    Candle {
        /// The name of the checkpoint.
        model: String,
        /// The first line of candle's message.
        reason: String,
    },
    /// The weights need more memory than the machine has free.
    #[error(
        "{model} needs {needed} MiB in float32, but {free} MiB are free: candle-transformers keeps \
         all weights in float32"
    )]
    Memory {
        /// The name of the checkpoint.
        model: String,
        /// The size of the weights in float32, in MiB.
        needed: u64,
        /// The free memory of the machine, in MiB.
        free: u64,
    },
    /// The settings or the tokenizer are invalid for a generator.
    #[error(transparent)]
    Generator(#[from] beamgen_generator::Error),
    /// The engine refused one of the checkpoint's files.
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}

/// The first line of an error of candle, whose messages continue with a backtrace.
pub(crate) fn first_line(error: &candle_core::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}
