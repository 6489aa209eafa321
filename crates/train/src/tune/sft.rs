//! Conversion of problems with solutions into training examples for a generator.

use beamgen_engine::{ChatTemplate, Ending, Message, Tokenizer};
use beamgen_records::{Accepted, DataSource, Record};
use serde_json::Value;

use super::Example;
use super::batches::Read;
use crate::{Error, Result};

/// The number of words from which an `answer` of one line counts as a worked solution.
const BARE_WORDS: usize = 10;

/// The settings that turn problems and solutions into tokens.
#[derive(Debug)]
pub struct Format<'a> {
    /// The tokenizer of the checkpoint, which also knows the end-of-text tokens.
    pub tokenizer: &'a Tokenizer,
    /// The chat template. Without a template, the prompt is the text of the problem.
    pub template: &'a ChatTemplate,
    /// The system prompt of conversations without one; `None` adds no system turn.
    pub system: Option<&'a str>,
    /// The largest number of tokens of an example; longer examples are left out.
    pub longest: usize,
}

/// The role and the content of a message.
type Turn = (String, String);

impl Format<'_> {
    /// Reads a file of JSON lines, a JSON array or a table. A record has `problem` (or `question`) and `solution` (or `answer`). Alternatively
    /// it has `messages` with `role` and `content`, which end with the assistant's solution.
    ///
    /// # Errors
    /// [`Error::Data`] for an invalid record; [`Error::Config`] if no example remains, or if all solutions are bare
    /// results.
    pub fn read(&self, source: &DataSource) -> Result<Read> {
        let mut read = Read::default();
        let mut worked = false;
        beamgen_records::read_source::<Error>(source, Accepted::JSON, &mut |place, record| {
            let bad = |reason: String| Error::Data {
                source_name: source.name.clone(),
                place,
                reason,
            };
            let value = match record {
                Record::Json(value) => value,
                Record::Text(text) => Value::String(text),
            };
            let (before, solution) = turns(&value).map_err(bad)?;
            let others = ["messages", "solution"];
            let is_answer = others.iter().all(|other| value.get(other).is_none());
            worked |= !(is_answer && is_bare(&solution));
            let example = self.example(&before, &solution).map_err(bad)?;
            if example.ids.len() > self.longest {
                read.too_long += 1;
                return Ok(());
            }
            // The last question identifies the example, since many examples may share earlier turns.
            let problem = before.iter().rev().find(|turn| turn.0 == "user");
            read.problems
                .push(problem.map(|turn| turn.1.clone()).unwrap_or_default());
            read.examples.push(example);
            Ok(())
        })?;
        let path = &source.name;
        if read.examples.is_empty() {
            let longest = self.longest;
            return Err(Error::Config(format!(
                "{path}: no example has at most {longest} tokens"
            )));
        }
        // In files like GSM8K `answer` is a worked solution, in others a bare result. Training on bare results would
        // unlearn reasoning, so they must be under `solution` to be accepted.
        if !worked {
            return Err(Error::Config(format!(
                "{path}: only bare results, under `answer`: write worked solutions under `solution`, \
                 or the results if these are to be learnt"
            )));
        }
        Ok(read)
    }

    /// Makes the example of a conversation: the prompt, the `solution` and the token that ends the assistant's turn.
    /// The prompt has no loss.
    fn example(&self, before: &[Turn], solution: &str) -> std::result::Result<Example, String> {
        let system = self
            .system
            .map(|text| ("system".to_owned(), text.to_owned()));
        let has_system = before.iter().any(|turn| turn.0 == "system");
        let messages: Vec<Message> = system
            .iter()
            .filter(|_| !has_system)
            .chain(before)
            .map(|(role, content)| Message { role, content })
            .collect();
        let prompt = self
            .template
            .render(&messages, Ending::Generation)
            .map_err(|error| error.to_string())?;
        let special = !self.template.is_present();
        let mut ids = self.encode(&prompt, special)?;
        if ids.is_empty() {
            return Err("the prompt has no tokens".into());
        }
        let start = ids.len();
        let joined = format!("{prompt}{solution}");
        let joined = self.encode(&joined, special)?;
        // At inference the prompt's tokens are fixed. If the joined text is tokenised differently at the end of the
        // prompt, the solution is tokenised separately.
        match joined.strip_prefix(ids.as_slice()) {
            Some(own) => ids.extend_from_slice(own),
            None => ids.extend(self.encode(solution, false)?),
        }
        if ids.len() == start {
            return Err("`solution` has no tokens".into());
        }
        ids.push(self.end(&messages, solution)?);
        let next = (start..ids.len())
            .map(|i| (i as u32 - 1, ids[i], 1.0))
            .collect();
        Ok(Example {
            ids,
            next,
            labels: Vec::new(),
        })
    }

    fn encode(&self, text: &str, special: bool) -> std::result::Result<Vec<u32>, String> {
        let ids = self.tokenizer.encode(text, special);
        ids.map_err(|error| error.to_string())
    }

    /// Returns the end-of-text token that the template writes after the assistant's turn. If there is none, returns
    /// the checkpoint's first end-of-text token.
    fn end(&self, messages: &[Message<'_>], solution: &str) -> std::result::Result<u32, String> {
        let last = [Message::assistant(solution)];
        let whole = self
            .template
            .render(&[messages, &last].concat(), Ending::Closed);
        let written = whole.ok().and_then(|whole| {
            let (_, after) = whole.rsplit_once(solution.trim())?;
            let after = self.tokenizer.encode(after, false).ok()?;
            after.into_iter().find(|&id| self.tokenizer.is_eos(id))
        });
        written
            .or_else(|| self.tokenizer.eos_ids().first().copied())
            .ok_or_else(|| "the checkpoint names no end-of-text token".into())
    }
}

/// Returns whether an answer is a single line of fewer than `BARE_WORDS` words.
fn is_bare(answer: &str) -> bool {
    !answer.trim().contains('\n') && answer.split_whitespace().count() < BARE_WORDS
}

/// Returns the conversation before the solution, and the solution.
fn turns(value: &Value) -> std::result::Result<(Vec<Turn>, String), String> {
    if let Some(messages) = value.get("messages") {
        let messages = messages.as_array().ok_or("`messages` must be a list")?;
        let mut turns: Vec<Turn> = Vec::new();
        for message in messages {
            turns.push((
                message_text(message, "role")?,
                message_text(message, "content")?,
            ));
        }
        return match turns.pop() {
            Some((role, solution)) if role == "assistant" && !turns.is_empty() => {
                Ok((turns, solution))
            }
            _ => Err("the last of two or more `messages` must be the assistant's".into()),
        };
    }
    let problem = first_text(value, ["problem", "question"])?;
    let solution = first_text(value, ["solution", "answer"])?;
    Ok((vec![("user".into(), problem)], solution))
}

fn message_text(message: &Value, name: &str) -> std::result::Result<String, String> {
    match message.get(name).and_then(Value::as_str) {
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("a message lacks the text `{name}`")),
    }
}

/// Returns the text of the first field that exists. A blank text is an error.
fn first_text(value: &Value, names: [&str; 2]) -> std::result::Result<String, String> {
    let found = names.iter().find_map(|name| value.get(name)?.as_str());
    found
        .filter(|text| !text.trim().is_empty())
        .map(str::to_owned)
        .ok_or_else(|| {
            format!(
                "`{}` (or `{}`) is missing or not a text",
                names[0], names[1]
            )
        })
}
