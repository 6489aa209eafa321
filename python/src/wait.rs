//! Waiting for other threads: with the interpreter released, and with a look at signals ten times a
//! second, so that Ctrl-C ends it.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors::RunError;
use crate::lock::lock;

/// The time between two checks for signals while waiting.
const TICK: Duration = Duration::from_millis(100);

/// Waits for the next message; `None` if all senders were dropped.
///
/// # Errors
/// Returns the exception that a signal handler of Python raises, such as `KeyboardInterrupt`.
pub(crate) fn receive<T: Send>(py: Python<'_>, from: &Mutex<Receiver<T>>) -> PyResult<Option<T>> {
    loop {
        // If messages keep coming, the timeout below is never reached, so signals are checked here,
        // too.
        py.check_signals()?;
        match py.detach(|| lock(from).recv_timeout(TICK)) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// A message from the thread of a long call: a note of type `M`, or the result of type `T`.
pub enum Told<M, T> {
    Note(M),
    Done(T),
}

/// Runs `work` on a thread of its own, and waits for the result. `note` is called here with the
/// messages of `work`. If waiting ends with an error, the thread continues, and its result is
/// dropped.
///
/// # Errors
/// Returns the errors of [`receive`], and the exceptions that `note` raises.
pub(crate) fn run<M: Send + 'static, T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(Sender<Told<M, T>>) -> T + Send + 'static,
    mut note: impl FnMut(M) -> PyResult<()>,
) -> PyResult<T> {
    let (send, receiver) = channel();
    let receiver = Mutex::new(receiver);
    std::thread::spawn(move || {
        let done = work(send.clone());
        // Sending fails if the caller was interrupted and no longer waits.
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
