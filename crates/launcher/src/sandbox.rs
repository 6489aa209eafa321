//! Programs that nobody trusts, such as code that a model wrote.

mod command;
mod folder;
mod readable;
mod streams;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::terms::{Report, Room, Terms};
use crate::{LaunchError, Launcher, Limits, Running};
use folder::Folder;
use streams::{Event, Streams};

pub use command::{run_sandboxed, sandbox_command};

/// The longest time that streams may stay open after the program has ended. Only a process that left
/// an unprotected sandbox can hold them.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time between two looks at a program that has closed its streams.
const LOOK: Duration = Duration::from_millis(1);

/// The number of the signal for CPU time, on all systems with a sandbox.
const SIGXCPU: i32 = 24;

/// The number of the signal for a file that is too large.
const SIGXFSZ: i32 = 25;

/// Runs programs that nobody trusts. A program has a scratch folder of its own, which is removed
/// afterwards. It may read the system's programs and its own installation only. It has no network,
/// sees no other process, and ends with everything that it started.
///
/// A sandbox does not hide that it is one, does not limit the memory of all processes together, and
/// does not protect from faults of the kernel.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// The launcher of the programs.
    pub launcher: Launcher,
    /// Whether programs are kept from the rest of the system.
    pub protection: Protection,
    /// Folders and files that programs may read and execute, besides the system's programs and the
    /// program's installation.
    pub readable: Vec<PathBuf>,
    /// The resources of a program.
    pub limits: Limits,
    /// The longest time that a program may run.
    pub wall: Duration,
    /// The most bytes of standard output and standard error together.
    pub output: u64,
    /// The most bytes in the scratch folder. Holds where the system can mount one.
    pub scratch: u64,
}

/// Whether programs are kept from the rest of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Everything that [`Sandbox`] says holds, or no program is started.
    #[default]
    Full,
    /// Limits alone. The program runs with all rights of the user.
    None,
}

/// The end of a program in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The program ended with this exit code.
    Exited(u8),
    /// A signal with this number ended the program.
    Signal(i32),
    /// The program ran for too long, and was killed.
    WallClock,
    /// The program used too much CPU time, and was killed.
    CpuTime,
    /// The program wrote too much to standard output and standard error, and was killed.
    Output,
    /// The program wrote a file that is too large, and was killed.
    FileSize,
}

/// The end and the output of a program in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The end of the program.
    pub ended: Ended,
    /// The names of the layers around the program, such as `mounts` or `landlock 6`.
    pub layers: Vec<String>,
    /// The standard output.
    pub output: Vec<u8>,
    /// The standard error.
    pub errors: Vec<u8>,
}

impl Default for Sandbox {
    /// Returns a sandbox for small programs: [`Limits::small`], 30 seconds, 1 MiB of output and 64 MiB
    /// of scratch.
    fn default() -> Self {
        Self {
            launcher: Launcher::default(),
            protection: Protection::default(),
            readable: Vec::new(),
            limits: Limits::small(),
            wall: Duration::from_secs(30),
            output: 1 << 20,
            scratch: 64 << 20,
        }
    }
}

impl Ended {
    /// Returns the exit code of the command `sandbox`: the program's own, 128 and the number of a
    /// signal, 124 for the wall clock, 123 for output, 122 for CPU time, or 121 for the size of a file.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Signal(number) => u8::try_from(128 + number).unwrap_or(u8::MAX),
            Self::WallClock => 124,
            Self::Output => 123,
            Self::CpuTime => 122,
            Self::FileSize => 121,
        }
    }

    /// Returns the limit that ended the program; `None` if none did.
    #[must_use]
    pub fn limit(self) -> Option<&'static str> {
        match self {
            Self::Exited(_) | Self::Signal(_) => None,
            Self::WallClock => Some("wall clock"),
            Self::Output => Some("output"),
            Self::CpuTime => Some("CPU time"),
            Self::FileSize => Some("file size"),
        }
    }
}

