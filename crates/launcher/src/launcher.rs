//! The side of the process that wants a program: it starts a guard, and the guard starts the
//! program.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, PipeWriter};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::terms::Terms;
use crate::{GUARD, LaunchError, Limits, sys};

/// The name of the small program that is a launcher.
const NAME: &str = "beamgen-launcher";

/// The longest time that a guard may take to end its program, before it is killed itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts programs, each through a guard. A launcher is a command line; the instructions for the
/// guard are appended to the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// A program to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// A path, or a name on the search path.
    pub path: PathBuf,
    /// The arguments of the program.
    pub arguments: Vec<OsString>,
    /// The resources that it may use.
    pub limits: Limits,
}

impl Program {
    /// A command for `sh -c`, without limits.
    #[must_use]
    pub fn shell(command: impl AsRef<OsStr>) -> Self {
        Self {
            path: "sh".into(),
            arguments: vec!["-c".into(), command.as_ref().to_owned()],
            limits: Limits::default(),
        }
    }
}

impl Launcher {
    /// A program that calls [`run_if_asked`](crate::run_if_asked) on all its arguments.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
        }
    }

    /// Gives the launcher's program arguments of its own, which come before a launcher's instructions.
    #[must_use]
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// The program that this process runs, if it calls [`run_if_asked`](crate::run_if_asked) on all
    /// its arguments.
    #[must_use]
    pub fn this_program() -> Self {
        Self::new(sys::this_program())
    }

    /// The program `beamgen-launcher` next to the program of this process, or else on the search
    /// path.
    #[must_use]
    pub fn installed() -> Self {
        let name = format!("{NAME}{}", std::env::consts::EXE_SUFFIX);
        let program = std::env::current_exe();
        let sibling = program.map(|program| program.with_file_name(&name));
        // A launcher of the same installation is preferred, because the instructions differ between
        // versions.
        let found = sibling.ok().filter(|path| path.is_file());
        Self::new(found.unwrap_or_else(|| name.into()))
    }

    /// Starts a program in a process group of its own, with pipes for its standard input, output and
    /// error.
    ///
    /// # Errors
    /// Returns an error if the launcher does not exist or cannot be started. If the launcher cannot
    /// start the program, it writes the reason to standard error and exits with 126 or 127.
    pub fn start(&self, program: &Program) -> Result<Running, LaunchError> {
        let terms = Terms {
            limits: program.limits,
            room: None,
        };
        self.start_on(&terms, &program.path, &program.arguments)
    }

    /// Starts a program on terms that may have more than limits.
    pub(crate) fn start_on(
        &self,
        terms: &Terms,
        path: &Path,
        arguments: &[OsString],
    ) -> Result<Running, LaunchError> {
        self.try_start(terms, path, arguments).map_err(|source| {
            let launcher = self.program.clone();
            match source.kind() {
                ErrorKind::NotFound => LaunchError::Missing { launcher },
                _ => LaunchError::Launcher { launcher, source },
            }
        })
    }

    fn try_start(&self, terms: &Terms, path: &Path, arguments: &[OsString]) -> io::Result<Running> {
        let terms = serde_json::to_string(terms)?;
        // The guard's standard input is the control. The program's input is therefore sent over the
        // control.
        let (control, theirs) = sys::control()?;
        let (from_input, input) = io::pipe()?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .args([GUARD, &terms])
            .arg(path)
            .args(arguments)
            .stdin(theirs)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut guard = command.spawn()?;
        let running = Running {
            input: Some(input),
            output: guard.stdout.take(),
            errors: guard.stderr.take(),
            guard,
            control,
        };
        sys::hand_over(&running.control, from_input)?;
        Ok(running)
    }
}

impl Default for Launcher {
    fn default() -> Self {
        Self::installed()
    }
}

/// A running program. Dropping the value kills the program and its process group.
#[derive(Debug)]
pub struct Running {
    /// The standard input of the program.
    pub input: Option<PipeWriter>,
    /// The standard output of the program.
    pub output: Option<ChildStdout>,
    /// The standard error of the program.
    pub errors: Option<ChildStderr>,
    guard: Child,
    control: sys::Control,
}

impl Running {
    /// Returns the exit status of the program, or `None` while the program is running.
    ///
    /// # Errors
    /// The error of the system.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.guard.try_wait()
    }

    /// Returns the number of the signal that ended the program. The program has ended.
    pub(crate) fn signal(&self) -> Option<i32> {
        sys::signal(&self.control)
    }

    /// Kills the program and its process group, unless the program has ended, and returns the exit
    /// status. Takes at most about a second.
    ///
    /// # Errors
    /// The error of the system.
    pub fn end(mut self) -> io::Result<ExitStatus> {
        self.finish()
    }

    fn finish(&mut self) -> io::Result<ExitStatus> {
        // When the control closes, the guard kills the group. Only the guard can do so safely: it
        // has not waited for the program yet, so no other group can have the same number.
        sys::close(&self.control);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.guard.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                self.guard.kill()?;
                return self.guard.wait();
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // `drop` cannot return the error.
        let _ = self.finish();
    }
}
