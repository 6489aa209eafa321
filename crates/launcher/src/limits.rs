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
    /// Bytes of each file that is written. A sandbox allows at least 4096.
    pub file_size: Option<u64>,
    /// Processes of the user, including those that are running already. The system ignores this
    /// limit for root. In a sandbox, processes that already run elsewhere do not count.
    pub processes: Option<u64>,
    /// Open files of each process.
    pub open_files: Option<u64>,
}

impl Limits {
    /// Limits for a small program of one process: 512 MiB of memory, 10 seconds of CPU time, files of
    /// 16 MiB, 16 processes and 64 open files.
    #[must_use]
    pub fn small() -> Self {
        Self {
            memory: Some(512 << 20),
            cpu_seconds: Some(10),
            file_size: Some(16 << 20),
            processes: Some(16),
            open_files: Some(64),
        }
    }
}
