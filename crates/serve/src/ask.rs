//! Parses requests: the problem, the settings of the search, and the form of the answer.

use std::time::Duration;

use beamgen::generator::GeneratorConfig;
use beamgen::program::set_key;
use beamgen::settings::{SETTINGS, Scope, Setting, put};
use beamgen::{Problem, Settings};
use serde_json::{Map, Value};

use crate::app::App;
use crate::chat;
use crate::fields::Fields;
use crate::presets::OWN;
use crate::refusal::Refusal;

/// The route of OpenAI's API, which decides the format of request and answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Chat,
    Completion,
}

/// A parsed request.
#[derive(Debug)]
pub(crate) struct Ask {
    pub shape: Shape,
    /// The name of the preset.
    pub model: String,
    pub problem: Problem,
    pub settings: Settings,
    pub deadline: Duration,
    pub stream: bool,
    pub include_usage: bool,
    pub events: bool,
    pub tree: bool,
    /// The settings that the request changes, each with the name of its field.
    given: Vec<(String, String)>,
    /// Notes on the request, which the answer repeats.
    pub notes: Vec<String>,
}

/// The most bytes of a reference answer: answers are compared on the thread that serves all requests.
pub(crate) const MOST_REFERENCE: usize = 4096;

/// The reason against a value of the wrong type.
const UNFIT: &str = "invalid value";

/// Earlier and present names of fields of `beamgen`. Earlier names are accepted, with a note.
const OLD: [(&str, &str); 2] = [("budget", "budget_tokens"), ("deadline", "timeout")];

/// Fields that are accepted and ignored: they cannot change an answer.
pub(crate) const WITHOUT_EFFECT: [&str; 9] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "parallel_tool_calls",
    "tool_choice",
];

/// Whether a value asks for exactly what the server does in any case.
pub(crate) type IsDoneAnyway = fn(&Value) -> bool;

/// Fields that are accepted only with the value that the server uses in any case.
pub(crate) const FIXED: [(&str, IsDoneAnyway); 22] = [
    ("n", |v| v == 1),
    ("best_of", |v| v == 1),
    ("logprobs", |v| v == false),
    ("top_logprobs", |v| v == 0),
    ("echo", |v| v == false),
    ("suffix", |v| v == ""),
    ("stop", |v| v == "" || is_empty(v)),
    ("tools", is_empty),
    ("functions", is_empty),
    ("function_call", |v| v == "none"),
    ("logit_bias", is_empty),
    ("presence_penalty", |v| v.as_f64() == Some(0.0)),
    ("frequency_penalty", |v| v.as_f64() == Some(0.0)),
    ("response_format", |v| v["type"] == "text"),
    ("modalities", |v| *v == serde_json::json!(["text"])),
    ("audio", |_| false),
    ("prediction", |_| false),
    ("web_search_options", |_| false),
    ("reasoning_effort", |_| false),
    ("verbosity", |_| false),
    ("moderation", |_| false),
    ("logits_processors", |_| false),
];

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

impl Ask {
    /// # Errors
    /// Returns the fault, with the field's name.
    pub(crate) fn read(app: &App, shape: Shape, body: Map<String, Value>) -> Result<Self, Refusal> {
        let mut fields = Fields::new(body, "");
        let model = fields.text("model")?.unwrap_or_else(|| OWN.to_owned());
        let presets = app.presets();
        let preset = presets
            .find(&model)
            .ok_or_else(|| unknown_model(app, &model))?;
        // Later settings win: the preset's, then the fields of OpenAI's API, then those of
        // `beamgen`.
        let mut settings = preset.settings.clone();
        let text = match shape {
            Shape::Chat => {
                let conversation = chat::read(fields.take("messages"))?;
                if let Some(system) = conversation.system {
                    if !app.models.takes_system {
                        let reason = "the generator has no chat template, so its prompt has no place for a system message";
                        return Err(Refusal::field("unsupported_field", "messages[0]", reason));
                    }
                    settings.generator.system_prompt = Some(system);
                }
                conversation.problem
            }
            Shape::Completion => prompt(&mut fields)?,
        };
        let given = sampling(&mut fields, &mut settings)?;
        let stream = fields.flag("stream")?;
        let include_usage = stream_options(&mut fields, stream)?;
        let own = fields.object("beamgen")?;
        for key in WITHOUT_EFFECT {
            fields.take(key);
        }
        for (key, is_done_anyway) in FIXED {
            if fields
                .take(key)
                .is_some_and(|value| !is_done_anyway(&value))
            {
                let reason = "not supported: leave it out";
                return Err(Refusal::field("unsupported_field", key, reason));
            }
        }
        fields.end()?;
        let mut ask = Self {
            shape,
            model,
            problem: Problem::from(text.as_str()),
            settings,
            deadline: app.limits.search_time,
            stream,
            include_usage,
            events: false,
            tree: false,
            given,
            notes: Vec::new(),
        };
        // Only the settings together can be checked: each may be valid and the product too large.
        ask.read_own(Fields::new(own, "beamgen."))?;
        ask.check(app)?;
        Ok(ask)
    }

