//! A solver on its own thread, as Python holds it.

use std::ffi::OsString;
use std::sync::Arc;

use beamgen::launcher::Launcher;
use beamgen::mend::{Guard, Guarding, Refine, Refining, Task};
use beamgen::service::ServiceOptions;
use beamgen::{Problem, Settings};
use pyo3::prelude::*;
use serde::Serialize;

use crate::callable::Callable;
use crate::download;
use crate::errors::{self, RunError};
use crate::load::{self, Callables};
use crate::mend;
use crate::requests::Requests;
use crate::running::Running;
use crate::wait;
use crate::wanted::{Settled, Wanted};

/// The launcher of checkers' programs: a command line, or `beamgen-launcher` where it is empty.
pub(crate) fn launcher(command: &[OsString]) -> Launcher {
    match command.split_first() {
        Some((program, arguments)) => Launcher::new(program).arguments(arguments),
        None => Launcher::installed(),
    }
}

/// See the file.
#[pyclass(frozen, module = "beamgen._beamgen")]
pub struct Engine {
    running: Arc<Running>,
    settled: Arc<Settled>,
    notes: Vec<String>,
}

impl Engine {
    /// Runs a task on each answer. `wanted` has changes of the solver's settings, as JSON.
    fn mend<T: Task + Send + 'static, D: Serialize>(
        &self,
        py: Python<'_>,
        answers: &[String],
        wanted: &str,
        task: impl Fn(Problem, &Settings) -> T,
        done: impl Fn(T) -> D,
    ) -> PyResult<Vec<String>> {
        let settings = self.settled.request(&Wanted::read(wanted)?)?;
        let service = self.running.service()?;
        let task = |problem| task(problem, &settings);
        mend::run(py, service, &settings, answers, task, done)
    }
}

#[pymethods]
impl Engine {
    /// Loads the models. `own` are a generator, a scorer and a verifier of the caller's. The first
    /// two are called with a problem's id, text, answer and context and the steps so far, the
    /// generator with a seed, too; the verifier with the JSON of a chain. `judges` have a name and
    /// whether they can only veto, and are called as the scorer is. `download` is called with
    /// model, file, bytes so far and bytes of all. `launcher` is the command line that starts
    /// checkers' programs; where it is empty, the program `beamgen-launcher` does.
    #[new]
    fn new(
        py: Python<'_>,
        wanted: &str,
        own: [Option<Py<PyAny>>; 3],
        judges: Vec<(String, bool, Py<PyAny>)>,
        download: Option<Py<PyAny>>,
        launcher: Vec<OsString>,
    ) -> PyResult<Self> {
        let wanted = Wanted::read(wanted)?;
        let launcher = self::launcher(&launcher);
        let causes = Arc::default();
        let closing = Arc::default();
        let part = |callable| Callable {
            callable,
            causes: Arc::clone(&causes),
            closing: Arc::clone(&closing),
        };
        let [generator, scorer, verifier] = own;
        let judges = judges.into_iter();
        let callables = Callables {
            generator: generator.map(part),
            scorer: scorer.map(part),
            verifier: verifier.map(part),
            judges: judges
                .map(|(name, vetoes, callable)| (name, vetoes, part(callable)))
                .collect(),
        };
        let load = move |tell| load::solver(&wanted, callables, launcher, tell);
        let hear = |news| download::hear(py, download.as_ref(), news);
        let loaded = wait::run(py, load, hear)?;
        let (solver, base) = loaded.map_err(|error| errors::from_library(&error))?;
        let settled = Settled {
            base,
            config: solver.config().clone(),
            generator: solver.settings().generator,
            has_bundled: solver.has_bundled(),
        };
        let notes = solver.notes();
        // Whoever submits waits for the result, so as many wait as there are callers; events go
        // through channels of their own.
        let service = solver.spawn(ServiceOptions {
            queue: usize::MAX,
            events: 0,
        });
        Ok(Self {
            running: Arc::new(Running::new(service, causes, closing)),
            settled: Arc::new(settled),
            notes,
        })
    }

    /// A group of requests: with events or with results alone, with trees or without.
    fn requests(&self, events: bool, tree: bool) -> PyResult<Requests> {
        self.running.service()?;
        let (running, settled) = (Arc::clone(&self.running), Arc::clone(&self.settled));
        Ok(Requests::new(running, settled, events, tree))
    }

    /// The probabilities that given steps are right, one a step.
    fn score(&self, py: Python<'_>, problem: String, steps: Vec<String>) -> PyResult<Vec<f32>> {
        let service = self.running.service()?;
        // As given steps come to a scorer: without an id.
        let given = beamgen::Problem {
            id: String::new(),
            text: problem.clone(),
            answer: None,
            ..beamgen::Problem::default()
        };
        let score = move |_| {
            let (send, receive) = std::sync::mpsc::channel();
            let reply = move |scores| {
                // The receiver is there until this is called.
                let _ = send.send(scores);
            };
            service
                .score(problem, steps, reply)
                .map(|()| receive.recv().ok())
        };
        let scored = wait::run::<(), _>(py, score, Ok)?;
        let scored = scored.map_err(|error| errors::from_service(&error))?;
        let cause = self.running.causes.take(&given);
        let scored = scored.ok_or_else(errors::closed)?;
        scored.map_err(|error| match cause {
            Some(cause) => errors::caused(py, error.to_string(), cause),
            None => errors::from_scorer(&error),
        })
    }

    /// Refines answers, each a JSON object; what comes of each as JSON.
    fn refine(
        &self,
        py: Python<'_>,
        answers: Vec<String>,
        wanted: &str,
        how: &str,
    ) -> PyResult<Vec<String>> {
        let how: Refine = mend::options(how)?;
        let task = |problem, settings: &Settings| Refining::new(problem, settings.clone(), how);
        self.mend(py, &answers, wanted, task, Refining::done)
    }

    /// Guards answers, each a JSON object; what comes of each as JSON.
    fn guard(
        &self,
        py: Python<'_>,
        answers: Vec<String>,
        wanted: &str,
        how: &str,
    ) -> PyResult<Vec<String>> {
        let how: Guard = mend::options(how)?;
        let task = |problem: Problem, settings: &Settings| {
            let is_foreign = self.settled.is_foreign(&problem.with_context());
            Guarding::new(
                problem,
                &self.settled.config,
                settings.clone(),
                how,
                is_foreign,
            )
        };
        self.mend(py, &answers, wanted, task, Guarding::done)
    }

    /// The settings as they act, as JSON.
    fn settings(&self) -> PyResult<String> {
        let settings = serde_json::to_string(&self.settled.config);
        settings.map_err(|error| RunError::new_err(error.to_string()))
    }

    /// Returns the notes for the user, one line each.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Whether a problem is foreign to a bundled model: its result will mean nothing.
    fn is_foreign(&self, problem: &str) -> bool {
        self.settled.is_foreign(problem)
    }

    /// Takes no more requests, cancels those that are out, and gives the models' memory back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.running.check_process()?;
        let running = Arc::clone(&self.running);
        wait::run::<(), _>(py, move |_| running.close(), Ok)
    }

    /// Whether this is the process that the solver was made in.
    fn is_here(&self) -> bool {
        self.running.is_here()
    }
}
