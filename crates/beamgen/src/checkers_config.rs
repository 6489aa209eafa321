//! Settings of the checkers that veto steps or audit answers.

use std::fmt::Display;
use std::time::Duration;

use beamgen_checkers::{
    Checker, CheckerScorer, External, ExternalConfig, ExternalScorer, LostSoFar, named,
};
use beamgen_launcher::Launcher;
use beamgen_search::{ConfigError, Scorer};
use serde::{Deserialize, Serialize};

use crate::Error;

/// A checker, with its name in trees and ledgers.
type NamedChecker = (String, Box<dyn Checker>);

/// A started checker in the form of a judge.
pub(crate) struct OpenedChecker {
    pub(crate) scorer: Box<dyn Scorer + Send>,
    /// Counts the verdicts that a command failed to give; `None` for a built-in checker.
    pub(crate) lost: Option<LostSoFar>,
}

/// The checkers that veto steps they can prove wrong, and the checkers that audit answers. By
/// default no checker vetoes, and `exact` and `arithmetic` audit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckersConfig {
    /// Names of built-in checkers that veto, from [`CHECKERS`](beamgen_checkers::CHECKERS).
    pub builtin: Vec<String>,
    /// Shell commands that speak JSON lines.
    pub commands: Vec<String>,
    /// The time in seconds after which a command is killed if it has unanswered steps and answers
    /// none of them.
    pub timeout: f64,
    /// The number of processes to start for each command.
    pub workers: usize,
    /// The number of steps that a process may have unanswered at a time.
    pub in_flight: usize,
    /// Names of built-in checkers that audit the chain of each answer. An audit changes no score.
    /// The single name `none` turns the audit off.
    #[serde(skip_serializing_if = "is_usual_audit")]
    pub audit: Vec<String>,
    /// The score below which a step makes its chain unsound; 0 turns this off.
    #[serde(skip_serializing_if = "is_zero")]
    pub sound_above: f32,
    /// Whether unsound answers are withheld.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_sound: bool,
}

fn usual_audit() -> Vec<String> {
    ["exact", "arithmetic"].map(str::to_owned).to_vec()
}

fn is_usual_audit(audit: &[String]) -> bool {
    audit == usual_audit()
}

fn is_zero(bound: &f32) -> bool {
    *bound == 0.0
}

impl Default for CheckersConfig {
    fn default() -> Self {
        Self {
            builtin: Vec::new(),
            commands: Vec::new(),
            timeout: 10.0,
            workers: 2,
            in_flight: 16,
            audit: usual_audit(),
            sound_above: 0.0,
            require_sound: false,
        }
    }
}

impl CheckersConfig {
    /// Returns the names of the checkers that audit answers.
    pub(crate) fn auditors(&self) -> &[String] {
        if self.audit == ["none"] {
            return &[];
        }
        &self.audit
    }

    /// Whether no checker vetoes steps. Auditing checkers do not matter here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.builtin.is_empty() && self.commands.is_empty()
    }

    /// Checks the names of checkers, and the ranges of all numbers.
    ///
    /// # Errors
    /// Returns an error that names the invalid setting and its allowed values.
    pub fn check(&self) -> Result<(), Error> {
        for name in &self.builtin {
            named(name).map_err(|error| refused("builtin", error))?;
        }
        for name in self.auditors() {
            named(name).map_err(|error| refused("audit", format!("{error}, or none alone")))?;
        }
        let words = "a score from 0 to 1";
        ConfigError::check_range("sound_above", self.sound_above, 0.0..=1.0, words)?;
        if self.require_sound && self.auditors().is_empty() && self.sound_above == 0.0 {
            let reason =
                "no audit finds unsound answers: name checkers in audit, or set sound_above";
            return Err(refused("require_sound", reason));
        }
        let limits = check_limits(self.timeout, self.workers, self.in_flight);
        limits.map_err(|(key, reason)| refused(key, reason))?;
        if self
            .commands
            .iter()
            .any(|command| command.trim().is_empty())
        {
            return Err(refused("commands", "a command is empty"));
        }
        let mut names: Vec<&String> = self.builtin.iter().chain(&self.commands).collect();
        names.sort();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(refused("builtin", format!("{:?} is named twice", pair[0]))),
            None => Ok(()),
        }
    }

    /// Starts all vetoing checkers; `launcher` starts the processes of commands.
    ///
    /// # Errors
    /// Returns the errors of [`check`](Self::check), or an error if a command cannot be started.
    pub fn open(&self, launcher: &Launcher) -> Result<Vec<NamedChecker>, Error> {
        self.start(launcher, |checker| checker, |command| Box::new(command))
    }

    /// Starts all vetoing checkers as judges. A search continues while a command computes its
    /// verdict.
    pub(crate) fn scorers(
        &self,
        launcher: &Launcher,
    ) -> Result<Vec<(String, OpenedChecker)>, Error> {
        let builtin = |checker| OpenedChecker {
            scorer: Box::new(CheckerScorer::new(checker)),
            lost: None,
        };
        let command = |external| {
            let scorer = ExternalScorer::new(external);
            OpenedChecker {
                // `lost` is called before boxing, because the trait `Scorer` has no such method.
                lost: Some(scorer.lost()),
                scorer: Box::new(scorer),
            }
        };
        self.start(launcher, builtin, command)
    }

    /// Starts all vetoing checkers. `builtin` converts a built-in checker, and `command` a running
    /// command.
    fn start<T>(
        &self,
        launcher: &Launcher,
        builtin: impl Fn(Box<dyn Checker>) -> T,
        command: impl Fn(External) -> T,
    ) -> Result<Vec<(String, T)>, Error> {
        // Invalid settings must be found before the first process is started.
        self.check()?;
        let mut started = Vec::new();
        for name in &self.builtin {
            let row = named(name).map_err(|error| refused("builtin", error))?;
            started.push((name.clone(), builtin(row.open())));
        }
        for line in &self.commands {
            let external = External::start(ExternalConfig {
                workers: self.workers,
                in_flight: self.in_flight,
                timeout: Duration::from_secs_f64(self.timeout),
                launcher: launcher.clone(),
                ..ExternalConfig::new(line)
            });
            let external = external.map_err(|error| refused("commands", error))?;
            started.push((line.clone(), command(external)));
        }
        Ok(started)
    }
}

/// Checks the limits of the user's programs. An error has the key and its allowed values.
pub(crate) fn check_limits(
    timeout: f64,
    workers: usize,
    in_flight: usize,
) -> Result<(), (&'static str, &'static str)> {
    // The range check also refuses NaN, for which `from_secs_f64` would panic.
    if !(0.001..=86_400.0).contains(&timeout) {
        return Err(("timeout", "use seconds between 0.001 and 86400"));
    }
    if !(1..=256).contains(&workers) {
        return Err(("workers", "use a number from 1 to 256"));
    }
    if !(1..=4096).contains(&in_flight) {
        return Err(("in_flight", "use a number from 1 to 4096"));
    }
    Ok(())
}

fn refused(key: &str, reason: impl Display) -> Error {
    Error::Key {
        key: format!("checkers.{key}"),
        reason: reason.to_string(),
    }
}
