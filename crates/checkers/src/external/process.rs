//! One process of an external checker, in a process group of its own. Threads read and write for
//! it, so that nobody waits for a process that does not.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, SyncSender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// The longest line of output that is looked at, in bytes.
const MAX_LINE: usize = 64 << 10;

/// As much as is kept of what it last wrote to its standard error, in bytes.
const STDERR_TAIL: usize = 400;

/// Which process of which worker an event is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    pub worker: usize,
    pub start: u64,
}

/// What a process did.
#[derive(Debug)]
pub enum Event {
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
pub struct Process {
    child: Child,
    ended: bool,
    source: Source,
    to_stdin: Sender<Arc<str>>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl Process {
    pub fn start(
        command: &str,
        source: Source,
        events: SyncSender<(Source, Event)>,
    ) -> io::Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", command])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (to_stdin, lines) = channel::<Arc<str>>();
        if let Some(stdin) = child.stdin.take() {
            thread::spawn(move || write(stdin, lines));
        }
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || read(stdout, source, &events));
        }
        let stderr = Arc::new(Mutex::new(Vec::new()));
        if let Some(pipe) = child.stderr.take() {
            let tail = Arc::clone(&stderr);
            thread::spawn(move || keep_tail(pipe, &tail));
        }
        Ok(Self {
            child,
            ended: false,
            source,
            to_stdin,
            stderr,
        })
    }

    pub fn source(&self) -> Source {
        self.source
    }

    /// Has a line written. If the process is gone, its end tells.
    pub fn write(&self, line: Arc<str>) {
        let _ = self.to_stdin.send(line);
    }

    /// Kills it, with what it started; how it had ended before, and what it last complained of.
    pub fn end(mut self) -> String {
        // One that closed its output is about to end by itself.
        thread::sleep(Duration::from_millis(20));
        let status = self.kill();
        self.ended = true;
        let how = match status {
            Some(status) if status.signal() == Some(Signal::KILL.as_raw()) => {
                "it was killed".to_owned()
            }
            Some(status) => status.to_string(),
            None => "it cannot be waited for".to_owned(),
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

impl Process {
    /// Kills the group, and then waits for its leader: until then its number is nobody else's.
    fn kill(&mut self) -> Option<ExitStatus> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        self.child.wait().ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After `end` there is nobody left to kill.
        if !self.ended {
            self.kill();
        }
    }
}

fn write(mut stdin: ChildStdin, lines: std::sync::mpsc::Receiver<Arc<str>>) {
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
            Ok(_) if line.len() > MAX_LINE => {
                // What is left of the line is read and thrown away.
                if skip_line(&mut stdout).is_err() {
                    Event::Ended
                } else {
                    Event::TooLong
                }
            }
            Ok(_) => Event::Line(std::mem::take(&mut line)),
        };
        let ended = matches!(event, Event::Ended);
        if events.send((source, event)).is_err() || ended {
            return;
        }
    }
}

fn skip_line(stdout: &mut BufReader<ChildStdout>) -> io::Result<()> {
    loop {
        let bytes = stdout.fill_buf()?;
        if bytes.is_empty() {
            return Ok(());
        }
        let end = bytes.iter().position(|&b| b == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1);
        stdout.consume(used);
        if end.is_some() {
            return Ok(());
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
