//! Parses requests: the problem, the settings of the search, and the form of the answer.

use std::time::Duration;

use beamgen::program::nearest;
use beamgen::{Problem, Settings};
use serde_json::{Map, Value};

use crate::app::App;
use crate::calls::Form;
use crate::chat;
use crate::field_table::{Treatment, read_names, row};
use crate::fields::Fields;
use crate::ignored;
use crate::presets::OWN;
use crate::prompts;
use crate::refusal::Refusal;
use crate::sampling::{Sampling, is_pinned};

/// The route of OpenAI's API, which decides the format of request and answer: chat completions or
/// completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Chat,
    Completion,
}

/// A request for an answer, parsed and checked against the server's limits.
#[derive(Debug)]
pub(crate) struct Ask {
    pub shape: Shape,
    /// The name of the preset, which is the value of the field `model`.
    pub model: String,
    /// The problems: one for each prompt of a list, or else a single one.
    pub problems: Vec<Problem>,
    /// The seed of each problem.
    pub seeds: Vec<u64>,
    /// The number of answers to each problem.
    pub n: usize,
    pub settings: Settings,
    pub deadline: Duration,
    pub stream: bool,
    pub include_usage: bool,
    /// The form in which the answer may call tools; `None` if the request allows no calls.
    pub calls: Option<Form>,
    /// Whether an answer may have several calls.
    pub parallel_calls: bool,
    pub events: bool,
    pub tree: bool,
    /// Whether the answer of a chat has the thoughts of its chains.
    pub has_reasoning: bool,
    /// The settings that the request changes: the key of each, and the name of the field that
    /// changes it.
    pub given: Vec<(String, String)>,
    /// The names of the request's fields that have no effect.
    pub ignored: Vec<String>,
    /// Notes for the user, such as on a misspelt field, which the answer repeats.
    pub notes: Vec<String>,
}

/// The maximum number of answers per request. Each answer may be a search, and all searches of a
/// request wait in the queue.
pub(crate) const MOST_CHOICES: usize = 128;

/// The maximum number of ignored fields that an answer names.
const MOST_IGNORED: usize = 64;

