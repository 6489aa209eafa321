//! Prompts and steps as tokens.

use std::sync::Arc;

use beamgen_engine::Tokenizer;
use beamgen_search::{Finish, ScoreError, StepRef};

use crate::spec::{PrmSpec, Tokenise};
use crate::writer::{Cut, Fault, JudgeMessage, WriteError, Writer, fault};

/// Writes chains as a [`RewardModel`](crate::RewardModel) of the same spec reads them, without its
/// weights.
///
/// The segment of a step depends only on the problem, the text of the step and its index. So tokens
/// that were read stay valid when the chain grows.
#[derive(Debug)]
pub struct ChainWriter {
    tokenizer: Arc<Tokenizer>,
    writer: Writer,
    /// Whether the tokenizer adds special tokens, such as a begin token, to the prompt.
    special: bool,
    mode: Mode,
    /// The tokens that are read after each step, and then removed.
    question: Vec<u32>,
}

#[derive(Debug)]
enum Mode {
    /// The tokens are those of the whole chain, tokenised at once.
    Text {
        /// The end of every segment. The next segment is tokenised together with this text before
        /// it.
        anchor: String,
        /// The tokens between the place where the score is read and the next step.
        after: Vec<u32>,
    },
    /// Prompt, steps and separators are tokenised separately.
    Pieces {
        separator: Vec<u32>,
        /// The separator's text, where steps are cut at it.
        split: Option<String>,
        /// Whether the spec allows reading the generator's tokens.
        may_share: bool,
        /// Whether the generator's tokens are read: the spec allows it and the tokenizers are the
        /// same.
        shared: bool,
    },
}

impl ChainWriter {
    /// Makes a writer for a valid spec. Fails if the tokenizer cannot write the spec's texts.
    pub(crate) fn fitted(spec: &PrmSpec, tokenizer: Arc<Tokenizer>) -> Result<Self, Fault> {
        let mut first = None;
        for cut in Cut::ALL {
            match Self::with(spec, Arc::clone(&tokenizer), cut) {
                Ok(fitted) => return Ok(fitted),
                Err(fault) => first = first.or(Some(fault)),
            }
        }
        Err(first.unwrap_or_else(|| fault("step", "cannot be written")))
    }

    fn with(spec: &PrmSpec, tokenizer: Arc<Tokenizer>, cut: Cut) -> Result<Self, Fault> {
        let writer = Writer::new(spec, &tokenizer, cut)?;
        // A chat template writes the special tokens itself. With a second begin token the scores
        // would change.
        let special = spec.prompt.special_tokens && !writer.writes_special_tokens();
        // If no fixed text is at the end of a step, a letter stands for any step's end.
        let tail = match writer.tail() {
            "" => "x",
            tail => tail,
        };
        let question = match spec.step.tokenise {
            Tokenise::Text => continued(&tokenizer, tail, false, writer.question())
                .map_err(|error| fault("step.question", error.to_string()))?,
            Tokenise::Pieces => None,
        };
        let question = match question {
            Some(tokens) => tokens,
            None => encode(&tokenizer, writer.question())?,
        };
        let mode = match spec.step.tokenise {
            Tokenise::Text => {
                // The tokens after a step must not merge with the step's end.
                let after = match continued(&tokenizer, tail, false, writer.after()) {
                    Ok(Some(tokens)) => tokens,
                    Ok(None) => encode(&tokenizer, writer.after())?,
                    Err(error) => return Err(fault("step.verdict", error.to_string())),
                };
                Mode::Text {
                    anchor: format!("{tail}{}", writer.after()),
                    after,
                }
            }
            Tokenise::Pieces => {
                let text = spec.step.separator.clone().unwrap_or_default();
                let separator = encode(&tokenizer, &text)?;
                if separator.is_empty() {
                    return Err(fault("step.separator", "has no tokens"));
                }
                Mode::Pieces {
                    // A separator of several tokens could have been sampled as different tokens.
                    may_share: spec.step.share_tokens && separator.len() == 1,
                    separator,
                    split: spec.step.split.then_some(text),
                    shared: false,
                }
            }
        };
        let fitted = Self {
            tokenizer,
            writer,
            special,
            mode,
            question,
        };
        fitted.probe(spec.step.tag.as_deref())?;
        Ok(fitted)
    }

