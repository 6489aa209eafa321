use std::path::PathBuf;

use beamgen_search::{ConfigError, SearchError};

/// Why a solver could not be built, or a run stopped. Every message is one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A settings file cannot be read.
    #[error("{}: {}", path.display(), plain(source))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A settings file is not TOML, or has a key or a value that is not known.
    #[error("{}:{line}: {reason}", path.display())]
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// Settings that cannot be run.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// There is no such checkpoint directory.
    #[error("{} is no checkpoint directory: {}", path.display(), plain(source))]
    NoCheckpoint {
        /// What was given for one.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A model cannot be loaded.
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
    /// A generator cannot be made of its checkpoint and settings.
    #[error(transparent)]
    Generator(#[from] beamgen_generator::Error),
    /// A reward model cannot be made of its checkpoint.
    #[error(transparent)]
    Prm(#[from] beamgen_prm::Error),
    /// One of these, from a model whose place the message did not name.
    #[error("{place}: {error}")]
    At {
        /// The model's directory.
        place: String,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// The settings name a scorer that is not a model, and none was given.
    #[error("scorer \"exact\": no checker was given to the solver")]
    NoScorer,
    /// The run broke.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// A problem was refused, by [`Solver::solve`](crate::Solver::solve) or
    /// [`Solver::check`](crate::Solver::check).
    #[error("{0}")]
    Refused(String),
}

/// An operating system's message without its error number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

impl Error {
    /// Whether what was given is at fault (a setting, a file, a problem), and not the run.
    pub fn is_input(&self) -> bool {
        !matches!(self, Self::Search(error) if !matches!(error, SearchError::Config(_)))
    }

    /// Names the model that an error is about, unless the message does so already.
    pub(crate) fn at(self, place: String) -> Self {
        match self.to_string().contains(&place) {
            true => self,
            false => Self::At {
                place,
                error: Box::new(self),
            },
        }
    }
}
