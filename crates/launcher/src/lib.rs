//! Starts other programs, sets their limits, and ends them with everything that they started.
//!
//! A process that is killed with SIGKILL cannot clean up. So each program has a *guard*, a process of
//! its own between it and the one that wants it. The guard starts the program in a process group. It
//! holds one end of a socket whose other end only the wanting process has. When that end closes,
//! for whatever reason, the guard kills the group.
//!
//! The guard is a program that calls [`run_if_asked`] first of all: the program `beamgen` itself
//! ([`Launcher::this_program`]), the small program `beamgen-launcher` of this crate
//! ([`Launcher::installed`]), or any other ([`Launcher::new`]). The guard runs it a second time to set
//! limits, and that process becomes the program. So the guard itself has no limits.
//!
//! A process that leaves its group (`setsid`) is not ended. If the guard is killed, Linux ends the
//! program, but not what the program started.
//!
//! A [`Sandbox`] starts programs that nobody trusts. Their processes end in every case.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod error;
mod launcher;
mod limits;
mod sandbox;
#[cfg(not(unix))]
#[path = "sys/elsewhere.rs"]
mod sys;
#[cfg(unix)]
#[path = "sys/unix.rs"]
mod sys;
mod terms;

use std::ffi::OsString;

pub use error::LaunchError;
pub use launcher::{Launcher, Program, Running};
pub use limits::Limits;
pub use sandbox::{Captured, Ended, Protection, Sandbox, run_sandboxed, sandbox_command};

/// The first word of the instructions for a guard. Change the number when the format changes.
const GUARD: &str = "beamgen-guard-2";

/// The first word of the instructions of a process that becomes the program.
const BECOME: &str = "beamgen-become-2";

/// The first word of the instructions of the first process in a process namespace.
const INIT: &str = "beamgen-init-1";

/// Runs as a guard or becomes the program, if the arguments from `at` on are instructions; returns
/// the exit code of this process. Returns `None` if they are no instructions. `arguments` is the
/// whole command line.
///
/// # Errors
/// The program cannot be started, or the instructions cannot be read. The process has to print why,
/// and to exit with [`LaunchError::exit_code`].
pub fn run_if_asked(arguments: &[OsString], at: usize) -> Option<Result<u8, LaunchError>> {
    let (own, instructions) = arguments.split_at_checked(at)?;
    let (word, instructions) = instructions.split_first()?;
    if word == GUARD {
        Some(sys::guard(own, instructions))
    } else if word == BECOME {
        Some(sys::become_program(instructions))
    } else if word == INIT {
        Some(sys::init())
    } else {
        None
    }
}