    /// Reads the settings of the searches for given answers.
    ///
    /// # Errors
    /// Returns the fault, with the field's name.
    pub(crate) fn of_answers(app: &App, fields: &mut Fields) -> Result<Self, Refusal> {
        let model = fields.text("model")?.unwrap_or_else(|| OWN.to_owned());
        let presets = app.presets();
        let preset = presets.find(&model);
        let preset = preset.ok_or_else(|| unknown_model(app, &model))?;
        let own = fields.object("beamgen")?;
        // Each answer has these itself, or the route has no place for them: they would be ignored.
        for key in ["id", "reference", "steps", "context", "events", "tree"] {
            if own.contains_key(key) {
                let reason = "not supported on this route: leave it out";
                let field = format!("beamgen.{key}");
                return Err(Refusal::field("unsupported_field", field, reason));
            }
        }
        let mut ask = Self {
            shape: Shape::Completion,
            model,
            problem: Problem::default(),
            settings: preset.settings.clone(),
            deadline: app.limits.search_time,
            stream: false,
            include_usage: false,
            events: false,
            tree: false,
            given: Vec::new(),
            notes: Vec::new(),
        };
        ask.read_own(Fields::new(own, "beamgen."))?;
        ask.check(app)?;
        Ok(ask)
    }

    /// Reads the object `beamgen` of a request.
    fn read_own(&mut self, mut fields: Fields) -> Result<(), Refusal> {
        // The tables come first, so that a setting's own name wins over its key in a table.
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
        if let Some(id) = fields.text("id")? {
            self.problem.id = id;
        }
        let answer = fields.text("reference")?;
        if answer.as_ref().is_some_and(|a| a.len() > MOST_REFERENCE) {
            let reason = format!("an answer has at most {MOST_REFERENCE} bytes");
            return Err(fields.wrong("reference", &reason));
        }
        self.problem.answer = answer;
        if let Some(steps) = fields.take("steps") {
            let steps = beamgen::eval::steps_of(&steps, &fields.name("steps"));
            self.problem.steps = steps.map_err(|fault| fields.wrong("steps", &fault))?;
        }
        if let Some(context) = fields.take("context") {
            let context = beamgen::eval::context_of(&context, &fields.name("context"));
            self.problem.context = context.map_err(|fault| fields.wrong("context", &fault))?;
        }
        if let Some(seconds) = fields.number("timeout")? {
            // JSON has negative and huge numbers, for which `from_secs_f64` panics.
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

    /// Sets every key in a table of settings; `key` is the table's name.
    fn set_keys(&mut self, key: &str, value: Value) -> Result<(), Refusal> {
        if let Value::Object(inner) = value {
            for (name, value) in inner {
                self.set_keys(&format!("{key}.{name}"), value)?;
            }
            return Ok(());
        }
        // The client chooses the key's length, and errors repeat the key.
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

    /// Fails for invalid settings, and for settings that exceed the server's limits.
    fn check(&self, app: &App) -> Result<(), Refusal> {
        let invalid = |setting: &str, reason: String| {
            let field = self.field_of(setting).unwrap_or("beamgen");
            Refusal::field("invalid_value", field, &reason)
        };
        let settings = &self.settings;
        settings
            .validate()
            .map_err(|error| invalid(error.setting().unwrap_or_default(), error.to_string()))?;
        if let Some(what) = settings
            .search
            .needs_scorer()
            .filter(|_| !app.models.has_scorer)
        {
            let reason =
                format!("{what} needs a reward model, which this server does not have: change it");
            return Err(invalid("strategy", reason));
        }
        let chains = settings.search.chains();
        let tokens = chains.saturating_mul(settings.generator.max_chain_tokens);
        if tokens <= app.limits.tokens {
            return Ok(());
        }
        let reason = format!(
            "{chains} chains of {} tokens exceed the limit of {} tokens per request: use fewer",
            settings.generator.max_chain_tokens, app.limits.tokens
        );
        // The error names a field of the request, although a preset may have set the other number.
        let mut asked = ["n", "max_chain_tokens"].into_iter();
        let setting = asked.find(|setting| self.field_of(setting).is_some());
        Err(invalid(setting.unwrap_or_default(), reason))
    }

    /// Returns the name of the field that sets a setting, if the request does. `setting` is the last
    /// part of the setting's key.
    pub(crate) fn field_of(&self, setting: &str) -> Option<&str> {
        // The last one wins, as it does when settings are put over each other.
        let last = self.given.iter().rev().find(|(key, _)| {
            let table = key.strip_suffix(setting);
            table.is_some_and(|table| table.is_empty() || table.ends_with('.'))
        });
        last.filter(|_| !setting.is_empty())
            .map(|(_, field)| field.as_str())
    }

    /// Returns the name of the field that has the problem.
    pub(crate) fn problem_field(&self) -> &'static str {
        match self.shape {
            Shape::Chat => "messages",
            Shape::Completion => "prompt",
        }
    }
}

/// Returns the refusal of an unknown model, with the known ones.
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

/// Reads the problem of a completion: a text, or a list with a single text.
fn prompt(fields: &mut Fields) -> Result<String, Refusal> {
    let text = match fields.take("prompt") {
        Some(Value::String(text)) => text,
        Some(Value::Array(list)) => {
            if let [Value::String(text)] = &list[..] {
                text.clone()
            } else {
                let reason = "not a single text: several prompts and token lists are not supported";
                return Err(Refusal::field("unsupported_field", "prompt", reason));
            }
        }
        _ => return Err(fields.wrong("prompt", "not a text: send a string")),
    };
    if text.trim().is_empty() {
        Err(fields.wrong("prompt", "empty: send the problem's text"))
    } else {
        Ok(text)
    }
}

/// Takes the fields of OpenAI's API that are settings. Returns the settings that are given.
fn sampling(
    fields: &mut Fields,
    settings: &mut Settings,
) -> Result<Vec<(String, String)>, Refusal> {
    let mut given = Vec::new();
    let mut note = |setting: &str, field: &str| given.push((setting.to_owned(), field.to_owned()));
    let sampling = &mut settings.generator.sampling;
    for (key, field) in [
        ("temperature", &mut sampling.temperature),
        ("top_p", &mut sampling.top_p),
        ("min_p", &mut sampling.min_p),
        ("repetition_penalty", &mut sampling.repetition_penalty),
    ] {
        if let Some(value) = fields.number(key)? {
            *field = Some(value as f32);
            note(key, key);
        }
    }
    sampling.top_k = fields.count("top_k")?.or(sampling.top_k);
    // The newer name comes second, so it wins if a client sends both.
    for key in ["max_tokens", "max_completion_tokens"] {
        if let Some(most) = fields.count(key)? {
            settings.generator.max_chain_tokens = most;
            note("max_chain_tokens", key);
        }
    }
    settings.generator.seed = fields.whole("seed")?.unwrap_or(settings.generator.seed);
    Ok(given)
}

fn stream_options(fields: &mut Fields, stream: bool) -> Result<bool, Refusal> {
    let given = fields.object("stream_options")?;
    if !given.is_empty() && !stream {
        let reason = "needs \"stream\": true: add it, or leave the field out";
        return Err(fields.wrong("stream_options", reason));
    }
    let mut options = Fields::new(given, "stream_options.");
    let include_usage = options.flag("include_usage")?;
    // Accepted without effect: these chunks have no padding.
    options.flag("include_obfuscation")?;
    options.end()?;
    Ok(include_usage)
}
