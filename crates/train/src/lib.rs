//! Training: of the bundled models on the problems of `beamgen-world`, and of any checkpoint on a
//! file of examples ([`tune`]).

#![forbid(unsafe_code)]
// not yet documented throughout; the lint of the workspace applies once this line goes
#![allow(missing_docs)]

pub mod config;
pub mod detect;
pub mod evaluation;
pub mod export;
mod json;
pub mod lm;
pub mod mining;
pub mod model;
pub mod ops;
pub mod optim;
pub mod pipeline;
pub mod reward;
pub mod sample;
pub mod tokenizer;
pub mod trainer;
pub mod tune;

pub use candle_core;
use std::path::PathBuf;

/// What can go wrong while training.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
    #[error("{0}: {1}")]
    Checkpoint(PathBuf, String),
    #[error("{0}")]
    Config(String),
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    #[error("stage {stage}: the loss is no longer finite at step {step}; lower its learning rate")]
    Diverged { stage: String, step: usize },
    /// A line of a data file.
    #[error("{}:{line}: {reason}", path.display())]
    Data {
        path: PathBuf,
        line: usize,
        reason: String,
    },
    /// A folder that holds a run already, which was not asked to go on.
    #[error("{}: holds an earlier run: resume it, or delete the folder", .0.display())]
    EarlierRun(PathBuf),
    #[error("{0}")]
    Empty(String),
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
    #[error(transparent)]
    Labels(#[from] beamgen_labels::LabelsError),
    #[error(transparent)]
    Prm(#[from] beamgen_prm::Error),
}

impl Error {
    /// Whether the caller's settings or files are at fault, rather than the run.
    pub fn is_input(&self) -> bool {
        matches!(
            self,
            Self::Config(_)
                | Self::Checkpoint(..)
                | Self::Data { .. }
                | Self::EarlierRun(_)
                | Self::Engine(_)
                | Self::Labels(_)
                | Self::Prm(_)
        )
    }
}

pub type Result<T> = std::result::Result<T, Error>;
