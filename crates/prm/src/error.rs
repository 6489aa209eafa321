use std::path::PathBuf;

use thiserror::Error;

/// A reward model that cannot be made. Every message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A spec's file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A spec's file is not what it should be.
    #[error("{}:{line}: {reason}", path.display())]
    SpecFile {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// Fields of a spec that contradict each other.
    #[error("PRM format {spec}: `{field}` {reason}")]
    Spec {
        /// The family's name, or the file.
        spec: String,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A spec that cannot be run with a checkpoint.
    #[error("PRM format {spec} does not fit {}: `{field}`: {reason}", model.display())]
    Unfit {
        /// The family's name, or the file.
        spec: String,
        /// The field.
        field: &'static str,
        /// The checkpoint.
        model: PathBuf,
        /// Why it cannot be followed there.
        reason: String,
    },
    /// Neither a family nor a file.
    #[error("there is no PRM format {name:?} (known: {known}; or the path of a TOML file)")]
    UnknownFormat {
        /// What was given.
        name: String,
        /// The families.
        known: String,
    },
    /// A checkpoint that no family knows.
    #[error(
        "{}: not recognised as a reward model; name its format ({known}) or put a prm.toml beside its config.json",
        model.display()
    )]
    NotRecognised {
        /// The checkpoint.
        model: PathBuf,
        /// The families.
        known: String,
    },
    /// A file of the checkpoint is missing or broken.
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}
