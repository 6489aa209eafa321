//! Waiting for other threads: with the interpreter released, and with a look at signals ten times a
//! second, so that Ctrl-C ends it.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors::RunError;
use crate::lock::lock;

/// The time between two checks for signals.
const TICK: Duration = Duration::from_millis(100);

/// Waits for the next message; `None` if all senders are gone.
///
/// # Errors
/// Returns the exception of a signal's handler, such as `KeyboardInterrupt`.
pub(crate) fn receive<T: Send>(py: Python<'_>, from: &Mutex<Receiver<T>>) -> PyResult<Option<T>> {
    loop {
        // Signals are checked here, too: with many messages, the timeout below may never be reached.
        py.check_signals()?;
        match py.detach(|| lock(from).recv_timeout(TICK)) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// A message of a long call.
pub enum Told<M, T> {
    Note(M),
    Done(T),
}

/// Calls `work` on a thread of its own and waits for it; `note` hears what it tells meanwhile. When
/// waiting ends with an error, the thread goes on and what it gives is dropped.
///
/// # Errors
/// Returns the errors of [`receive`], and exceptions of `note`.
pub(crate) fn run<M: Send + 'static, T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(Sender<Told<M, T>>) -> T + Send + 'static,
    mut note: impl FnMut(M) -> PyResult<()>,
) -> PyResult<T> {
    let (send, receiver) = channel();
    let receiver = Mutex::new(receiver);
    std::thread::spawn(move || {
        let done = work(send.clone());
        // A failed send means that the caller was interrupted, and no longer waits.
        let _ = send.send(Told::Done(done));
    });
    while let Some(told) = receive(py, &receiver)? {
        match told {
            Told::Note(message) => note(message)?,
            Told::Done(done) => return Ok(done),
        }
    }
    Err(RunError::new_err("a thread of the engine panicked"))
}
