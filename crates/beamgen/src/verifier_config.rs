//! Settings of the verifiers that judge finished chains.

use std::collections::BTreeMap;
use std::time::Duration;

use beamgen_checkers::{ExternalConfig, MATH, Verifiers};
use beamgen_launcher::Launcher;
use serde::{Deserialize, Serialize};

use crate::Error;

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
        self.run == MATH && self.others.is_empty()
    }

    /// Returns the names that a problem may choose from.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let others = self.others.keys().map(String::as_str);
        let usual = (self.run != MATH).then_some(self.run.as_str());
        std::iter::once(MATH).chain(usual).chain(others)
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
        if self.others.contains_key(MATH) {
            let reason = "math is the comparison with the reference: choose another name";
            return Err(refused("others", reason));
        }
        // The range check also refuses NaN, for which `from_secs_f64` would panic.
        if !(0.001..=86_400.0).contains(&self.timeout) {
            return Err(refused("timeout", "use seconds between 0.001 and 86400"));
        }
        if !(1..=256).contains(&self.workers) {
            return Err(refused("workers", "use a number from 1 to 256"));
        }
        if !(1..=4096).contains(&self.in_flight) {
            return Err(refused("in_flight", "use a number from 1 to 4096"));
        }
        Ok(())
    }

    /// Starts all programs.
    ///
    /// # Errors
    /// Returns the errors of [`check`](Self::check), or an error if a command cannot be started.
    pub fn open(&self, launcher: &Launcher) -> Result<Verifiers, Error> {
        self.check()?;
        let mut verifiers = Verifiers::default();
        let usual = (self.run != MATH).then_some((&self.run, &self.run));
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
