use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// An error of starting a program. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The program that starts other programs was not found.
    #[error(
        "program {} not found, which starts other programs: install it next to this program or on the \
         search path, or name a launcher",
        launcher.display()
    )]
    Missing {
        /// The path or name that was tried.
        launcher: PathBuf,
    },
    /// The launcher cannot be started, or the pipe of the program's input cannot be handed to it.
    #[error("the launcher {} cannot be started: {source}", launcher.display())]
    Launcher {
        /// The launcher's program.
        launcher: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The launcher cannot start the program.
    #[error("cannot start {}: {source}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A limit cannot be set.
    #[error("cannot limit {what}: {source}")]
    Limit {
        /// The thing that is limited.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// A system lacks what a sandbox needs.
    #[error("no sandbox on this system: {0}; name `--sandbox none` to run the program without one")]
    NoSandbox(&'static str),
    /// A part of a sandbox cannot be made.
    #[error("cannot {what} for a sandbox: {source}")]
    Sandbox {
        /// The part, with its verb.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// A file or folder that the program should read does not exist.
    #[error("cannot read {} for a sandbox: {source}", path.display())]
    Readable {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The process in the sandbox did not become the program.
    #[error("{message}")]
    NotStarted {
        /// The reason, one line.
        message: String,
        /// The exit code for it.
        code: u8,
    },
    /// The arguments of the command `sandbox` cannot be read.
    #[error(
        "{0}; write `sandbox [--sandbox none] [--read PATH] [--cpu SECONDS] ... -- PROGRAM ARGUMENTS`"
    )]
    Arguments(String),
    /// A launcher was started with instructions that it cannot read.
    #[error("cannot read a launcher's instructions: {0}")]
    Instructions(String),
}

impl LaunchError {
    /// The exit code of a launcher that fails so: as shells have it, 127 for a program that does not
    /// exist, and 126 for one that cannot be started. 125 is a sandbox that cannot be made.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        // Shells use these codes, so a caller can treat a guard like a shell.
        match self {
            Self::Program { source, .. } if source.kind() == ErrorKind::NotFound => 127,
            Self::Instructions(_) | Self::Arguments(_) => 2,
            Self::NoSandbox(_) | Self::Sandbox { .. } | Self::Readable { .. } => 125,
            Self::NotStarted { code, .. } => *code,
            _ => 126,
        }
    }
}
