//! One process of an external checker. Threads read and write for it, so that nobody waits for a
//! process that does not.

use std::io::{BufRead, BufReader, PipeWriter, Read, Write};
use std::process::{ChildStderr, ChildStdout};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use beamgen_launcher::{LaunchError, Launcher, Program, Running};

/// The longest line of output that is looked at, in bytes.
const MAX_LINE: usize = 64 << 10;

/// As much as is kept of what it last wrote to its standard error, in bytes.
const STDERR_TAIL: usize = 400;

/// Which process of which worker an event is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub worker: usize,
    pub start: u64,
}

/// What a process did.
#[derive(Debug)]
pub(super) enum Event {
    /// It wrote a line.
    Line(Vec<u8>),
    /// It wrote a line that is too long to look at.
    TooLong,
    /// It closed its output.
    Ended,
    /// Of no process: wakes who waits for events.
    Wake,
}

/// A process that runs; dropped, it is killed with all its group.
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

    /// Has a line written. If the process is gone, its end tells.
    pub(super) fn write(&self, line: Arc<str>) {
        let _ = self.to_stdin.send(line);
    }

    /// Kills it, with what it started; how it had ended before, and what it last complained of.
    pub(super) fn end(self) -> String {
        // One that closed its output is about to end by itself.
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
            // What is left of the line is read and thrown away.
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
