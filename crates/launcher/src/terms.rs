//! The instructions of a guard, and the report of a process that could not become its program.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Limits;

/// The conditions under which a program runs. A guard gets them as JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Terms {
    pub(crate) limits: Limits,
    /// The surroundings of the program; `None` leaves it those of the guard.
    pub(crate) room: Option<Room>,
}

/// The surroundings of a program in a sandbox: its files and its environment.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Room {
    /// Whether the program is kept from everything outside the room.
    pub(crate) confined: bool,
    /// Folders and files that the program may read and execute.
    pub(crate) readable: Vec<PathBuf>,
    /// The working folder, the only one in which the program may write.
    pub(crate) scratch: PathBuf,
    /// The most bytes in the scratch folder, where the system can mount one.
    pub(crate) scratch_bytes: u64,
    /// An empty folder, on which the program's view of the file system is mounted.
    pub(crate) view: PathBuf,
    /// A file for a [`Report`].
    pub(crate) report: PathBuf,
}

/// The layers of a sandbox and, if the program was not started, the reason.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    pub(crate) layers: Vec<String>,
    pub(crate) failure: Option<Failure>,
}

/// The reason why a program was not started.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) code: u8,
}
