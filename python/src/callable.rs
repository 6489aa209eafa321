//! Python callables as generators, scorers, judges, checkers and verifiers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use beamgen::generator::GenError;
use beamgen::result::{Outcome, OutcomeKind, Verifier, WholeChain};
use beamgen::scorer::{BatchId, ScoreError};
use beamgen::{Problem, StepGenerator, StepScorer};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::causes::Causes;

/// A Python function that serves as generator or scorer. Its first arguments are the problem's id,
/// text, answer and context, and the steps so far.
pub(crate) struct Callable {
    pub callable: Py<PyAny>,
    pub causes: Arc<Causes>,
    /// Set when the solver is being closed. After that, Python is not called any more.
    pub closing: Arc<AtomicBool>,
}

impl Callable {
    /// Calls the function through `call`. An exception is kept in `causes`, so that the caller of
    /// the solver can see it.
    fn ask<T>(
        &self,
        problem: &Problem,
        steps: &[&str],
        call: impl FnOnce(&Bound<'_, PyAny>, Arguments<'_>) -> PyResult<T>,
    ) -> Result<T, String> {
        let gone = || Err("the interpreter is closing".to_owned());
        if self.closing.load(Ordering::Relaxed) {
            return gone();
        }
        // Steps are passed in the form that results have: without the boundary at the end.
        let steps = steps.iter();
        let steps = steps.map(|step| step.trim_start_matches('\n').trim_end());
        let arguments = (
            &*problem.id,
            &*problem.text,
            problem.answer.as_deref(),
            problem.context.iter().map(String::as_str).collect(),
            steps.collect(),
        );
        // The engine's thread may outlive the interpreter; attaching fails then.
        let asked = Python::try_attach(|py| {
            call(self.callable.bind(py), arguments).map_err(|raised| {
                let message = raised.to_string().replace('\n', " ");
                self.causes.keep(problem, raised);
                message
            })
        });
        asked.unwrap_or_else(gone)
    }
}

/// The id, text, answer and context of a problem, and the steps so far.
type Arguments<'a> = (
    &'a str,
    &'a str,
    Option<&'a str>,
    Vec<&'a str>,
    Vec<&'a str>,
);

/// Returns the error for a function `who` that returned a value of another type than `kind`.
fn refused(given: &Bound<'_, PyAny>, who: &str, kind: &str) -> PyErr {
    let given = given.repr().map_or_else(|_| "?".into(), |r| r.to_string());
    PyTypeError::new_err(format!("the {who} returned {given}, which is not a {kind}"))
}

/// Calls `(id, text, answer, context, steps) -> float` for the last of the steps.
impl StepScorer for Callable {
    fn score(&mut self, problem: &Problem, steps: &[&str]) -> Result<f32, ScoreError> {
        let score = self.ask(problem, steps, |callable, arguments| {
            let score = callable.call1(arguments)?;
            let number: Result<f64, _> = score.extract();
            number.map_err(|_| refused(&score, "scorer", "number"))
        });
        let score = score.map_err(|message| ScoreError::Failed(message.into()))?;
        Ok(score as f32)
    }
}

/// A Python function that may abstain: a judge or a checker of steps.
pub(crate) struct CallableJudge(pub Callable);

/// Calls `(id, text, answer, context, steps) -> float | None` for the last of the steps.
impl StepScorer for CallableJudge {
    fn score(&mut self, problem: &Problem, steps: &[&str]) -> Result<f32, ScoreError> {
        Ok(self.opinion(problem, steps)?.unwrap_or(f32::NAN))
    }

    fn opinion(&mut self, problem: &Problem, steps: &[&str]) -> Result<Option<f32>, ScoreError> {
        let score = self.0.ask(problem, steps, |callable, arguments| {
            let score = callable.call1(arguments)?;
            let number: Result<Option<f64>, _> = score.extract();
            number.map_err(|_| refused(&score, "judge", "number"))
        });
        let score = score.map_err(|message| ScoreError::Failed(message.into()))?;
        Ok(score.map(|score| score as f32))
    }
}

/// Calls `(id, text, answer, context, steps, seed) -> str` for the next step.
impl StepGenerator for Callable {
    fn next_step(
        &mut self,
        problem: &Problem,
        steps: &[&str],
        seed: u64,
    ) -> Result<String, GenError> {
        let step = self.ask(problem, steps, |callable, arguments| {
            let (id, text, answer, context, steps) = arguments;
            let step = callable.call1((id, text, answer, context, steps, seed))?;
            let text: Result<String, _> = step.extract();
            text.map_err(|_| refused(&step, "generator", "string"))
        });
        step.map_err(|message| GenError::Failed(message.into()))
    }
}

/// A Python function that judges whole chains: it is called with the JSON of a chain, and returns
/// the JSON of an [`Outcome`].
pub(crate) struct CallableVerifier {
    pub callable: Callable,
    /// Whether the function judges by the problem alone. It then gets neither the reference answer
    /// nor the tests.
    pub is_open: bool,
    pub done: Vec<(BatchId, Vec<Outcome>)>,
}

impl CallableVerifier {
    fn judge(&self, problem: &Problem, chain: &WholeChain<'_>) -> Outcome {
        let lost = |reason: String| Outcome::new(OutcomeKind::Lost, reason);
        let steps = chain.steps.iter();
        let steps = steps.map(|step| step.trim_start_matches('\n').trim_end());
        let asked = serde_json::json!({
            "id": problem.id,
            "text": problem.text,
            "context": problem.context,
            "answer": problem.answer.as_ref().filter(|_| !self.is_open),
            "tests": problem.tests.as_ref().filter(|_| !self.is_open),
            "steps": steps.collect::<Vec<_>>(),
            "stated": chain.answer,
        });
        if self.callable.closing.load(Ordering::Relaxed) {
            return lost("the interpreter is closing".to_owned());
        }
        // The engine's thread may outlive the interpreter; attaching fails then.
        let judged = Python::try_attach(|py| {
            let function = self.callable.callable.bind(py);
            let said = function.call1((asked.to_string(),));
            let said = said.and_then(|said| said.extract::<String>());
            said.map_err(|raised| raised.to_string().replace('\n', " "))
        });
        let said = judged.unwrap_or_else(|| Err("the interpreter is closing".to_owned()));
        let outcome = said.and_then(|said| {
            serde_json::from_str(&said)
                .map_err(|error| format!("the verifier returned {said}: {error}"))
        });
        outcome.unwrap_or_else(lost)
    }
}

impl Verifier for CallableVerifier {
    fn name_for(&self, _: &Problem) -> Option<&str> {
        Some("a callable")
    }

    fn is_open(&self, _: &Problem) -> bool {
        self.is_open
    }

    fn submit(&mut self, batch: BatchId, problem: &Problem, chains: &[WholeChain<'_>]) {
        let outcomes = chains.iter().map(|chain| self.judge(problem, chain));
        let outcomes = outcomes.collect();
        self.done.push((batch, outcomes));
    }

    fn collect(&mut self, _: bool) -> Vec<(BatchId, Vec<Outcome>)> {
        std::mem::take(&mut self.done)
    }
}
