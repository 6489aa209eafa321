//! The threads between a program's pipes and the streams of its owner.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::Running;

/// The threads that copy a program's output.
pub(super) struct Streams {
    events: Receiver<Event>,
}

/// News from an output of the program.
pub(super) enum Event {
    /// The output was closed.
    Closed,
    /// The program wrote more than it may.
    Full,
}

impl Streams {
    /// The number of outputs, each of which is closed once.
    pub(super) const COUNT: usize = 2;

    /// Takes the pipes of a program and copies until they close. `most` bounds both outputs together.
    pub(super) fn start(
        running: &mut Running,
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        errors: impl Write + Send + 'static,
        most: u64,
    ) -> Self {
        if let Some(pipe) = running.input.take() {
            // The program may end without reading its input, so nobody waits for this thread.
            thread::spawn(move || feed(input, pipe));
        }
        let (sender, events) = channel();
        let left = Arc::new(AtomicU64::new(most));
        copy(running.output.take(), output, &left, &sender);
        copy(running.errors.take(), errors, &left, &sender);
        Self { events }
    }

    /// Waits for the next event, for at most this time.
    pub(super) fn next(&self, most: Duration) -> Option<Event> {
        self.events.recv_timeout(most).ok()
    }

    /// Waits until the outputs that are still open have been copied, for at most this time each.
    pub(super) fn drain(&self, open: usize, most: Duration) {
        for _ in 0..open {
            if self.next(most).is_none() {
                return;
            }
        }
    }
}

fn feed(mut input: impl Read, mut pipe: impl Write) {
    // An error means that one of the two ends is closed, which ends the input.
    let _ = io::copy(&mut input, &mut pipe);
}

/// Copies one output in a thread of its own.
fn copy(
    pipe: Option<impl Read + Send + 'static>,
    mut sink: impl Write + Send + 'static,
    left: &Arc<AtomicU64>,
    sender: &Sender<Event>,
) {
    let (left, sender) = (Arc::clone(left), sender.clone());
    thread::spawn(move || {
        let event = pipe.map_or(Event::Closed, |mut pipe| pump(&mut pipe, &mut sink, &left));
        // The owner may be gone.
        let _ = sender.send(event);
    });
}

fn pump(pipe: &mut impl Read, sink: &mut impl Write, left: &AtomicU64) -> Event {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = match pipe.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return Event::Closed,
            Ok(read) => read as u64,
        };
        let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(read))
        });
        let allowed = before.unwrap_or_default().min(read);
        let written = sink.write_all(&buffer[..allowed as usize]);
        // With an owner that no longer reads, the program gets SIGPIPE when its pipe closes.
        if written.and_then(|()| sink.flush()).is_err() {
            return Event::Closed;
        }
        if allowed < read {
            return Event::Full;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_outputs_share_a_bound() {
        let left = AtomicU64::new(5);
        let mut sink = Vec::new();
        assert!(matches!(
            pump(&mut &b"abc"[..], &mut sink, &left),
            Event::Closed
        ));
        assert!(matches!(
            pump(&mut &b"defg"[..], &mut sink, &left),
            Event::Full
        ));
        assert_eq!(sink, b"abcde");
    }
}
