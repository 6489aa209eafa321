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
    /// A launcher was started with instructions that it cannot read.
    #[error("cannot read a launcher's instructions: {0}")]
    Instructions(String),
}

impl LaunchError {
    /// The exit code of a launcher that fails so: as shells have it, 127 for a program that does not
    /// exist, and 126 for one that cannot be started.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        // Shells use these codes, so a caller can treat a guard like a shell.
        match self {
            Self::Program { source, .. } if source.kind() == ErrorKind::NotFound => 127,
            Self::Instructions(_) => 2,
            _ => 126,
        }
    }
}
