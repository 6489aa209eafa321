use std::path::PathBuf;

use thiserror::Error;

/// A reward model that cannot be made. Every message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A spec's file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A spec's file that is not valid.
    #[error("{}:{line}: {reason}", path.display())]
    SpecFile {
        /// Path of the file.
        path: PathBuf,
        /// Line of the error, from 1.
        line: usize,
        /// The error at that line.
        reason: String,
    },
    /// Fields of a spec that contradict each other.
    #[error("PRM format {spec}: `{field}` {reason}")]
    Spec {
        /// The family's name, or the file.
        spec: String,
        /// The field at fault, such as `step.tag`.
        field: &'static str,
        /// The fault, written to follow the field's name.
        reason: String,
    },
    /// A spec that cannot be run with a checkpoint.
    #[error("PRM format {spec} does not fit {}: `{field}`: {reason}", model.display())]
    Unfit {
        /// The family's name, or the file.
        spec: String,
        /// The field that does not fit, such as `step.tag`.
        field: &'static str,
        /// Path of the checkpoint.
        model: PathBuf,
        /// The reason why the checkpoint cannot be read that way.
        reason: String,
    },
    /// A format that is neither the name of a family nor a file.
    #[error("invalid PRM format {name:?}: use one of {known}, or the path of a TOML file")]
    UnknownFormat {
        /// The name that was given.
        name: String,
        /// The names of the families.
        known: String,
    },
    /// A checkpoint that no family recognises.
    #[error(
        "{}: not recognised as a reward model: name its format ({known}) or put a prm.toml next to its config.json",
        model.display()
    )]
    NotRecognised {
        /// Path of the checkpoint.
        model: PathBuf,
        /// The names of the families.
        known: String,
    },
    /// A file of the checkpoint is missing or broken.
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}
