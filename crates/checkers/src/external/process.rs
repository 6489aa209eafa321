//! One process of the user's program. Each pipe has a thread, so a process that hangs blocks only
//! its own threads.

use std::io::{BufRead, BufReader, PipeWriter, Read, Write};
use std::process::{ChildStderr, ChildStdout};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use beamgen_launcher::{LaunchError, Launcher, Program, Running};

/// The maximum length in bytes of an output line that is parsed.
const MAX_LINE: usize = 64 << 10;

/// The number of bytes kept from the end of standard error, to explain a crash.
const STDERR_TAIL: usize = 400;

/// The origin of an event. `start` counts all processes, so that late events of a replaced process
/// can be told apart and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub worker: usize,
    pub start: u64,
}

/// An event for the thread that drives the checker.
#[derive(Debug)]
pub(super) enum Event {
    /// A line from standard output, with its line break.
    Line(Vec<u8>),
    /// A line longer than [`MAX_LINE`] bytes; its contents were skipped.
    TooLong,
    /// The process closed its standard output, as it does when it ends.
    Ended,
    /// Not from a process: another thread ends the wait for events.
    Wake,
}

/// The longest wait for the end of standard error. A child that left the process group may keep the
/// pipe open.
const STDERR_WAIT: Duration = Duration::from_secs(1);

/// A running process. Dropping the value kills the process and its process group.
#[derive(Debug)]
pub(super) struct Process {
    running: Running,
    pub source: Source,
    to_stdin: Sender<Arc<str>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    /// Disconnected once standard error was read to its end.
    stderr_end: Receiver<()>,
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
        let (at_end, stderr_end) = channel();
        if let Some(pipe) = running.errors.take() {
            let tail = Arc::clone(&stderr);
            thread::spawn(move || {
                keep_tail(pipe, &tail);
                drop(at_end);
            });
        }
        Ok(Self {
            running,
            source,
            to_stdin,
            stderr,
            stderr_end,
        })
    }

    /// Queues a line for standard input. Errors are ignored, because an event for the end of the
    /// process follows.
    pub(super) fn write(&self, line: Arc<str>) {
        let _ = self.to_stdin.send(line);
    }

    /// Kills the process and its children. Returns the exit status and the last line of standard
    /// error.
    pub(super) fn end(self) -> String {
        // After closing its output a process is about to exit. Killing it at once would hide its
        // exit status and its last message.
        thread::sleep(Duration::from_millis(20));
        let how = match self.running.end() {
            Ok(status) => status.to_string(),
            Err(_) => "it cannot be waited for".to_owned(),
        };
        let _ = self.stderr_end.recv_timeout(STDERR_WAIT);
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
            // The rest of the line is skipped, since it might look like an answer.
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