impl Sandbox {
    /// Runs a program until it ends or a limit ends it. `program` is a path, or a name in
    /// `/usr/local/bin`, `/usr/bin` or `/bin`. Returns the end and the names of the layers.
    ///
    /// The input is read in a thread, which ends when the input does.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started, or if the system lacks what a sandbox needs.
    pub fn run(
        &self,
        program: &Path,
        arguments: &[OsString],
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        errors: impl Write + Send + 'static,
    ) -> Result<(Ended, Vec<String>), LaunchError> {
        let program = readable::find(program)?;
        let folder = Folder::new().map_err(|source| LaunchError::Sandbox {
            what: "make a folder",
            source,
        })?;
        let terms = Terms {
            limits: self.limits,
            room: Some(Room {
                confined: self.protection == Protection::Full,
                readable: readable::all(&program, &self.readable)?,
                scratch: folder.scratch(),
                scratch_bytes: self.scratch,
                view: folder.view(),
                report: folder.report(),
            }),
        };
        let deadline = Instant::now() + self.wall;
        let mut running = self.launcher.start_on(&terms, &program, arguments)?;
        let streams = Streams::start(&mut running, input, output, errors, self.output);
        let ended = wait(running, &streams, deadline).map_err(|source| LaunchError::Sandbox {
            what: "wait for the program",
            source,
        })?;
        // A guard that failed leaves no report. Standard error has its reason then.
        let report = fs::read(folder.report()).unwrap_or_default();
        let report: Option<Report> = serde_json::from_slice(&report).ok();
        let report = report.unwrap_or_else(|| Report::failed(ended));
        match report.failure {
            Some(failure) => Err(LaunchError::NotStarted {
                message: failure.message,
                code: failure.code,
            }),
            None => Ok((ended, report.layers)),
        }
    }

    /// Runs a program as [`run`](Self::run) does, and keeps its output.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn capture(
        &self,
        program: &Path,
        arguments: &[OsString],
        input: Vec<u8>,
    ) -> Result<Captured, LaunchError> {
        let [output, errors] = [Kept::default(), Kept::default()];
        let sinks = (output.clone(), errors.clone());
        let (ended, layers) = self.run(program, arguments, Cursor::new(input), sinks.0, sinks.1)?;
        Ok(Captured {
            ended,
            layers,
            output: output.take(),
            errors: errors.take(),
        })
    }
}

impl Report {
    /// The report of a guard that wrote none.
    fn failed(ended: Ended) -> Self {
        let message = "the guard of the sandbox failed".to_owned();
        let code = match ended {
            Ended::Exited(code) if code > 0 => code,
            _ => 125,
        };
        Self {
            layers: Vec::new(),
            failure: Some(crate::terms::Failure { message, code }),
        }
    }
}

/// Waits until the program ends, or ends it at a limit.
fn wait(mut running: Running, streams: &Streams, deadline: Instant) -> io::Result<Ended> {
    let mut open = Streams::COUNT;
    let mut exited: Option<(ExitStatus, Instant)> = None;
    loop {
        let now = Instant::now();
        if exited.is_none() && now >= deadline {
            running.end()?;
            streams.drain(open, PATIENCE);
            return Ok(Ended::WallClock);
        }
        // A closed stream is the usual sign of the end, so the first wait is long.
        let pause = if open > 0 { 50 * LOOK } else { LOOK };
        match streams.next(pause.min(deadline.saturating_duration_since(now)).max(LOOK)) {
            Some(Event::Full) => {
                running.end()?;
                streams.drain(open - 1, PATIENCE);
                return Ok(Ended::Output);
            }
            Some(Event::Closed) => open -= 1,
            None if open == 0 => thread::sleep(LOOK),
            None => {}
        }
        if exited.is_none() {
            exited = running.try_wait()?.map(|status| (status, Instant::now()));
        }
        if let Some((status, since)) = exited
            && (open == 0 || since.elapsed() > PATIENCE)
        {
            return Ok(ended(&running, status));
        }
    }
}

fn ended(running: &Running, status: ExitStatus) -> Ended {
    match (running.signal(), status.code()) {
        (Some(SIGXCPU), _) => Ended::CpuTime,
        (Some(SIGXFSZ), _) => Ended::FileSize,
        (Some(number), _) => Ended::Signal(number),
        // A guard that was killed itself tells no signal.
        (None, code) => code
            .and_then(|code| u8::try_from(code).ok())
            .map_or(Ended::Signal(9), Ended::Exited),
    }
}

/// A sink whose content can be taken out while a thread still holds it.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
