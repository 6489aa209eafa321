//! The origin of a report: the program, the command and the machine.

use serde::{Deserialize, Serialize};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::report::markdown::{code_block, plain};

/// The program, the call and the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct About {
    /// The command line that made the report, without `--resume`.
    pub command: String,
    /// The start of the report in seconds since 1970 (UTC).
    pub unix_time: u64,
    /// The version of the program.
    pub version: String,
    /// The commit from which the program was built; `None` in reports by older programs.
    pub commit: Option<String>,
    /// The machine on which the program ran; servers may have run elsewhere.
    pub machine: Machine,
}

/// The properties of a machine that explain its speed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The name of the processor.
    pub cpu: String,
    /// The number of logical CPUs that this process may use.
    pub cpus: usize,
    /// The total memory in bytes, used or not.
    pub memory_bytes: u64,
    /// The name and the version of the operating system, as the system reports them.
    pub os: String,
    /// The architecture of the processor.
    pub arch: String,
}

impl About {
    /// Describes a report that starts now on this machine. `version` and `commit` are those of the program, `command`
    /// is its command line.
    #[must_use]
    pub fn now(version: &str, commit: &str, command: String) -> Self {
        Self {
            command,
            unix_time: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            version: version.to_owned(),
            commit: Some(commit.to_owned()),
            machine: Machine::this(),
        }
    }

    /// Returns the head of a report in Markdown: its title, a paragraph with the result if there is one, the call, the
    /// program and the machine.
    pub(crate) fn heading(&self, title: &str, result: &str) -> String {
        let machine = &self.machine;
        format!(
            "# {title}\n\n{result}{}{}\n\nbeamgen {}, commit {}; {} ({} CPUs, {:.0} GiB, {}, {}).\n\n",
            if result.is_empty() { "" } else { "\n\n" },
            code_block(&self.command),
            plain(&self.version),
            plain(self.commit.as_deref().unwrap_or("unknown")),
            plain(&machine.cpu),
            machine.cpus,
            machine.memory_bytes as f64 / f64::from(1 << 30),
            plain(&machine.os),
            plain(&machine.arch),
        )
    }

    /// Returns the date of the start (UTC), in the form 2026-11-22.
    pub(crate) fn date(&self) -> String {
        date_of(self.unix_time)
    }
}

/// Returns the date (UTC) of a number of seconds since 1970, in the form 2026-11-22.
pub fn date_of(unix_time: u64) -> String {
    // The algorithm `civil_from_days` of H. Hinnant, "chrono-Compatible Low-Level Date Algorithms".
    let days = (unix_time / 86_400) as i64 + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

impl Machine {
    fn this() -> Self {
        let wanted = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        let system = System::new_with_specifics(wanted);
        let cpu = system.cpus().first().map_or("", |cpu| cpu.brand().trim());
        Self {
            cpu: if cpu.is_empty() { "unknown CPU" } else { cpu }.to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: system.total_memory(),
            os: System::long_os_version().unwrap_or_else(|| std::env::consts::OS.to_owned()),
            arch: std::env::consts::ARCH.to_owned(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the description of a report that starts now, for tests.
    pub(crate) fn this() -> About {
        About::now("0", "0", "beamgen".to_owned())
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |unix_time| {
            About {
                unix_time,
                ..this()
            }
            .date()
        };
        assert_eq!(at(0), "1970-01-01");
        assert_eq!(at(951_782_400), "2000-02-29");
        assert_eq!(at(951_868_800), "2000-03-01");
        assert_eq!(at(1_795_305_599), "2026-11-21");
        assert_eq!(at(1_795_305_600), "2026-11-22");
    }
}
