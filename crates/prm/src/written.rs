//! Whole chains as tokens, for training and for comparisons with a model's own code.

use std::path::Path;
use std::sync::Arc;

use beamgen_engine::Tokenizer;
use beamgen_search::{Cause, ScoreError, StepRef, steps_of};

use crate::error::Error;
use crate::segments::ChainWriter;
use crate::spec::PrmSpec;
use crate::writer::JudgeMessage;

/// A chain as the reward model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The tokens of the prompt and of the segments of all steps.
    pub tokens: Vec<u32>,
    /// Index of the token at which each step's score is read. If the format asks a question, it is
    /// read after this token ([`ChainWriter::question`]).
    pub read_at: Vec<usize>,
    /// Index of the first token of each step.
    pub starts: Vec<usize>,
}

impl ChainWriter {
    /// Makes a writer for the tokenizer of `model`, which is a path for error messages.
    ///
    /// # Errors
    /// [`Error::Spec`], or [`Error::Unfit`] if the tokenizer cannot write the spec's texts.
    pub fn new(spec: &PrmSpec, tokenizer: Arc<Tokenizer>, model: &Path) -> Result<Self, Error> {
        spec.check()?;
        Self::fitted(spec, tokenizer).map_err(|fault| fault.unfit(spec, model))
    }

    /// Returns a chain as tokens. Blank texts are no steps and are left out.
    ///
    /// # Errors
    /// The problem or a step cannot be written.
    pub fn written(&self, problem: &str, steps: &[&str]) -> Result<Written, ScoreError> {
        let (prompt, tokens) = self.open_scored(problem)?;
        let mut written = Written {
            tokens,
            read_at: Vec::new(),
            starts: Vec::new(),
        };
        for (i, step) in steps_of(steps).iter().enumerate() {
            written.starts.push(written.tokens.len());
            let read = self.append(&prompt, step, i + 1, &mut written.tokens)?;
            written.read_at.push(read);
        }
        Ok(written)
    }

    /// Returns the prompt of a problem as text and as tokens, for a model with a context of
    /// `context` tokens.
    ///
    /// # Errors
    /// The problem cannot be written, or is certainly longer than the context.
    pub fn prompt(&self, problem: &str, context: usize) -> Result<(String, Vec<u32>), ScoreError> {
        self.check_problem(problem, context)?;
        self.open_scored(problem)
    }

    /// Returns the chat at whose end a server judges the last of `steps`: by its answer, or by the
    /// continuation of the last message if that is the assistant's. `None` if the format writes its
    /// prompt itself.
    ///
    /// # Errors
    /// The problem or a step cannot be written.
    pub fn messages(
        &self,
        problem: &str,
        steps: &[&str],
    ) -> Result<Option<Vec<JudgeMessage>>, ScoreError> {
        let messages = self.chat_messages(problem, steps);
        messages.map_err(|error| ScoreError::Failed(Cause::new(error)))
    }

    fn open_scored(&self, problem: &str) -> Result<(String, Vec<u32>), ScoreError> {
        let opened = self.open(problem);
        opened.map_err(|error| ScoreError::Prompt(error.to_string()))
    }

    /// Appends step number `index`, from 1, to the `tokens` of a chain whose prompt has the text
    /// `prompt`. Returns the index of the token at which the step's score is read.
    ///
    /// # Errors
    /// The step is blank or cannot be written.
    pub fn append(
        &self,
        prompt: &str,
        step: &StepRef<'_>,
        index: usize,
        tokens: &mut Vec<u32>,
    ) -> Result<usize, ScoreError> {
        // Without tokens of its own, a step would be read at the last token of the step before.
        if step.text.trim().is_empty() {
            return Err(ScoreError::Failed("an empty step cannot be scored".into()));
        }
        let read = self.write(prompt, step, index, tokens);
        read.map_err(|error| ScoreError::Failed(Cause::new(error)))
    }
}
