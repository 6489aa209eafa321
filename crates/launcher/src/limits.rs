use serde::{Deserialize, Serialize};

/// Limits for a program and every process that it starts. `None` leaves a limit unchanged. A value
/// above the current limit has no effect. Core files are always disabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of address space of each process.
    pub memory: Option<u64>,
    /// Seconds of CPU time of each process.
    pub cpu_seconds: Option<u64>,
    /// Bytes of each file that is written.
    pub file_size: Option<u64>,
    /// Processes of the user, including those that are running already. The system ignores this
    /// limit for root.
    pub processes: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
}
