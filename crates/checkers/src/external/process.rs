//! One process of an external checker. Separate threads read from and write to the pipes, so that a
//! process that hangs blocks nobody else.

use std::io::{BufRead, BufReader, PipeWriter, Read, Write};
use std::process::{ChildStderr, ChildStdout};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use beamgen_launcher::{LaunchError, Launcher, Program, Running};

/// The longest line of output that is parsed, in bytes.
const MAX_LINE: usize = 64 << 10;

/// Bytes kept of the end of the process's standard error, for the message about a crash.
const STDERR_TAIL: usize = 400;

/// The worker and the process that an event comes from. Events of a process that was replaced are
/// recognised by the number of its start and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub worker: usize,
    pub start: u64,
}

/// An event of a process.
#[derive(Debug)]
pub(super) enum Event {
    /// The process wrote a line.
    Line(Vec<u8>),
    /// The process wrote a line of more than [`MAX_LINE`] bytes.
    TooLong,
    /// The process closed its standard output.
    Ended,
    /// No process did anything: another thread ends a wait for events.
    Wake,
}

/// A running process. Dropping it kills the process and its whole process group.
#[derive(Debug)]
pub(super) struct Process {
    running: Running,
    pub source: Source,
    to_stdin: Sender<Arc<str>>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl Process {
    pub(super) fn start(
        launcher: &Launcher,
        command: &str,
        source: Source,
        events: SyncSender<(Source, Event)>,
    ) -> Result<Self, LaunchError> {
        let mut running = launcher.start(&Program::shell(command))?;
        let (to_stdin, lines) = channel::<Arc<str>>();
        if let Some(stdin) = running.input.take() {
            thread::spawn(move || write(stdin, lines));
        }
        if let Some(stdout) = running.output.take() {
            thread::spawn(move || read(stdout, source, &events));
        }
        let stderr = Arc::new(Mutex::new(Vec::new()));
        if let Some(pipe) = running.errors.take() {
            let tail = Arc::clone(&stderr);
            thread::spawn(move || keep_tail(pipe, &tail));
        }
        Ok(Self {
            running,
            source,
            to_stdin,
            stderr,
        })
    }

    /// Queues a line for standard input. An error is ignored: the event of the process's end
    /// follows.
    pub(super) fn write(&self, line: Arc<str>) {
        let _ = self.to_stdin.send(line);
    }

    /// Kills the process and its children. Returns how the process had ended, and the last line of
    /// its standard error.
    pub(super) fn end(self) -> String {
        // A process that closed its output is about to exit. Killed at once, it would be reported
        // as killed, and its last message would be lost.
        thread::sleep(Duration::from_millis(20));
        let how = match self.running.end() {
            Ok(status) => status.to_string(),
            Err(_) => "it cannot be waited for".to_owned(),
        };
        let stderr = self
            .stderr
            .lock()
            .map(|tail| tail.clone())
            .unwrap_or_default();
        let text = String::from_utf8_lossy(&stderr);
        match text.lines().rfind(|line| !line.trim().is_empty()) {
            Some(line) => format!("{how} ({})", line.trim()),
            None => how,
        }
    }
}

fn write(mut stdin: PipeWriter, lines: Receiver<Arc<str>>) {
    for line in lines {
        if stdin
            .write_all(line.as_bytes())
            .and_then(|()| stdin.flush())
            .is_err()
        {
            return;
        }
    }
}

fn read(stdout: ChildStdout, source: Source, events: &SyncSender<(Source, Event)>) {
    let mut stdout = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = MAX_LINE as u64 + 1;
        let read = (&mut stdout).take(most).read_until(b'\n', &mut line);
        let event = match read {
            Ok(0) | Err(_) => Event::Ended,
            // The rest of the line is skipped: parsed by itself, it might look like an answer.
            Ok(_) if line.len() > MAX_LINE => match stdout.skip_until(b'\n') {
                Ok(_) => Event::TooLong,
                Err(_) => Event::Ended,
            },
            Ok(_) => Event::Line(std::mem::take(&mut line)),
        };
        let ended = matches!(event, Event::Ended);
        if events.send((source, event)).is_err() || ended {
            return;
        }
    }
}

fn keep_tail(mut pipe: ChildStderr, tail: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 1024];
    while let Ok(read @ 1..) = pipe.read(&mut bytes) {
        let Ok(mut tail) = tail.lock() else { return };
        tail.extend_from_slice(&bytes[..read]);
        let excess = tail.len().saturating_sub(STDERR_TAIL);
        tail.drain(..excess);
    }
}
