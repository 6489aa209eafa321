//! Arguments of `beamgen sandbox`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use beamgen::launcher::{Launcher, Limits, Protection, Sandbox};
use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
#[command(after_long_help = SANDBOX)]
pub(crate) struct SandboxArgs {
    /// Program, and its arguments after `--`
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub program: Vec<OsString>,
    /// Most seconds of CPU time of each process
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = some())]
    pub cpu: u64,
    /// Seconds until everything is killed
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = some())]
    pub wall: u64,
    /// Most bytes of address space of each process
    #[arg(long, value_name = "BYTES", default_value_t = 512 << 20, value_parser = some())]
    pub memory: u64,
    /// Most processes and threads
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = some())]
    pub processes: u64,
    /// Most open files of each process
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = some())]
    pub open_files: u64,
    /// Most bytes of each file that is written
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, value_parser = some())]
    pub file_size: u64,
    /// Most bytes in the scratch folder, where it can be mounted
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, value_parser = some())]
    pub scratch: u64,
    /// Most bytes of standard output and standard error together
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = some())]
    pub output: u64,
    /// File or folder that the program may read as well; may be repeated
    #[arg(long, value_name = "PATH")]
    pub read: Vec<PathBuf>,
    /// full, or none: limits alone, with all rights of the user
    #[arg(long, value_enum, default_value_t = ProtectionFlag::Full)]
    pub sandbox: ProtectionFlag,
    /// Print the layers of protection that this system has
    #[arg(long)]
    pub show_layers: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ProtectionFlag {
    Full,
    None,
}

/// Reads a number that is greater than 0. The wall clock is a point in time, which has a bound far
/// above any use.
fn some() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..1 << 53)
}

impl SandboxArgs {
    pub(crate) fn sandbox(&self) -> Sandbox {
        Sandbox {
            launcher: Launcher::this_program(),
            protection: match self.sandbox {
                ProtectionFlag::Full => Protection::Full,
                ProtectionFlag::None => Protection::None,
            },
            readable: self.read.clone(),
            limits: Limits {
                memory: Some(self.memory),
                cpu_seconds: Some(self.cpu),
                file_size: Some(self.file_size),
                processes: Some(self.processes),
                open_files: Some(self.open_files),
            },
            wall: Duration::from_secs(self.wall),
            output: self.output,
            scratch: self.scratch,
        }
    }
}

const SANDBOX: &str = "\
Examples:
  beamgen sandbox -- python3 -c 'print(6 * 7)'
  beamgen sandbox --cpu 2 --memory 268435456 --read tests.py -- python3 tests.py
  beamgen sandbox --show-layers -- true

The program has no network, sees no other process, reads the system's programs and what --read names, and writes \
in an empty folder that is removed afterwards. docs/rewards/sandbox.md says what this protects from, and what not. \
Where the system lacks a protection that is needed, no program is started unless --sandbox none is given.

The exit code is the program's, 128 and the number of a signal, 124 for the wall clock, 123 for output, 122 for CPU \
time, 121 for the size of a file, or 125 if the sandbox cannot be made.";
