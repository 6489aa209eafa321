use std::path::PathBuf;

use thiserror::Error;

/// A reward model that cannot be made. Every message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A spec's file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    /// A spec's file is not what it should be.
    #[error("{}:{line}: {reason}", path.display())]
    SpecFile {
        path: PathBuf,
        /// From 1.
        line: usize,
        reason: String,
    },
    /// Fields of a spec that contradict each other.
    #[error("PRM format {spec}: `{field}` {reason}")]
    Spec {
        /// The family's name, or the file.
        spec: String,
        field: &'static str,
        reason: String,
    },
    /// A spec that cannot be run with a checkpoint.
    #[error("PRM format {spec} does not fit {}: `{field}`: {reason}", model.display())]
    Unfit {
        /// The family's name, or the file.
        spec: String,
        field: &'static str,
        model: PathBuf,
        reason: String,
    },
    /// Neither a family nor a file.
    #[error("there is no PRM format {name:?} (known: {known}; or the path of a TOML file)")]
    UnknownFormat { name: String, known: String },
    /// A checkpoint that no family knows.
    #[error(
        "{}: not recognised as a reward model; name its format ({known}) or put a prm.toml beside its config.json",
        model.display()
    )]
    NotRecognised { model: PathBuf, known: String },
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}
