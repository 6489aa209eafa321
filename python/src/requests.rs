//! A group of requests that share a channel for messages: a single problem, with or without events,
//! or many problems.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use beamgen::service::ServiceError;
use beamgen::{ProblemResult, Ticket};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::errors::{self, InputError};
use crate::lock::lock;
use crate::news::{News, Outcome, event};
use crate::problem;
use crate::running::Running;
use crate::wait;
use crate::wanted::{Settled, Wanted};

/// The tickets of requests whose results were not taken yet, by position in the group.
#[derive(Default)]
pub struct Slots(Mutex<BTreeMap<usize, Ticket>>);

impl Slots {
    pub fn cancel(&self) {
        lock(&self.0).values().for_each(Ticket::cancel);
    }

    /// Returns the result of a request if it is finished. Otherwise registers a waker, which sends
    /// a message when the result may be ready.
    fn look(
        &self,
        position: usize,
        send: &Sender<News>,
    ) -> Option<Result<ProblemResult, ServiceError>> {
        let mut slots = lock(&self.0);
        let ticket = slots.get_mut(&position)?;
        let send = send.clone();
        let waker = Waker::from(Arc::new(Bell { position, send }));
        match Pin::new(ticket).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => None,
            Poll::Ready(result) => Some(result),
        }
    }
}

/// A waker that sends [`News::Changed`] for its request.
struct Bell {
    position: usize,
    send: Sender<News>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // Sending fails if the group was dropped, and then nobody waits for the result.
        let _ = self.send.send(News::Changed(self.position));
    }
}

/// See the file. What is still out when it is dropped is cancelled.
#[pyclass(frozen, module = "beamgen._beamgen")]
pub struct Requests {
    running: Arc<Running>,
    settled: Arc<Settled>,
    events: bool,
    tree: bool,
    slots: Arc<Slots>,
    send: Sender<News>,
    receive: Mutex<Receiver<News>>,
}

impl Requests {
    pub fn new(running: Arc<Running>, settled: Arc<Settled>, events: bool, tree: bool) -> Self {
        let (send, receive) = channel();
        let slots = Arc::new(Slots::default());
        running.watch(&slots);
        Self {
            running,
            settled,
            events,
            tree,
            slots,
            send,
            receive: Mutex::new(receive),
        }
    }
}

#[pymethods]
impl Requests {
    /// Queues a problem, a line of a problem file, with settings of its own. Never blocks. Says
    /// whether the problem is foreign to the bundled models, if there is one of them.
    fn submit(
        &self,
        position: usize,
        problem: &str,
        name: &str,
        wanted: &str,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        let service = self.running.service()?;
        let problem = problem::read(problem, name)?;
        // An earlier request for the same problem may have left an exception behind.
        drop(self.running.causes.take(&problem));
        let is_foreign = self.settled.is_foreign(&problem.with_context());
        let settings = self.settled.request(&Wanted::read(wanted)?)?;
        let mut request = beamgen::Request::new(problem, settings);
        if let Some(seconds) = timeout {
            let timeout = Duration::try_from_secs_f64(seconds).map_err(|_| {
                InputError::new_err(format!(
                    "timeout = {seconds}: not a time: use seconds, 0 or more"
                ))
            })?;
            request = request.timeout(timeout);
        }
        if self.events {
            let send = self.send.clone();
            request = request.on_progress(move |progress| {
                let _ = send.send(News::Event(progress.clone()));
            });
        }
        let ticket = service.submit(request);
        let ticket = ticket.map_err(|error| errors::from_service(&error))?;
        lock(&self.slots.0).insert(position, ticket);
        // The first message makes the waiting thread poll the ticket, which registers the waker.
        let _ = self.send.send(News::Changed(position));
        Ok(is_foreign)
    }

    /// Waits for the next message, and returns it: an event as JSON, or an `Outcome`. `None` if all
    /// results were taken. A signal handler of Python may raise an exception meanwhile.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        loop {
            self.running.check_process()?;
            if lock(&self.slots.0).is_empty() {
                return Ok(None);
            }
            match wait::receive(py, &self.receive)? {
                None => return Ok(None),
                Some(News::Event(progress)) => {
                    if let Some(event) = event(&progress) {
                        return Ok(Some(event.into_py_any(py)?));
                    }
                }
                Some(News::Changed(position)) => {
                    // The result is sent as a message, so that it comes after all events that are
                    // in the channel already.
                    if let Some(result) = self.slots.look(position, &self.send) {
                        let _ = self.send.send(News::Done(position, Box::new(result)));
                    }
                }
                Some(News::Done(position, result)) => {
                    lock(&self.slots.0).remove(&position);
                    let result = result.map_err(|error| errors::from_service(&error))?;
                    let outcome = Outcome::new(py, position, &result, self.tree, &self.running)?;
                    return Ok(Some(outcome.into_py_any(py)?));
                }
            }
        }
    }

    /// Cancels all requests that are not finished. Their results have `stopped` set.
    fn cancel(&self) {
        if self.running.is_here() {
            self.slots.cancel();
        }
    }

    /// Returns the number of requests whose results were not taken yet.
    fn __len__(&self) -> usize {
        lock(&self.slots.0).len()
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.cancel();
    }
}
