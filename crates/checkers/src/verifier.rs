//! Verifiers of outcomes: the table of those that are built in, and the choice for each problem.

mod batches;
mod lean;
mod program;

use std::collections::BTreeMap;

use beamgen_search::{BatchId, Outcome, OutcomeKind, Problem, Verifier, WholeChain};
use serde_json::{Value, json};

use crate::external::{ExternalConfig, ExternalError, LostSoFar};
pub use lean::{LEAN, LeanConfig, LeanError, LeanVerifier};
pub use program::ProgramVerifier;

/// A verifier that needs no program of the user.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// The lower-case name in settings and on the command line.
    pub name: &'static str,
    /// A description in one line for help texts.
    pub about: &'static str,
}

/// The verifiers that every build has. Every other name in settings is the command of a program.
pub const VERIFIERS: &[BuiltIn] = &[
    BuiltIn {
        name: MATH,
        about: "the answer equals the reference, by the rules of mathematics",
    },
    BuiltIn {
        name: LEAN,
        about: "Lean 4 proves the theorem that the problem states, on a Kimina server",
    },
];

/// The name of the rule that compares an answer with the reference. Whoever gets a result applies it,
/// so no chain is judged in the search.
pub const MATH: &str = "math";

/// The verifiers of a run: a usual one, and others that single problems name.
pub struct Verifiers {
    usual: String,
    /// The verifiers by name; `None` for [`MATH`].
    by_name: BTreeMap<String, Option<Box<dyn Verifier + Send>>>,
    /// The counts of outcomes that programs failed to give, by the program's command.
    lost: Vec<(String, LostSoFar)>,
    /// Outcomes of problems that name an unknown verifier.
    refused: Vec<(BatchId, Vec<Outcome>)>,
}

impl std::fmt::Debug for Verifiers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&String> = self.by_name.keys().collect();
        f.debug_struct("Verifiers")
            .field("usual", &self.usual)
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

impl Default for Verifiers {
    fn default() -> Self {
        Self {
            usual: MATH.to_owned(),
            by_name: [(MATH.to_owned(), None)].into(),
            lost: Vec::new(),
            refused: Vec::new(),
        }
    }
}

impl Verifiers {
    /// Starts a program as the verifier `name`. If `is_open` holds, it gets neither the reference
    /// answer nor the tests of a problem.
    ///
    /// # Errors
    /// Returns an error if the launcher cannot be started.
    pub fn add_program(
        &mut self,
        name: &str,
        config: ExternalConfig,
        is_open: bool,
    ) -> Result<(), ExternalError> {
        let command = config.command.clone();
        let program = ProgramVerifier::start(name, config, is_open)?;
        self.lost.push((command, program.lost()));
        self.add(name, Box::new(program));
        Ok(())
    }

    /// Adds the verifier [`LEAN`].
    ///
    /// # Errors
    /// Returns an error if the address of the server is invalid.
    pub fn add_lean(&mut self, config: LeanConfig) -> Result<(), LeanError> {
        let lean = LeanVerifier::start(config)?;
        self.lost.push((LEAN.to_owned(), lean.lost()));
        self.add(LEAN, Box::new(lean));
        Ok(())
    }

    /// Adds a verifier. An earlier one of that name is replaced.
    pub fn add(&mut self, name: &str, verifier: Box<dyn Verifier + Send>) {
        self.by_name.insert(name.to_owned(), Some(verifier));
    }

    /// Makes `name` the verifier of problems that name none.
    pub fn set_usual(&mut self, name: &str) {
        name.clone_into(&mut self.usual);
    }

    /// Returns the names that a problem may choose from.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Returns the facts that outcomes depend on, for the identity of a run. Returns `None` if all
    /// answers are compared with references.
    pub fn identity(&self, open: bool) -> Option<Value> {
        let has_others = self.by_name.values().any(Option::is_some);
        has_others.then(|| {
            let names: Vec<&str> = self.names().collect();
            json!({"usual": self.usual, "names": names, "open": open})
        })
    }

    /// Returns the counts of outcomes that programs failed to give, by the program's command.
    pub fn lost(&self) -> &[(String, LostSoFar)] {
        &self.lost
    }

    fn name_of<'a>(&'a self, problem: &'a Problem) -> &'a str {
        problem.verifier.as_deref().unwrap_or(&self.usual)
    }
}

impl Verifier for Verifiers {
    fn name_for(&self, problem: &Problem) -> Option<&str> {
        let name = self.name_of(problem);
        match self.by_name.get_key_value(name) {
            Some((_, None)) => None,
            Some((name, Some(_))) => Some(name),
            // The chains of such a problem get outcomes, too: none can be decided.
            None => Some("unknown"),
        }
    }

    fn is_open(&self, problem: &Problem) -> bool {
        let verifier = self.by_name.get(self.name_of(problem));
        let verifier = verifier.and_then(Option::as_ref);
        verifier.is_some_and(|verifier| verifier.is_open(problem))
    }

    fn submit(&mut self, batch: BatchId, problem: &Problem, chains: &[WholeChain<'_>]) {
        let name = self.name_of(problem).to_owned();
        if let Some(Some(verifier)) = self.by_name.get_mut(&name) {
            return verifier.submit(batch, problem, chains);
        }
        let known: Vec<&str> = self.names().collect();
        let known = known.join(", ");
        let reason = format!("the problem names the verifier {name:?}: choose from {known}");
        let outcome = Outcome::new(OutcomeKind::Unknown, reason);
        self.refused.push((batch, vec![outcome; chains.len()]));
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, Vec<Outcome>)> {
        let mut done = std::mem::take(&mut self.refused);
        for verifier in self.by_name.values_mut().flatten() {
            done.extend(verifier.collect(wait && done.is_empty()));
        }
        done
    }
}
