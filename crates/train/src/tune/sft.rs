//! Problems with solutions as examples for a generator.

use std::path::Path;

use beamgen_engine::{ChatTemplate, Ending, Message, Tokenizer};
use serde_json::Value;

use super::Example;
use super::batches::Read;
use crate::{Error, Result};

/// The largest data file.
const MAX_BYTES: u64 = 4 << 30;

/// An answer of fewer words is a result and no solution.
const BARE_WORDS: usize = 10;

/// How problems and solutions are written.
#[derive(Debug)]
pub struct Format<'a> {
    /// The checkpoint's.
    pub tokenizer: &'a Tokenizer,
    /// Without a template a prompt is the problem's text.
    pub template: &'a ChatTemplate,
    /// The system's turn.
    pub system: Option<&'a str>,
    /// Longer examples are left out.
    pub longest: usize,
}

/// A role, a text.
type Turn = (String, String);

impl Format<'_> {
    /// The examples of a file of JSON lines: `problem` (or `question`) and `solution` (or
    /// `answer`), or `messages`, each with `role` and `content`, the last of which is the
    /// assistant's.
    ///
    /// # Errors
    /// [`Error::Data`] with the line; [`Error::Config`] if nothing is left, or if there are bare
    /// answers only.
    pub fn read(&self, path: &Path) -> Result<Read> {
        let text = beamgen_files::read_text_file(path, MAX_BYTES)
            .map_err(|error| Error::Config(format!("{}: {error}", path.display())))?;
        let mut read = Read::default();
        let mut worked = false;
        for (i, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let bad = |reason: String| Error::Data {
                path: path.to_owned(),
                line: i + 1,
                reason,
            };
            let value = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
            let (before, solution) = turns(&value).map_err(bad)?;
            let others = ["messages", "solution"];
            let is_answer = others.iter().all(|other| value.get(other).is_none());
            worked |= !(is_answer && is_bare(&solution));
            let example = self.example(&before, &solution).map_err(bad)?;
            if example.ids.len() > self.longest {
                read.too_long += 1;
                continue;
            }
            let problem = before.iter().rev().find(|turn| turn.0 == "user");
            read.problems
                .push(problem.map(|turn| turn.1.clone()).unwrap_or_default());
            read.examples.push(example);
        }
        let wrong = |what: String| Error::Config(format!("{}: {what}", path.display()));
        if read.examples.is_empty() {
            let longest = self.longest;
            return Err(wrong(format!("no example of at most {longest} tokens")));
        }
        if !worked {
            return Err(wrong(
                "only bare results, under `answer`: write worked solutions under `solution`; to train on results \
                 only, write these there"
                    .to_owned(),
            ));
        }
        Ok(read)
    }

    /// The tokens of a conversation up to the assistant's turn, then of the `solution` and the
    /// token that ends it; the loss is on these.
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
        let text = |error: beamgen_engine::Error| error.to_string();
        let prompt = self
            .template
            .render(&messages, Ending::Generation)
            .map_err(|error| error.to_string())?;
        let special = !self.template.is_present();
        let mut ids = self.tokenizer.encode(&prompt, special).map_err(text)?;
        if ids.is_empty() {
            return Err("the prompt has no tokens".into());
        }
        let start = ids.len();
        let joined = format!("{prompt}{solution}");
        let joined = self.tokenizer.encode(&joined, special).map_err(text)?;
        // A generator writes behind the prompt's own tokens; so is the solution read, even where
        // its first token would join with the prompt's last.
        match joined.strip_prefix(ids.as_slice()) {
            Some(own) => ids.extend_from_slice(own),
            None => ids.extend(self.tokenizer.encode(solution, false).map_err(text)?),
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

    /// The token with which the template ends the assistant's turn, if it is one at which a
    /// generator stops; otherwise the first of those.
    fn end(&self, messages: &[Message<'_>], solution: &str) -> std::result::Result<u32, String> {
        let last = [Message::assistant(solution)];
        let whole = self
            .template
            .render(&[messages, &last].concat(), Ending::Closed);
        let written = whole.ok().and_then(|whole| {
            let (_, behind) = whole.rsplit_once(solution.trim())?;
            let behind = self.tokenizer.encode(behind, false).ok()?;
            behind.into_iter().find(|&id| self.tokenizer.is_eos(id))
        });
        written
            .or_else(|| self.tokenizer.eos_ids().first().copied())
            .ok_or_else(|| "the checkpoint names no end-of-text token".into())
    }
}

/// Whether a text is a result without its way: a line of few words.
fn is_bare(answer: &str) -> bool {
    !answer.trim().contains('\n') && answer.split_whitespace().count() < BARE_WORDS
}

/// The turns before the solution, and the solution.
fn turns(value: &Value) -> std::result::Result<(Vec<Turn>, String), String> {
    if let Some(messages) = value.get("messages") {
        let messages = messages.as_array().ok_or("`messages` is no list")?;
        let mut turns: Vec<Turn> = Vec::new();
        for message in messages {
            let field = |name: &str| match message.get(name).and_then(Value::as_str) {
                Some(text) => Ok(text.to_owned()),
                None => Err(format!("a message has no text `{name}`")),
            };
            turns.push((field("role")?, field("content")?));
        }
        return match turns.pop() {
            Some((role, solution)) if role == "assistant" && !turns.is_empty() => {
                Ok((turns, solution))
            }
            _ => Err("the last of two or more `messages` must be the assistant's".into()),
        };
    }
    let either = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| value.get(name)?.as_str());
        found
            .filter(|text| !text.trim().is_empty())
            .map(str::to_owned)
            .ok_or_else(|| format!("`{}` (or `{}`) is missing or no text", names[0], names[1]))
    };
    let problem = either(["problem", "question"])?;
    Ok((
        vec![("user".into(), problem)],
        either(["solution", "answer"])?,
    ))
}
