//! Errors of measurements and their reports.

use std::io;
use std::path::{Path, PathBuf};

use beamgen::eval::RunFileError;
use beamgen::scorer::ScoreError;
use beamgen_labels::LabelsError;

/// Errors of measurements and reports. Messages are one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings are invalid, or the models or a search failed.
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
    /// A file cannot be read, or its contents are not as expected.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// A file or a folder cannot be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// The file or folder that was to be written.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A folder has no results that a report could be drawn from.
    #[error("{}: {reason}", path.display())]
    NoResults {
        /// The file with the results.
        path: PathBuf,
        /// The reason.
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
        /// The id of the problem.
        id: String,
        /// The seed of the missing search.
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
        /// The name of the run.
        run: String,
        /// N, the number of chains.
        n: usize,
        /// The reason.
        error: Box<beamgen::Error>,
    },
    /// A problem of a bench failed.
    #[error("set {set}, problem {id}: {reason}")]
    Problem {
        /// The name of the set of problems.
        set: String,
        /// The id of the problem.
        id: String,
        /// The reason.
        reason: String,
    },
    /// A figure could not be drawn.
    #[error("{}: {stem}: {reason}", folder.display())]
    Figure {
        /// The folder it was for.
        folder: PathBuf,
        /// The name of the figure's files, without ending.
        stem: String,
        /// The message of the drawing library.
        reason: String,
    },
    /// The caller cancelled the measurement through [`Watch`](crate::Watch).
    #[error("cancelled")]
    Cancelled,
    /// The labelled chains come from several policies.
    #[error("the data have chains of several policies: {0}")]
    Policies(String),
    /// The labelled chains cannot be used for this measurement.
    #[error("{0}")]
    Data(String),
}

impl Error {
    /// Whether the error lies in a setting or a file that the caller named, not in the run.
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
