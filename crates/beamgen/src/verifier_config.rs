//! Settings of the verifiers that judge finished chains.

use std::collections::BTreeMap;
use std::time::Duration;

use beamgen_checkers::{ExternalConfig, LEAN, LeanConfig, MATH, VERIFIERS, Verifiers};
use beamgen_launcher::Launcher;
use beamgen_search::Problem;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::checkers_config::check_limits;

/// The usual address of a Kimina server.
const LEAN_URL: &str = "http://127.0.0.1:8000";

/// The environment variable with the key of a Kimina server.
const LEAN_KEY: &str = "LEAN_SERVER_API_KEY";

/// The verifiers that decide whether a chain is right. By default the answer is compared with the
/// reference.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VerifierConfig {
    /// The verifier of problems that name none: a name in
    /// [`VERIFIERS`](beamgen_checkers::VERIFIERS), or a shell command that speaks JSON lines.
    pub run: String,
    /// Whether the programs judge by the problem alone. They then get neither the reference answer
    /// nor the tests.
    pub open: bool,
    /// The address of the Kimina server that the verifier [`LEAN`] asks; `None`:
    /// `http://127.0.0.1:8000`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lean_url: Option<String>,
    /// Shell commands by the name under which a problem chooses one of them.
    pub others: BTreeMap<String, String>,
    /// The time in seconds after which a program is killed if it has unanswered chains and answers
    /// none of them.
    pub timeout: f64,
    /// The number of processes to start for each program.
    pub workers: usize,
    /// The number of chains that a process may have unanswered at a time.
    pub in_flight: usize,
}

impl Default for VerifierConfig {
    fn default() -> Self {
        Self {
            run: MATH.to_owned(),
            open: false,
            lean_url: None,
            others: BTreeMap::new(),
            timeout: 10.0,
            workers: 2,
            in_flight: 16,
        }
    }
}

impl VerifierConfig {
    /// Whether all answers are compared with references.
    #[must_use]
    pub fn is_math(&self) -> bool {
        self.run == MATH && self.others.is_empty() && !self.has_lean()
    }

    /// Whether a verifier other than the comparison with the reference judges this problem.
    #[must_use]
    pub fn judges(&self, problem: &Problem) -> bool {
        problem.verifier.as_deref().unwrap_or(&self.run) != MATH
    }

    /// Returns the names that a problem may choose from.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let others = self.others.keys().map(String::as_str);
        let usual = self.program().map(String::as_str);
        let lean = self.has_lean().then_some(LEAN);
        std::iter::once(MATH).chain(lean).chain(usual).chain(others)
    }

    /// Returns the command of the usual verifier, if it is no built-in one.
    fn program(&self) -> Option<&String> {
        let is_built_in = VERIFIERS.iter().any(|built_in| built_in.name == self.run);
        Some(&self.run).filter(|_| !is_built_in)
    }

    fn has_lean(&self) -> bool {
        self.run == LEAN || self.lean_url.is_some()
    }

    /// Whether a verifier that problems may use is open.
    #[must_use]
    pub fn has_open(&self) -> bool {
        let has_programs = self.program().is_some() || !self.others.is_empty();
        self.has_lean() || (self.open && has_programs)
    }

    /// Checks the commands and the ranges of all numbers.
    ///
    /// # Errors
    /// Returns an error that names the invalid setting and its allowed values.
    pub fn check(&self) -> Result<(), Error> {
        let commands = std::iter::once(&self.run).chain(self.others.values());
        if commands.clone().any(|command| command.trim().is_empty()) {
            return Err(refused("run", "a command is empty"));
        }
        let mut built_in = VERIFIERS.iter().map(|row| row.name);
        if let Some(name) = built_in.find(|name| self.others.contains_key(*name)) {
            let reason = format!("{name} is built in: choose another name");
            return Err(refused("others", &reason));
        }
        let limits = check_limits(self.timeout, self.workers, self.in_flight);
        limits.map_err(|(key, reason)| refused(key, reason))?;
        Ok(())
    }

    /// Starts all programs.
    ///
    /// # Errors
    /// Returns the errors of [`check`](Self::check), or an error if a command cannot be started.
    pub fn open(&self, launcher: &Launcher) -> Result<Verifiers, Error> {
        self.check()?;
        let mut verifiers = Verifiers::default();
        if self.has_lean() {
            let config = LeanConfig {
                url: self.lean_url.clone().unwrap_or_else(|| LEAN_URL.to_owned()),
                key: std::env::var(LEAN_KEY).ok().filter(|key| !key.is_empty()),
                timeout: Duration::from_secs_f64(self.timeout),
                workers: self.workers,
                in_flight: self.in_flight,
            };
            let started = verifiers.add_lean(config);
            started.map_err(|error| refused("lean_url", &error.to_string()))?;
        }
        let usual = self.program().map(|run| (run, run));
        for (name, command) in usual.into_iter().chain(&self.others) {
            let config = ExternalConfig {
                workers: self.workers,
                in_flight: self.in_flight,
                timeout: Duration::from_secs_f64(self.timeout),
                launcher: launcher.clone(),
                ..ExternalConfig::new(command)
            };
            let started = verifiers.add_program(name, config, self.open);
            started.map_err(|error| refused("run", &error.to_string()))?;
        }
        verifiers.set_usual(&self.run);
        Ok(verifiers)
    }
}

fn refused(key: &str, reason: &str) -> Error {
    Error::Key {
        key: format!("verifier.{key}"),
        reason: reason.to_owned(),
    }
}
