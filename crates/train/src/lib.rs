//! Training: of the bundled models on the problems of `beamgen-world` ([`abacus`]), of any
//! checkpoint on a file of examples ([`tune`]), and of a generator by what its own chains earn
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

/// What can go wrong while training.
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
    /// The loss is no number any more.
    #[error("stage {stage}: the loss is no longer finite at step {step}; lower its learning rate")]
    Diverged {
        /// The stage's name.
        stage: String,
        /// Updates done.
        step: usize,
    },
    /// A line of a data file.
    #[error("{}:{line}: {reason}", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A folder that holds a run already, which was not asked to go on.
    #[error("{}: holds an earlier run: resume it, or delete the folder", .0.display())]
    EarlierRun(PathBuf),
    /// Nothing to learn from, or a state that cannot be written down.
    #[error("{0}")]
    Empty(String),
    /// A tensor operation failed.
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
    /// Engine and trainer do not agree on what the policy is.
    #[error(
        "update {update}: the engine's log-probability of a step is {found:.2e} from the trainer's, more than {bound}: \
         one of them computes another model"
    )]
    Mismatch {
        /// The update.
        update: usize,
        /// The largest difference.
        found: f64,
        /// What is allowed.
        bound: f64,
    },
    /// The reward model cannot be read as its spec says.
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

/// With this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
