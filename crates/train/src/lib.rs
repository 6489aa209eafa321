//! Training in three forms: the bundled models on the problems of `beamgen-world` ([`abacus`]), any
//! checkpoint on a file of examples ([`tune`]), and a generator by the rewards of its own chains
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

/// Errors of training, from settings, files and the models.
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
    /// The loss became infinite or NaN.
    #[error("stage {stage}: the loss is not finite at step {step}: lower the learning rate")]
    Diverged {
        /// The name of the stage, `train` for a run outside the bundled pipeline.
        stage: String,
        /// The number of updates before the one that diverged.
        step: usize,
    },
    /// A line of a data file cannot be used as an example.
    #[error("{}:{line}: {reason}", path.display())]
    Data {
        /// The path of the data file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The reason, without path and line.
        reason: String,
    },
    /// The folder holds an earlier run, and resuming was not requested.
    #[error("{}: holds an earlier run: resume it, or delete the folder", .0.display())]
    EarlierRun(PathBuf),
    /// The data has no examples, or a run's settings cannot be serialised.
    #[error("{0}")]
    Empty(String),
    /// A tensor operation of candle failed, for example because shapes differ.
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
    /// Engine and trainer compute different log-probabilities for the same step of the policy.
    #[error(
        "update {update}: the engine's log-probability of a step is {found:.2e} from the trainer's, more than {bound}: \
         one of them computes another model"
    )]
    Mismatch {
        /// The number of the update, from 1.
        update: usize,
        /// The largest absolute difference of two log-probabilities, in nats.
        found: f64,
        /// The largest difference that is allowed, in nats.
        bound: f64,
    },
    /// The reward model does not match its format.
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

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
