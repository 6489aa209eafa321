//! Errors of measurements and of their reports.

use std::io;
use std::path::{Path, PathBuf};

use beamgen::eval::RunFileError;
use beamgen::scorer::ScoreError;
use beamgen_labels::LabelsError;

/// Errors of measurements and of their reports. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings are invalid, a model cannot be loaded, or a search failed.
    #[error(transparent)]
    Search(#[from] beamgen::Error),
    /// A file of labelled chains cannot be used.
    #[error(transparent)]
    Labels(#[from] LabelsError),
    /// A file of rows or records cannot be used.
    #[error(transparent)]
    RunFile(#[from] RunFileError),
    /// The reward model is lost.
    #[error(transparent)]
    Model(#[from] ScoreError),
    /// A file cannot be read, or has unexpected contents.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The path of the file, as the caller gave it.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// A file or a folder cannot be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A folder has no results that a report could be drawn from.
    #[error("{}: {reason}", path.display())]
    NoResults {
        /// The file with the results.
        path: PathBuf,
        /// The fault of the file, and what to do.
        reason: String,
    },
    /// The folder of a report has one already.
    #[error("{}: exists already", path.display())]
    Exists {
        /// The file with its rows.
        path: PathBuf,
    },
    /// A bench is not complete.
    #[error("{}: {cell}: no row of problem {id} with seed {seed}", path.display())]
    NoRow {
        /// The file with the rows.
        path: PathBuf,
        /// The set and the cell.
        cell: String,
        /// The id of the problem that the cell did not solve.
        id: String,
        /// The seed with which the problem was not solved.
        seed: u64,
    },
    /// The rows of a cell were measured under other settings or on other problems.
    #[error("{}: {cell}: {difference}", path.display())]
    OtherSettings {
        /// The file with the rows.
        path: PathBuf,
        /// The set and the cell.
        cell: String,
        /// The first field that differs, with its value in the file and here.
        difference: String,
    },
    /// The settings of a cell do not go together.
    #[error("run \"{run}\" at n = {n}: {error}")]
    Cell {
        /// The name of the run that the cell belongs to.
        run: String,
        /// N, the number of chains.
        n: usize,
        /// The reason.
        error: Box<beamgen::Error>,
    },
    /// A problem of a bench failed.
    #[error("set {set}, problem {id}: {reason}")]
    Problem {
        /// The name of the set that contains the problem.
        set: String,
        /// The id of the problem that failed.
        id: String,
        /// The message of the search's error, on one line.
        reason: String,
    },
    /// A figure could not be drawn.
    #[error("{}: {stem}: {reason}", folder.display())]
    Figure {
        /// The folder it was for.
        folder: PathBuf,
        /// The name of the figure's files, without their extension.
        stem: String,
        /// The message of the drawing library.
        reason: String,
    },
    /// The caller cancelled the measurement, see [`Watch`](crate::Watch).
    #[error("cancelled")]
    Cancelled,
    /// The labelled chains are of several policies, which the string lists.
    #[error("the data have chains of several policies: {0}")]
    Policies(String),
    /// The data or the settings do not allow this measurement; the string is the whole message.
    #[error("{0}")]
    Data(String),
}

impl Error {
    /// Returns whether the caller's settings or files are at fault, rather than the run.
    #[must_use]
    pub fn is_input(&self) -> bool {
        match self {
            Self::Search(error) => error.is_input(),
            Self::RunFile(error) => !error.is_failure(),
            Self::Write { error, .. } => beamgen_files::is_about_the_name(error),
            Self::Model(_) | Self::Problem { .. } | Self::Figure { .. } | Self::Cancelled => false,
            Self::Labels(_)
            | Self::Read { .. }
            | Self::NoResults { .. }
            | Self::Exists { .. }
            | Self::NoRow { .. }
            | Self::OtherSettings { .. }
            | Self::Cell { .. }
            | Self::Policies(_)
            | Self::Data(_) => true,
        }
    }

    /// Returns a function that adds the file to an error of reading it.
    pub(crate) fn reading<R: ToString>(path: &Path) -> impl Fn(R) -> Self {
        |reason| Self::Read {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// Returns a function that adds the file or folder to an error of writing it.
    pub(crate) fn writing(path: &Path) -> impl Fn(io::Error) -> Self {
        |error| Self::Write {
            path: path.to_owned(),
            error,
        }
    }
}
