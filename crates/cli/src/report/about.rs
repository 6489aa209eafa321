//! Where and with what a report was made.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::report::markdown::{code_block, plain};
use crate::version::COMMIT;

/// The program, the call and the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct About {
    /// The call, without `--resume`.
    pub command: String,
    /// When the report's rows were complete, seconds since 1970 (UTC).
    pub unix_time: u64,
    pub version: String,
    /// That the program was built from; earlier programs did not always know one.
    pub commit: Option<String>,
    pub machine: Machine,
}

/// The machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    /// Logical CPUs that this process may use.
    pub cpus: usize,
    pub memory_bytes: u64,
    pub os: String,
    pub arch: String,
}

impl About {
    pub fn this() -> Self {
        Self {
            command: command(),
            unix_time: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: Some(COMMIT.to_owned()),
            machine: Machine::this(),
        }
    }

    /// The head of a report in Markdown: its title, the call, the program and the machine.
    pub fn heading(&self, title: &str) -> String {
        let machine = &self.machine;
        format!(
            "# {title}\n\n{}\n\nbeamgen {}, commit {}; {} ({} CPUs, {:.0} GiB, {}, {}).\n\n",
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

    /// The day as 2026-11-22.
    pub fn date(&self) -> String {
        // Days to a civil date: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms".
        let days = (self.unix_time / 86_400) as i64 + 719_468;
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

fn command() -> String {
    let quoted = |arg: OsString| {
        // What is no text cannot be shown exactly, and is no reason to lose a report.
        let arg = arg.to_string_lossy().into_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
        match !arg.is_empty() && arg.chars().all(plain) {
            true => arg,
            false => format!("'{}'", arg.replace('\'', "'\\''")),
        }
    };
    let args = std::env::args_os().skip(1).filter(|arg| arg != "--resume");
    std::iter::once("beamgen".to_owned())
        .chain(args.map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |unix_time| {
            About {
                unix_time,
                ..About::this()
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
