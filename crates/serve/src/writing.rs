//! Reads the fields that control the text of an answer: stop texts, log-probabilities, token
//! biases, grammars and tools.

use std::collections::BTreeMap;

use beamgen::generator::{Grammar, check_grammar};
use serde_json::{Map, Value};

use crate::app::App;
use crate::ask::{Ask, Shape};
use crate::fields::Fields;
use crate::refusal::Refusal;

/// The maximum number of texts in `stop`, as in vLLM.
pub(crate) const MOST_STOPS: usize = 16;

/// The maximum number of tools in a request.
const MOST_TOOLS: usize = 128;

/// The maximum number of alternatives that may be listed for each token.
const MOST_ALTERNATIVES: usize = 20;

impl Ask {
    pub(crate) fn read_writing(&mut self, app: &App, fields: &mut Fields) -> Result<(), Refusal> {
        self.read_stop(fields)?;
        self.read_logprobs(fields)?;
        self.read_bias(fields)?;
        self.read_format(fields)?;
        self.read_thinking(fields)?;
        self.read_tools(app, fields)
    }

    fn note(&mut self, setting: &str, field: &str) {
        self.given.push((setting.to_owned(), field.to_owned()));
    }

    fn read_stop(&mut self, fields: &mut Fields) -> Result<(), Refusal> {
        let stop = match fields.take("stop") {
            None => Vec::new(),
            Some(Value::String(text)) if text.is_empty() => Vec::new(),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(list)) if list.len() <= MOST_STOPS => {
                let texts = list.into_iter().map(|text| match text {
                    Value::String(text) if !text.is_empty() => Some(text),
                    _ => None,
                });
                let texts: Option<Vec<String>> = texts.collect();
                texts.ok_or_else(|| {
                    fields.wrong("stop", "not texts: send strings that are not empty")
                })?
            }
            Some(_) => {
                let reason = format!("not a text: send a string, or up to {MOST_STOPS} of them");
                return Err(fields.wrong("stop", &reason));
            }
        };
        let include = fields.flag("include_stop_str_in_output")?;
        if !stop.is_empty() {
            self.settings.generator.stop = stop;
            self.settings.generator.include_stop = include;
            self.note("stop", "stop");
        }
        Ok(())
    }

    fn read_thinking(&mut self, fields: &mut Fields) -> Result<(), Refusal> {
        let generator = &mut self.settings.generator;
        generator
            .chat_template_kwargs
            .extend(fields.object("chat_template_kwargs")?);
        let effort = fields.text("reasoning_effort")?;
        if effort.as_deref() == Some("none") {
            generator.thinking.budget = Some(0);
        } else if let Some(effort) = effort {
            let name = "reasoning_effort".to_owned();
            generator.chat_template_kwargs.insert(name, effort.into());
        }
        if !fields.is_off("thinking_token_budget")
            && let Some(budget) = fields.count("thinking_token_budget")?
        {
            generator.thinking.budget = Some(budget);
            self.note("thinking.budget", "thinking_token_budget");
        }
        self.has_reasoning = fields.maybe_flag("include_reasoning")?.unwrap_or(true);
        Ok(())
    }

    fn read_logprobs(&mut self, fields: &mut Fields) -> Result<(), Refusal> {
        let count = match self.shape {
            Shape::Chat => {
                let is_asked = fields.flag("logprobs")?;
                let count = fields.count("top_logprobs")?;
                if count.is_some_and(|count| count > 0) && !is_asked {
                    let reason = "needs \"logprobs\": true: add it, or leave the field out";
                    return Err(fields.wrong("top_logprobs", reason));
                }
                is_asked.then_some(("top_logprobs", count.unwrap_or(0)))
            }
            Shape::Completion if fields.is_false("logprobs") => None,
            Shape::Completion => fields.count("logprobs")?.map(|count| ("logprobs", count)),
        };
        if let Some((field, count)) = count {
            if count > MOST_ALTERNATIVES {
                let reason = format!("at most {MOST_ALTERNATIVES} tokens are told: ask for fewer");
                return Err(fields.wrong(field, &reason));
            }
            self.settings.generator.logprobs = Some(count);
            self.note("logprobs", field);
        }
        Ok(())
    }

    fn read_bias(&mut self, fields: &mut Fields) -> Result<(), Refusal> {
        let biases = fields.object("logit_bias")?;
        let biases = biases.iter().map(|(token, bias)| {
            let bias = bias.as_f64()? as f32;
            Some((token.parse::<u32>().ok()?, bias))
        });
        let biases: Option<BTreeMap<u32, f32>> = biases.collect();
        let Some(biases) = biases else {
            let reason = "not biases: send an object of numbers by ids of tokens";
            return Err(fields.wrong("logit_bias", reason));
        };
        if !biases.is_empty() {
            self.settings.generator.logit_bias = biases;
            self.note("logit_bias", "logit_bias");
        }
        Ok(())
    }

    fn read_format(&mut self, fields: &mut Fields) -> Result<(), Refusal> {
        let format = fields.object("response_format")?;
        let Some(grammar) = grammar(&format)? else {
            return Ok(());
        };
        // The grammar is checked here rather than with the settings, so that the error names
        // `response_format`.
        check_grammar(&grammar).map_err(|error| {
            Refusal::field("unsupported_field", "response_format", &error.to_string())
        })?;
        self.settings.generator.grammar = Some(grammar);
        self.note("grammar", "response_format");
        Ok(())
    }

    fn read_tools(&mut self, app: &App, fields: &mut Fields) -> Result<(), Refusal> {
        let tools = match fields.take("tools") {
            None => Vec::new(),
            Some(Value::Array(tools)) if tools.len() <= MOST_TOOLS => tools,
            Some(_) => {
                let reason = format!("not tools: send a list of up to {MOST_TOOLS} objects");
                return Err(fields.wrong("tools", &reason));
            }
        };
        let choice = fields.take("tool_choice");
        self.parallel_calls = fields.maybe_flag("parallel_tool_calls")?.unwrap_or(true);
        let is_none = choice.as_ref().is_some_and(|choice| choice == "none");
        if choice.is_some_and(|choice| choice != "auto") && !is_none {
            let reason = "a call cannot be forced: use \"auto\" or \"none\"";
            return Err(Refusal::field("unsupported_field", "tool_choice", reason));
        }
        for (at, tool) in tools.iter().enumerate() {
            if tool["type"] != "function" || !tool["function"]["name"].is_string() {
                let reason =
                    "not a function: send {\"type\": \"function\", \"function\": {\"name\": ...}}";
                let place = format!("tools[{at}]");
                return Err(Refusal::field("invalid_value", place, reason));
            }
        }
        if tools.is_empty() || is_none {
            return Ok(());
        }
        if self.shape == Shape::Completion {
            let reason = "a completion has no calls: use /v1/chat/completions";
            return Err(Refusal::field("unsupported_field", "tools", reason));
        }
        let Some(form) = app.models.calls else {
            let reason = "the generator's chat template has no form of calls that this server reads: leave it out";
            return Err(Refusal::field("unsupported_field", "tools", reason));
        };
        self.calls = Some(form);
        for problem in &mut self.problems {
            problem.tools.clone_from(&tools);
        }
        Ok(())
    }
}

/// Returns the grammar that the response has to follow; `None` if any text is allowed.
fn grammar(format: &Map<String, Value>) -> Result<Option<Grammar>, Refusal> {
    let wrong = |reason| Refusal::field("invalid_value", "response_format", reason);
    let Some(kind) = format.get("type").and_then(Value::as_str) else {
        return if format.is_empty() {
            Ok(None)
        } else {
            Err(wrong("no type: use text, json_object or json_schema"))
        };
    };
    match kind {
        "text" => Ok(None),
        "json_object" => Ok(Some(Grammar::JsonObject)),
        "json_schema" => match &format.get("json_schema").unwrap_or(&Value::Null)["schema"] {
            schema @ Value::Object(_) => Ok(Some(Grammar::JsonSchema(schema.clone()))),
            _ => Err(wrong("no schema: send an object as json_schema.schema")),
        },
        _ => Err(wrong("unknown type: use text, json_object or json_schema")),
    }
}