    /// The tokens that are read after each step and then removed. The score is read at the last of
    /// them; if there are none, at the token of the step that [`Written::read_at`] names.
    ///
    /// [`Written::read_at`]: crate::Written::read_at
    #[must_use]
    pub fn question(&self) -> &[u32] {
        &self.question
    }

    /// Sets whether the generator has the same tokenizer; see
    /// [`RewardModel::share_tokens`](crate::RewardModel::share_tokens).
    pub fn share_tokens(&mut self, same_tokenizer: bool) {
        if let Mode::Pieces {
            may_share, shared, ..
        } = &mut self.mode
        {
            *shared = *may_share && same_tokenizer;
        }
    }

    /// Refuses steps that cannot fit into a context, without cutting all of them into tokens.
    ///
    /// # Errors
    /// [`ScoreError::TextTooLong`].
    pub fn check_steps(&self, steps: &[StepRef<'_>], context: usize) -> Result<(), ScoreError> {
        let texts: Vec<&str> = steps.iter().map(|step| step.text).collect();
        // Each step has at least one token, so too many steps are refused without a look at their
        // texts.
        if steps.len() > context || self.tokenizer.exceeds(&texts, context) {
            return Err(ScoreError::text_too_long("", &texts, context));
        }
        Ok(())
    }

    /// Refuses a problem that cannot fit into a context, without cutting all of it into tokens.
    pub(crate) fn check_problem(&self, problem: &str, context: usize) -> Result<(), ScoreError> {
        if self.tokenizer.exceeds(&[problem], context) {
            return Err(ScoreError::text_too_long(problem, &[], context));
        }
        Ok(())
    }

    /// Returns the chat at whose end the last of `steps` is judged.
    pub(crate) fn chat_messages(
        &self,
        problem: &str,
        steps: &[&str],
    ) -> Result<Option<Vec<JudgeMessage>>, WriteError> {
        self.writer.messages(problem, steps)
    }

    /// Returns the prompt of a problem as text and as tokens.
    pub(crate) fn open(&self, problem: &str) -> Result<(String, Vec<u32>), WriteError> {
        let text = self.writer.prompt(problem)?;
        let tokens = self.tokenizer.encode(&text, self.special)?;
        Ok((text, tokens))
    }

    /// Appends a step's segment to `tokens`; returns the index of the token whose row is read.
    /// `prompt` is the prompt's text, `index` the step's number from 1.
    pub(crate) fn write(
        &self,
        prompt: &str,
        step: &StepRef<'_>,
        index: usize,
        tokens: &mut Vec<u32>,
    ) -> Result<usize, WriteError> {
        match &self.mode {
            Mode::Text { anchor, after } => {
                let text = self.writer.step(step.text, index)?;
                // The first step comes after the prompt, so it is tokenised together with the
                // prompt's text.
                let (anchor, special) = if index == 1 {
                    (prompt, self.special)
                } else {
                    (anchor.as_str(), false)
                };
                let own = match continued(&self.tokenizer, anchor, special, &text)? {
                    Some(own) => own,
                    // The step's first token joins with the text before it. Its own tokens are a
                    // way to read it that does not depend on that text.
                    None => self.encode(&text)?,
                };
                tokens.extend(own);
                let read = tokens.len().saturating_sub(1);
                tokens.extend_from_slice(after);
                Ok(read)
            }
            Mode::Pieces {
                separator,
                split,
                shared,
                ..
            } => {
                if *shared && self.take_generators(step, separator[0], tokens) {
                    return Ok(tokens.len() - 1);
                }
                let text = self.writer.step(step.text, index)?;
                let parts: Vec<&str> = match split {
                    Some(separator) => text.split(separator.as_str()).collect(),
                    None => vec![&text],
                };
                for part in parts {
                    tokens.extend(self.encode(part)?);
                    tokens.extend_from_slice(separator);
                }
                Ok(tokens.len() - 1)
            }
        }
    }

    /// Appends the generator's tokens of a step if they end with the step token. The step token is
    /// added if the chain ended before its boundary. Returns `false` and appends nothing if the
    /// text has to be tokenised.
    fn take_generators(&self, step: &StepRef<'_>, end: u32, tokens: &mut Vec<u32>) -> bool {
        let mut own = step.tokens;
        if step.finish == Some(Finish::EndOfText) {
            // The end-of-text token has no text.
            own = &own[..own.len().saturating_sub(1)];
        }
        // A generator with a padded vocabulary may sample an id that the tokenizer does not have.
        let Some(&last) = own.last() else {
            return false;
        };
        if own.iter().any(|&id| id as usize >= self.tokenizer.len()) {
            return false;
        }
        let whole = last == end;
        // As text, the step would lose the white space at its end; its tokens would keep it.
        if !whole && step.text.trim_end() != step.text {
            return false;
        }
        tokens.extend_from_slice(own);
        if !whole {
            tokens.push(end);
        }
        true
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, WriteError> {
        Ok(self.tokenizer.encode(text, false)?)
    }

    /// Writes a small chain, so that faults of the spec are found before the first problem.
    fn probe(&self, tag: Option<&str>) -> Result<(), Fault> {
        let tag_id = match tag {
            Some(tag) => match self.encode(tag).map_err(in_step)?[..] {
                [id] => Some(id),
                ref ids => {
                    let reason = format!("{tag:?} is {} tokens of the model, not one", ids.len());
                    return Err(fault("step.tag", reason));
                }
            },
            None => None,
        };
        let (prompt, mut tokens) = self
            .open("What is 1 + 1?")
            .map_err(|error| fault("prompt", error.to_string()))?;
        let mut text = prompt.clone();
        for (i, step) in ["One and one.", "It is 2", "2"].into_iter().enumerate() {
            let step_ref = StepRef {
                text: step,
                tokens: &[],
                finish: None,
            };
            let before = tokens.len();
            let read = self
                .write(&prompt, &step_ref, i + 1, &mut tokens)
                .map_err(in_step)?;
            // Without tokens of its own, the step would be read at a token of the step before.
            if read < before {
                return Err(fault("step.text", "a step has no tokens"));
            }
            if tag_id.is_some_and(|id| id != tokens[read]) {
                let found = self.tokenizer.token(tokens[read]).unwrap_or_default();
                let tag = tag.unwrap_or_default();
                let reason = format!("a step's score would be read at {found:?}, not at {tag:?}");
                return Err(fault("step.tag", reason));
            }
            text += &self.writer.step(step, i + 1).map_err(in_step)?;
            if !self.question.is_empty() && matches!(self.mode, Mode::Text { .. }) {
                let asked = format!("{text}{}", self.writer.question());
                let asked = self.tokenizer.encode(&asked, self.special);
                let asked = asked.map_err(|error| in_step(error.into()))?;
                if asked.strip_prefix(&tokens[..=read]) != Some(&self.question[..]) {
                    let reason = "the tokenizer joins it with the step before it: begin it with a line break";
                    return Err(fault("step.question", reason));
                }
            }
            text += self.writer.after();
        }
        // Pieces are tokenised separately, so only in the mode `Text` must the steps add up to the
        // whole text.
        let as_one = self
            .tokenizer
            .encode(&text, self.special)
            .map_err(|error| in_step(error.into()))?;
        if matches!(self.mode, Mode::Text { .. }) && as_one != tokens {
            let reason = "the tokenizer does not cut a chain between its steps: \
                end the text in a token that never merges, or use tokenise = \"pieces\"";
            return Err(fault("step.tokenise", reason));
        }
        Ok(())
    }
}

fn encode(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, Fault> {
    let tokens = tokenizer.encode(text, false);
    tokens.map_err(|error| in_step(error.into()))
}

fn in_step(error: WriteError) -> Fault {
    fault("step", error.to_string())
}

/// Returns the tokens of `text` after `anchor`; `None` if a token belongs to both. Tokenised
/// without an anchor, `SentencePiece` would put a space before the text.
fn continued(
    tokenizer: &Tokenizer,
    anchor: &str,
    special: bool,
    text: &str,
) -> Result<Option<Vec<u32>>, WriteError> {
    let alone = tokenizer.encode(anchor, special)?;
    let both = tokenizer.encode(&format!("{anchor}{text}"), special)?;
    Ok(both.strip_prefix(alone.as_slice()).map(<[u32]>::to_vec))
}