impl Ask {
    /// Returns a request with a preset's settings, and without a problem.
    fn of_preset(app: &App, shape: Shape, fields: &mut Fields) -> Result<Self, Refusal> {
        let model = fields.text("model")?.unwrap_or_else(|| OWN.to_owned());
        let presets = app.presets();
        let preset = presets.find(&model);
        let preset = preset.ok_or_else(|| unknown_model(app, &model))?;
        // Later settings win: the preset's, then the fields of OpenAI's API, then those of
        // `beamgen`.
        let mut settings = preset.settings.clone();
        if let Some(seed) = app.options.fixed_seed.filter(|_| !preset.pins_seed) {
            settings.generator.seed = seed;
        }
        let is_seeded = preset.pins_seed || app.options.fixed_seed.is_some();
        Ok(Self {
            shape,
            model,
            problems: Vec::new(),
            seeds: Vec::from_iter(is_seeded.then_some(settings.generator.seed)),
            n: 1,
            settings,
            deadline: app.limits.search_time,
            stream: false,
            include_usage: false,
            calls: None,
            parallel_calls: true,
            events: false,
            tree: false,
            has_reasoning: true,
            given: Vec::new(),
            ignored: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns a refusal that names the invalid field.
    pub(crate) fn read(app: &App, shape: Shape, body: Map<String, Value>) -> Result<Self, Refusal> {
        let mut fields = Fields::new(body, "");
        let mut ask = Self::of_preset(app, shape, &mut fields)?;
        match shape {
            Shape::Chat => ask.read_chat(app, &mut fields)?,
            Shape::Completion => {
                let prompts = prompts::read(&mut fields)?;
                ask.problems = prompts.into_iter().map(Problem::from).collect();
            }
        }
        ask.read_writing(app, &mut fields)?;
        let sampling = Sampling::read(&mut fields)?;
        ask.read_lengths(&mut fields)?;
        ask.read_choices(&mut fields)?;
        ask.stream = fields.flag("stream")?;
        ask.include_usage = stream_options(&mut fields, ask.stream)?;
        let own = fields.object("beamgen")?;
        ask.read_others(fields)?;
        ask.read_own(Fields::new(own, "beamgen."))?;
        // The remaining calls need all settings: whether the search has several chains, and how
        // many.
        ask.sample(&sampling);
        ask.raise_n();
        ask.seed(app);
        ask.check(app)?;
        ignored::count(app, &ask.ignored);
        Ok(ask)
    }

    fn read_chat(&mut self, app: &App, fields: &mut Fields) -> Result<(), Refusal> {
        let continues = chat::continues(fields)?;
        let conversation = chat::read(fields.take("messages"), continues)?;
        if let Some(system) = conversation.system {
            if !app.models.has_template {
                let reason = "the generator has no chat template, so its prompt has no place for a system message";
                return Err(Refusal::field("unsupported_field", "messages[0]", reason));
            }
            self.settings.generator.system_prompt = Some(system);
        }
        if !conversation.turns.is_empty() && !app.models.has_template {
            let reason = "the generator has no chat template, so its prompt has no place for earlier turns: send one message";
            return Err(Refusal::field("unsupported_field", "messages", reason));
        }
        self.problems = vec![Problem {
            turns: conversation.turns,
            prefix: conversation.prefix,
            ..Problem::from(conversation.problem)
        }];
        Ok(())
    }

    fn read_lengths(&mut self, fields: &mut Fields) -> Result<(), Refusal> {
        // `max_completion_tokens` replaces `max_tokens` in OpenAI's API, so it wins if a client
        // sends both.
        for key in ["max_tokens", "max_completion_tokens"] {
            if fields.is_off(key) {
                continue;
            }
            if let Some(most) = fields.count(key)? {
                self.settings.generator.max_chain_tokens = most;
                // Both fields limit thought and answer together.
                self.settings.generator.thinking.shares_limit = true;
                self.given
                    .push(("max_chain_tokens".to_owned(), key.to_owned()));
            }
        }
        Ok(())
    }

    /// Reads `n` and the seed, which is that of the first answer.
    fn read_choices(&mut self, fields: &mut Fields) -> Result<(), Refusal> {
        self.n = fields.count("n")?.unwrap_or(1);
        if self.n == 0 {
            return Err(fields.wrong("n", "write at least 1"));
        }
        if self.n.saturating_mul(self.problems.len()) > MOST_CHOICES {
            let (field, advice) = if self.problems.len() > 1 {
                ("prompt", "send fewer prompts, or a smaller n")
            } else {
                ("n", "send several requests")
            };
            let reason = format!("a request has at most {MOST_CHOICES} answers: {advice}");
            return Err(fields.wrong(field, &reason));
        }
        if fields.count("best_of")?.is_some_and(|best| best != self.n) {
            let reason = "not supported: use a preset that chooses among chains, or the value of n";
            return Err(Refusal::field("unsupported_field", "best_of", reason));
        }
        if !fields.is_off("seed")
            && let Some(seed) = fields.whole("seed")?
        {
            self.settings.generator.seed = seed;
            self.seeds = vec![seed];
        }
        Ok(())
    }

    /// Handles the fields that no reader took: refuses those that would change the answer, and
    /// notes the rest as ignored.
    fn read_others(&mut self, fields: Fields) -> Result<(), Refusal> {
        for (name, value) in fields.rest() {
            let known = row(&name);
            match known.map(|row| row.treatment) {
                Some(Treatment::Only(is_done_anyway, _)) if is_done_anyway(&value) => continue,
                Some(Treatment::Only(_, advice)) => {
                    let reason = format!("not supported: {advice}");
                    return Err(Refusal::field("unsupported_field", name, &reason));
                }
                None if self.ignored.len() < MOST_IGNORED => self.notes.extend(misspelt(&name)),
                _ => {}
            }
            self.ignore(&name);
        }
        Ok(())
    }

    fn ignore(&mut self, name: &str) {
        if self.ignored.len() < MOST_IGNORED {
            self.ignored.push(name.chars().take(100).collect());
        }
    }

    /// Applies the sampling fields outside of `beamgen`. A setting that the object `beamgen` has
    /// set already wins. A search of several chains ignores these fields.
    fn sample(&mut self, sampling: &Sampling) {
        let is_pinned = is_pinned(&self.settings);
        for &key in &sampling.given {
            if self.field_of(key).is_some() {
                continue;
            }
            if is_pinned {
                self.ignore(key);
            } else {
                sampling.apply(key, &mut self.settings);
                self.given.push((key.to_owned(), key.to_owned()));
            }
        }
    }

    /// Raises the number of chains of a search to the number of answers.
    fn raise_n(&mut self) {
        // With one answer, an invalid number of chains (0) must stay, so that `check` refuses it.
        if self.n > 1 && self.is_search() && self.settings.search.n < self.n {
            self.settings.search.n = self.n;
            self.given.push(("n".to_owned(), "n".to_owned()));
        }
    }

    /// Whether one search gives all answers to a problem. Without a scorer, each answer is a search
    /// of its own.
    pub(crate) fn is_search(&self) -> bool {
        self.settings.search.needs_scorer().is_some()
    }

    /// Whether an answer has several choices.
    pub(crate) fn is_plural(&self) -> bool {
        self.n > 1 || self.problems.len() > 1
    }

    /// Sets a seed for each problem. A given seed is the same for all problems, so that an answer
    /// does not depend on the other prompts. Otherwise each problem gets a new seed.
    fn seed(&mut self, app: &App) {
        let seed = self.settings.generator.seed;
        let is_seeded = !self.seeds.is_empty() || self.field_of("seed").is_some();
        let one = |_: &Problem| if is_seeded { seed } else { app.seeds.fresh() };
        self.seeds = self.problems.iter().map(one).collect();
    }

    /// Reads the settings of a request that sends answers (`/v1/refine`, `/v1/guard`).
    ///
    /// # Errors
    /// Returns a refusal that names the invalid field.
    pub(crate) fn of_answers(app: &App, fields: &mut Fields) -> Result<Self, Refusal> {
        let mut ask = Self::of_preset(app, Shape::Completion, fields)?;
        let own = fields.object("beamgen")?;
        // These fields belong to each answer, or have no effect on these routes.
        for key in [
            "id",
            "reference",
            "steps",
            "context",
            "verifier",
            "tests",
            "events",
            "tree",
        ] {
            if own.contains_key(key) {
                let reason = "not supported on this route: leave it out";
                let field = format!("beamgen.{key}");
                return Err(Refusal::field("unsupported_field", field, reason));
            }
        }
        ask.read_own(Fields::new(own, "beamgen."))?;
        ask.check(app)?;
        Ok(ask)
    }

    /// Fails for invalid settings, and for requests that exceed the server's token limit.
    fn check(&self, app: &App) -> Result<(), Refusal> {
        let invalid = |setting: &str, reason: String| {
            let field = self.field_of(setting).unwrap_or("beamgen");
            Refusal::field("invalid_value", field, &reason)
        };
        let names = || app.models.config.verifier.names();
        for verifier in self.problems.iter().filter_map(|p| p.verifier.as_deref()) {
            if !names().any(|name| name == verifier) {
                let known: Vec<&str> = names().collect();
                let reason = format!("no verifier of this server: send {}", known.join(", "));
                return Err(Refusal::field("invalid_value", "beamgen.verifier", &reason));
            }
        }
        let settings = &self.settings;
        settings
            .validate()
            .map_err(|error| invalid(error.setting().unwrap_or_default(), error.to_string()))?;
        if settings.search.uses_outcomes() && !app.models.has_open_verifier {
            let reason =
                "this server has no open verifier (--verifier, --verifier-open): leave it out";
            let setting = if settings.search.stop_when_verified {
                "stop_when_verified"
            } else {
                "outcome_scores"
            };
            return Err(invalid(setting, reason.to_owned()));
        }
        if let Some(what) = settings
            .search
            .needs_scorer()
            .filter(|_| !app.models.has_scorer)
        {
            let reason =
                format!("{what} needs a reward model, which this server does not have: change it");
            return Err(invalid("strategy", reason));
        }
        if self.is_search() && self.n > 1 && app.models.config.checkers.require_sound {
            let reason =
                "this server audits the chosen chain only (--require-sound): ask for one answer";
            return Err(Refusal::field("unsupported_field", "n", reason));
        }
        let searches = if self.is_search() { 1 } else { self.n };
        let searches = searches * self.problems.len().max(1);
        let chains = settings.search.sampled_chains().saturating_mul(searches);
        let tokens = chains.saturating_mul(settings.generator.most_tokens());
        if tokens <= app.limits.tokens {
            return Ok(());
        }
        let reason = format!(
            "{chains} chains of {} tokens exceed the limit of {} tokens per request: use fewer",
            settings.generator.most_tokens(),
            app.limits.tokens
        );
        // The client can change only a field of the request, so the error names one, even if the
        // preset set the number that is too large.
        let by_choices = [("n", self.n > 1), ("prompt", self.problems.len() > 1)];
        if let Some((field, _)) = by_choices.iter().find(|(_, is_many)| *is_many) {
            return Err(Refusal::field("invalid_value", *field, &reason));
        }
        let mut asked = ["n", "max_chain_tokens"].into_iter();
        let setting = asked.find(|setting| self.field_of(setting).is_some());
        Err(invalid(setting.unwrap_or_default(), reason))
    }

    /// Returns the name of the request's field that set a setting; `None` if none did. `setting` is
    /// the last part of the setting's key.
    pub(crate) fn field_of(&self, setting: &str) -> Option<&str> {
        // Of several fields for one setting, the last one is in effect.
        let last = self.given.iter().rev().find(|(key, _)| {
            let table = key.strip_suffix(setting);
            table.is_some_and(|table| table.is_empty() || table.ends_with('.'))
        });
        last.filter(|_| !setting.is_empty())
            .map(|(_, field)| field.as_str())
    }

    /// Returns the name of the field with the text of problem number `problem`.
    pub(crate) fn problem_field(&self, problem: usize) -> String {
        match self.shape {
            Shape::Chat => "messages".to_owned(),
            Shape::Completion if self.problems.len() > 1 => format!("prompt[{problem}]"),
            Shape::Completion => "prompt".to_owned(),
        }
    }
}

/// Returns the refusal of an unknown model, which lists the names of all presets.
pub(crate) fn unknown_model(app: &App, model: &str) -> Refusal {
    let presets = app.presets();
    let names: Vec<&str> = presets.iter().map(|preset| preset.name.as_str()).collect();
    let shown: String = model.chars().take(100).collect();
    Refusal {
        status: axum::http::StatusCode::NOT_FOUND,
        param: Some("model".to_owned()),
        ..Refusal::input(
            "model_not_found",
            format!("unknown model {shown:?}: use one of {}", names.join(", ")),
        )
    }
}

/// Returns a note on an unknown field if its name is close to the name of a known field.
fn misspelt(name: &str) -> Option<String> {
    // Names whose lengths differ by more than 2 are different words: clients may have fields of
    // their own.
    let near = nearest(name, read_names()).filter(|near| near.len().abs_diff(name.len()) <= 2)?;
    Some(format!("there is no field {name:?}: the nearest is {near}"))
}

fn stream_options(fields: &mut Fields, stream: bool) -> Result<bool, Refusal> {
    let given = fields.object("stream_options")?;
    if !given.is_empty() && !stream {
        let reason = "needs \"stream\": true: add it, or leave the field out";
        return Err(fields.wrong("stream_options", reason));
    }
    let mut options = Fields::new(given, "stream_options.");
    let include_usage = options.flag("include_usage")?;
    // Accepted without effect: the chunks of this server are never padded.
    options.flag("include_obfuscation")?;
    if options.flag("continuous_usage_stats")? {
        let reason = "not supported, since answers come at their end: leave it out";
        let field = options.name("continuous_usage_stats");
        return Err(Refusal::field("unsupported_field", field, reason));
    }
    options.end()?;
    Ok(include_usage)
}
