//! Training in three forms. [`abacus`] trains the bundled models on problems of `beamgen-world`. [`tune`] trains any
//! checkpoint on a file of examples. [`rl`] trains a generator by the rewards of its own chains
//! ([`rl`]).

#![forbid(unsafe_code)]

pub mod abacus;
pub mod ops;
pub mod optim;
pub mod rl;
pub mod tune;
mod write;

pub use candle_core;
use std::path::PathBuf;

/// Errors of training: wrong settings, unreadable files, and failures during a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be read or written.
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
    /// A checkpoint or saved state that does not fit.
    #[error("{0}: {1}")]
    Checkpoint(PathBuf, String),
    /// Settings that cannot be followed.
    #[error("{0}")]
    Config(String),
    /// The tokenizer cannot be trained, or refuses a text.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// The loss became infinite or NaN, usually because the learning rate is too high.
    #[error("stage {stage}: the loss is not finite at step {step}: lower the learning rate")]
    Diverged {
        /// The name of the stage; `train` outside the stages of [`abacus`].
        stage: String,
        /// The number of updates that finished before.
        step: usize,
    },
    /// A record of a data file is not a valid example.
    #[error("{}: {reason}", place.within(source_name))]
    Data {
        /// The path of the file, as the caller gave it, or a data set's name.
        source_name: String,
        /// The position of the record.
        place: beamgen_records::Place,
        /// The part of the message after file and position.
        reason: String,
    },
    /// A data file cannot be read, or a record is damaged.
    #[error(transparent)]
    Records(#[from] beamgen_records::RecordsError),
    /// The folder holds an earlier run, and resuming was not requested.
    #[error("{}: holds an earlier run: resume it, or delete the folder", .0.display())]
    EarlierRun(PathBuf),
    /// The data has no examples, or the settings of a run cannot be serialised.
    #[error("{0}")]
    Empty(String),
    /// A tensor operation of candle failed, for example on tensors of different shapes.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// The engine refuses a checkpoint or a call.
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
    /// A file of labels cannot be read.
    #[error(transparent)]
    Labels(#[from] beamgen_labels::LabelsError),
    /// A checkpoint that cannot be a generator.
    #[error(transparent)]
    Generator(#[from] beamgen_generator::Error),
    /// A search cannot be run, or lost its models.
    #[error(transparent)]
    Search(#[from] beamgen_search::SearchError),
    /// Chains cannot be sampled or scored.
    #[error("rollouts: {0}")]
    Rollout(String),
    /// The engine and the trainer computed different log-probabilities for the same tokens, so training would be
    /// wrong.
    #[error(
        "update {update}: the engine's log-probability of a step is {found:.2e} from the trainer's, more than {bound}: \
         one of them computes another model"
    )]
    Mismatch {
        /// The number of the update, counted from 1.
        update: usize,
        /// The largest absolute difference between two log-probabilities of a token, in nats.
        found: f64,
        /// The largest difference that the recipe allows, in nats.
        bound: f64,
    },
    /// The reward model cannot be loaded in its format.
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
                | Self::Generator(_)
                | Self::Labels(_)
                | Self::Prm(_)
                | Self::Records(_)
        )
    }
}

/// The entry of a table of settings with this name.
fn named<T: Copy, const N: usize>(
    what: &str,
    name: &str,
    table: [(&'static str, T); N],
) -> Result<T> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map(|(_, entry)| *entry).ok_or_else(|| {
        let names = table.map(|(name, _)| name).join(", ");
        Error::Config(format!("{what} {name}: must be one of {names}"))
    })
}

/// The result of all fallible functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;
