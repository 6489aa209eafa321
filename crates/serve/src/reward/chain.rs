//! Reads chains to score, from messages or from texts.

use beamgen::Problem;
use beamgen::generator::GeneratorConfig;
use serde_json::Value;

use super::{markup, split};
use crate::app::App;

#[derive(Debug, PartialEq)]
pub(super) struct Chain {
    /// The text of the problem, after its context.
    pub problem: String,
    pub steps: Vec<String>,
    /// The range of each step in the response, `[start, end]` in Unicode code points; `None` if the
    /// client sent the steps separately.
    pub offsets: Option<Vec<[usize; 2]>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Turn {
    pub role: Role,
    pub content: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
}

/// Splits responses into steps, and so makes chains.
pub(super) struct Cutter {
    /// The server's settings, by which a search would split steps.
    generator: GeneratorConfig,
    separator: Option<String>,
}

impl Cutter {
    /// Returns a cutter that splits at `separator`. Without a separator, it splits at the marks of
    /// reward models, or else as a search does.
    pub(super) fn new(app: &App, separator: Option<String>) -> Self {
        Self {
            generator: app.service.request("").settings.generator,
            separator,
        }
    }

    /// Splits a response into steps, and returns them with their ranges in code points.
    /// `separator`, if given, replaces that of the cutter.
    ///
    /// # Errors
    /// Returns an error if the response has no step, or an empty one.
    pub(super) fn steps(
        &self,
        response: &str,
        separator: Option<&str>,
    ) -> Result<(Vec<String>, Vec<[usize; 2]>), String> {
        let separator = separator.or(self.separator.as_deref());
        let ranges = split::steps(response, separator, &self.generator);
        if ranges.is_empty() {
            return Err("the response has no step: send one with text".to_owned());
        }
        if let Some(at) = ranges.iter().position(std::ops::Range::is_empty) {
            let step = at + 1;
            return Err(format!(
                "step {step} of the response is empty: leave it out"
            ));
        }
        let steps = ranges
            .iter()
            .map(|range| response[range.clone()].to_owned());
        Ok((steps.collect(), split::offsets(response, &ranges)))
    }

    /// Makes a chain from a problem and a response.
    ///
    /// # Errors
    /// Returns an error if the problem, the response or a step is empty.
    pub(super) fn chain(&self, problem: String, response: &str) -> Result<Chain, String> {
        if problem.trim().is_empty() {
            return Err("the problem is empty: send its text".to_owned());
        }
        let (steps, offsets) = self.steps(response, None)?;
        Ok(Chain {
            problem,
            steps,
            offsets: Some(offsets),
        })
    }

    /// Makes a chain from a chat whose last turn is the assistant's response.
    ///
    /// # Errors
    /// Returns an error if the chat does not end with a user's turn and a response, or if its text
    /// cannot be a chain.
    pub(super) fn chat(&self, mut turns: Vec<Turn>) -> Result<Chain, String> {
        let Some(response) = turns.pop_if(|turn| turn.role == Role::Assistant) else {
            return Err("the last turn is not the assistant's: end with the response".to_owned());
        };
        self.chain(problem(turns)?, &response.content)
    }

    /// Makes a chain from a chat in the form of OpenAI's messages.
    ///
    /// # Errors
    /// Returns an error that names the first invalid message, or the errors of
    /// [`chat`](Self::chat).
    pub(super) fn messages(&self, messages: &Value) -> Result<Chain, String> {
        self.chat(turns_of(messages)?)
    }

    /// Makes a chain from a text that a chat template wrote.
    ///
    /// # Errors
    /// Returns an error if the text has no markup, so that the response's beginning is unknown, or
    /// an unknown markup.
    pub(super) fn text(&self, text: &str) -> Result<Chain, String> {
        let turns = markup::turns(text)?;
        let turns = turns.ok_or(
            "problem and response cannot be told apart: send messages, or the text of a chat template",
        )?;
        self.chat(turns)
    }
}

/// Returns the problem of the turns before a response: the last turn, after the earlier turns as
/// its context. System turns are left out, since a reward model has its own system prompt.
///
/// # Errors
/// Returns an error if the last turn is not the user's.
pub(super) fn problem(turns: Vec<Turn>) -> Result<String, String> {
    let mut turns: Vec<Turn> = turns
        .into_iter()
        .filter(|turn| turn.role != Role::System)
        .collect();
    let Some(asked) = turns.pop_if(|turn| turn.role == Role::User) else {
        return Err("no user's turn before the response: send the problem as one".to_owned());
    };
    let before = turns.into_iter().map(|turn| turn.content);
    let problem = Problem {
        context: before.filter(|text| !text.trim().is_empty()).collect(),
        ..Problem::from(asked.content)
    };
    Ok(problem.with_context().into_owned())
}

/// Returns the problem of a prompt, which is a plain text, or a chat that a template wrote up to
/// the response.
///
/// # Errors
/// Returns an error if the markup is unknown, or if the prompt has no user's turn.
pub(super) fn problem_of_prompt(prompt: &str) -> Result<String, String> {
    let Some(mut turns) = markup::turns(prompt)? else {
        // White space around a plain prompt separates it from the response.
        return Ok(prompt.trim().to_owned());
    };
    // Some templates begin the response with `<think>`, which is not part of the problem.
    turns.pop_if(|turn| turn.role == Role::Assistant);
    problem(turns)
}

/// Reads a chat in the form of OpenAI's messages.
///
/// # Errors
/// Returns an error that names the first invalid message.
pub(super) fn turns_of(messages: &Value) -> Result<Vec<Turn>, String> {
    let list = messages
        .as_array()
        .ok_or("messages: not a list: send the turns of a chat")?;
    let turns = list.iter().enumerate().map(|(at, message)| {
        let role = match message["role"].as_str() {
            Some("system" | "developer") => Role::System,
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            _ => {
                return Err(format!(
                    "messages[{at}].role: use system, user or assistant"
                ));
            }
        };
        let content = content(&message["content"]);
        let content = content.ok_or_else(|| {
            format!("messages[{at}].content: not a text: send a string, or parts of type text")
        })?;
        Ok(Turn { role, content })
    });
    turns.collect()
}

fn content(content: &Value) -> Option<String> {
    let part = |part: &Value| {
        let is_text = part["type"] == "text";
        part["text"].as_str().filter(|_| is_text).map(str::to_owned)
    };
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => parts.iter().map(part).collect(),
        _ => None,
    }
}
