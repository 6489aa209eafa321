use std::path::PathBuf;

use thiserror::Error;

/// A reward model that cannot be made. Every message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A spec's file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file as it was named or found.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A spec's file is not a valid spec in TOML or JSON.
    #[error("{}:{line}: {reason}", path.display())]
    SpecFile {
        /// The file as it was named or found.
        path: PathBuf,
        /// The line of the error, from 1.
        line: usize,
        /// The parser's message, in one line.
        reason: String,
    },
    /// Fields of a spec that contradict each other.
    #[error("PRM format {spec}: `{field}` {reason}")]
    Spec {
        /// The family's name, or the file.
        spec: String,
        /// The field at fault as a path, such as `step.tag`.
        field: &'static str,
        /// The fault, as the rest of a sentence that begins with the field.
        reason: String,
    },
    /// A spec that cannot be run with a checkpoint.
    #[error("PRM format {spec} does not fit {}: `{field}`: {reason}", model.display())]
    Unfit {
        /// The family's name, or the file.
        spec: String,
        /// The field that does not fit as a path, such as `step.tag`.
        field: &'static str,
        /// The folder or file of the checkpoint.
        model: PathBuf,
        /// The reason why the checkpoint cannot be read in that way.
        reason: String,
    },
    /// A name of a format that is neither a family nor an existing file.
    #[error("invalid PRM format {name:?}: use one of {known}, or the path of a TOML file")]
    UnknownFormat {
        /// The name as it was given.
        name: String,
        /// The names of all families, separated by commas.
        known: String,
    },
    /// A checkpoint without a `prm.toml` or `prm.json` that no family recognises.
    #[error(
        "{}: not recognised as a reward model: name its format ({known}) or put a prm.toml next to its config.json",
        model.display()
    )]
    NotRecognised {
        /// The folder or file of the checkpoint.
        model: PathBuf,
        /// The names of all families, separated by commas.
        known: String,
    },
    /// A file of the checkpoint is missing or broken.
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
}
