//! Reads the object `beamgen` of a request: settings of the search, facts about the problem, parts
//! of the answer.

use std::time::Duration;

use beamgen::generator::GeneratorConfig;
use beamgen::program::set_key;
use beamgen::settings::{SETTINGS, Scope, Setting, put};
use serde_json::Value;

use crate::ask::Ask;
use crate::fields::Fields;
use crate::refusal::Refusal;

/// The maximum length of a reference answer, in bytes. Answers are compared on the thread that
/// serves all requests, so comparisons must be short.
pub(crate) const MOST_REFERENCE: usize = 4096;

/// The reason for refusing a value of the wrong type.
const UNFIT: &str = "invalid value";

/// Former names of fields of `beamgen`, each with its present name. Former names are accepted, with
/// a note.
const OLD: [(&str, &str); 2] = [("budget", "budget_tokens"), ("deadline", "timeout")];

impl Ask {
    pub(crate) fn read_own(&mut self, mut fields: Fields) -> Result<(), Refusal> {
        // The tables are read first, so that a setting's own name wins over its key in a table.
        for table in ["search", "generator"] {
            let keys = fields.object(table)?;
            self.set_keys(table, Value::Object(keys))?;
        }
        for (old, name) in OLD {
            if fields.rename(old, name) {
                self.notes
                    .push(format!("beamgen.{old} is now called beamgen.{name}"));
            }
        }
        for Setting { name, .. } in SETTINGS.iter().filter(|row| row.scope == Scope::Request) {
            let Some(value) = fields.take(name) else {
                continue;
            };
            let wrong = |reason: &str| fields.wrong(name, reason);
            let value = toml::Value::try_from(value).map_err(|_| wrong(UNFIT))?;
            self.settings = put(&self.settings, name, value).map_err(|error| match error {
                beamgen::Error::Key { reason, .. } => wrong(&reason),
                error => wrong(&error.to_string()),
            })?;
            self.given.push(((*name).to_owned(), fields.name(name)));
        }
        self.read_problem(&mut fields)?;
        if let Some(seconds) = fields.number("timeout")? {
            // JSON allows negative and huge numbers, for which `from_secs_f64` would panic.
            let deadline = Duration::try_from_secs_f64(seconds)
                .ok()
                .filter(|deadline| !deadline.is_zero());
            let deadline =
                deadline.ok_or_else(|| fields.wrong("timeout", "write seconds, above 0"))?;
            // A request can shorten the server's deadline, but not lengthen it.
            self.deadline = self.deadline.min(deadline);
        }
        self.events = fields.flag("events")?;
        if self.events && !self.stream {
            return Err(fields.wrong(
                "events",
                "events come in streams only: add \"stream\": true",
            ));
        }
        self.tree = fields.flag("tree")?;
        fields.end()
    }

    /// Reads the facts about the problem. With several problems only `context` is allowed, which
    /// applies to all.
    fn read_problem(&mut self, fields: &mut Fields) -> Result<(), Refusal> {
        let id = fields.text("id")?;
        let answer = fields.text("reference")?;
        let steps = fields.take("steps");
        let (verifier, tests) = (fields.text("verifier")?, fields.take("tests"));
        let given = [
            ("id", id.is_some()),
            ("reference", answer.is_some()),
            ("steps", steps.is_some()),
            ("verifier", verifier.is_some()),
            ("tests", tests.is_some()),
        ];
        if self.problems.len() > 1
            && let Some((key, _)) = given.iter().find(|(_, is_given)| *is_given)
        {
            let reason = "not supported with several prompts: send one prompt, or leave it out";
            return Err(Refusal::field(
                "unsupported_field",
                fields.name(key),
                reason,
            ));
        }
        if answer.as_ref().is_some_and(|a| a.len() > MOST_REFERENCE) {
            let reason = format!("an answer has at most {MOST_REFERENCE} bytes");
            return Err(fields.wrong("reference", &reason));
        }
        if let Some(problem) = self.problems.first_mut() {
            if let Some(id) = id {
                problem.id = id;
            }
            problem.answer = answer;
            (problem.verifier, problem.tests) = (verifier, tests);
            if let Some(steps) = steps {
                let steps = beamgen::eval::steps_of(&steps, &fields.name("steps"));
                problem.steps = steps.map_err(|fault| fields.wrong("steps", &fault))?;
            }
        }
        if let Some(context) = fields.take("context") {
            let context = beamgen::eval::context_of(&context, &fields.name("context"));
            let context = context.map_err(|fault| fields.wrong("context", &fault))?;
            for problem in &mut self.problems {
                problem.context.clone_from(&context);
            }
        }
        Ok(())
    }

    /// Sets every key of a table of settings. `key` is the path of the table, such as `generator`,
    /// and `value` its content.
    fn set_keys(&mut self, key: &str, value: Value) -> Result<(), Refusal> {
        if let Value::Object(inner) = value {
            for (name, value) in inner {
                self.set_keys(&format!("{key}.{name}"), value)?;
            }
            return Ok(());
        }
        // A client can send a key of any length, and errors repeat it.
        let full: String = format!("beamgen.{key}").chars().take(200).collect();
        let wrong = |code, reason: &str| Refusal::field(code, full.clone(), reason);
        // Setting a key copies all settings, so a long list is refused before its first entry.
        if value
            .as_array()
            .is_some_and(|list| list.len() > GeneratorConfig::MOST_MARKS)
        {
            let reason = format!("at most {} entries are taken", GeneratorConfig::MOST_MARKS);
            return Err(wrong("invalid_value", &reason));
        }
        if key == "search.in_flight" {
            let reason = "how many problems are worked on at once is the server's setting";
            return Err(wrong("unsupported_field", reason));
        }
        let value = toml::Value::try_from(value).map_err(|_| wrong("invalid_value", UNFIT))?;
        self.settings = set_key(&self.settings, key, value).map_err(|error| match &error {
            beamgen::Error::Key { reason, .. } if reason.contains("no key") => {
                wrong("unknown_field", reason)
            }
            beamgen::Error::Key { reason, .. } => wrong("invalid_value", reason),
            _ => wrong("invalid_value", &error.to_string()),
        })?;
        self.given.push((key.to_owned(), full));
        Ok(())
    }
}
