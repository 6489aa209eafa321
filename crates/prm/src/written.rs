//! Whole chains as tokens, for training and for comparisons with a model's own code.

use std::path::Path;
use std::sync::Arc;

use beamgen_engine::Tokenizer;
use beamgen_search::{Cause, ScoreError, StepRef, steps_of};

use crate::error::Error;
use crate::segments::Segments;
use crate::spec::PrmSpec;

/// A chain as the reward model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Prompt and segments.
    pub tokens: Vec<u32>,
    /// Index of the token at which each step's score is read.
    pub read_at: Vec<usize>,
}

/// Writes chains as a [`RewardModel`](crate::RewardModel) of the same spec reads them, without its
/// weights.
#[derive(Debug)]
pub struct ChainWriter {
    segments: Segments,
}

impl ChainWriter {
    /// A writer for the tokenizer of `model`, a path for messages.
    ///
    /// # Errors
    /// [`Error::Spec`], or [`Error::Unfit`] if the tokenizer cannot write what the spec asks for.
    pub fn new(spec: &PrmSpec, tokenizer: Arc<Tokenizer>, model: &Path) -> Result<Self, Error> {
        spec.check()?;
        let segments = Segments::new(spec, tokenizer).map_err(|fault| Error::Unfit {
            spec: spec.name.clone(),
            field: fault.field,
            model: model.to_owned(),
            reason: fault.reason,
        })?;
        Ok(Self { segments })
    }

    /// A chain as tokens. Empty steps are no steps and have no place in it.
    ///
    /// # Errors
    /// The problem or a step cannot be written.
    pub fn written(&self, problem: &str, steps: &[&str]) -> Result<Written, ScoreError> {
        self.segments.written(problem, steps)
    }

    /// The prompt of a problem: its text and its tokens, for a model that holds `context` tokens.
    ///
    /// # Errors
    /// The problem cannot be written, or is longer than any that fits.
    pub fn prompt(&self, problem: &str, context: usize) -> Result<(String, Vec<u32>), ScoreError> {
        self.segments.check_problem(problem, context)?;
        let prompt = self.segments.open(problem);
        let prompt = prompt.map_err(|error| ScoreError::Prompt(error.to_string()))?;
        Ok((prompt.text, prompt.tokens))
    }

    /// Refuses steps that are longer than any that fit into `context` tokens.
    ///
    /// # Errors
    /// [`ScoreError::TextTooLong`].
    pub fn check_steps(&self, steps: &[StepRef<'_>], context: usize) -> Result<(), ScoreError> {
        self.segments.check_steps(steps, context)
    }

    /// Appends a step to the `tokens` of a chain, whose prompt has the text `prompt`; it is the
    /// step with the number `index`, from 1. Returns the index of the token at which its score is
    /// read.
    ///
    /// # Errors
    /// The step is empty or cannot be written.
    pub fn append(
        &self,
        prompt: &str,
        step: &StepRef<'_>,
        index: usize,
        tokens: &mut Vec<u32>,
    ) -> Result<usize, ScoreError> {
        self.segments.append(prompt, step, index, tokens)
    }

    /// See [`RewardModel::share_tokens`](crate::RewardModel::share_tokens).
    pub fn share_tokens(&mut self, same_tokenizer: bool) {
        self.segments.share(same_tokenizer);
    }
}

impl Segments {
    pub(crate) fn written(&self, problem: &str, steps: &[&str]) -> Result<Written, ScoreError> {
        let prompt = self
            .open(problem)
            .map_err(|error| ScoreError::Prompt(error.to_string()))?;
        let mut written = Written {
            tokens: prompt.tokens,
            read_at: Vec::new(),
        };
        for (i, step) in steps_of(steps).iter().enumerate() {
            let read = self.append(&prompt.text, step, i + 1, &mut written.tokens)?;
            written.read_at.push(read);
        }
        Ok(written)
    }

    /// See [`ChainWriter::append`].
    pub(crate) fn append(
        &self,
        prompt: &str,
        step: &StepRef<'_>,
        index: usize,
        tokens: &mut Vec<u32>,
    ) -> Result<usize, ScoreError> {
        if step.text.trim().is_empty() {
            return Err(ScoreError::Failed("an empty step cannot be scored".into()));
        }
        let read = self.write(prompt, step, index, tokens);
        read.map_err(|error| ScoreError::Failed(Cause::new(error)))
    }
}
