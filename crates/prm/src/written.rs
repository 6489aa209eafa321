//! Whole chains as tokens, for training and for comparisons with a model's own code.

use std::path::Path;
use std::sync::Arc;

use beamgen_engine::Tokenizer;
use beamgen_search::{Cause, ScoreError, StepRef};

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
            let read = self
                .write(&prompt.text, step, i + 1, &mut written.tokens)
                .map_err(|error| ScoreError::Failed(Cause::new(error)))?;
            written.read_at.push(read);
        }
        Ok(written)
    }
}

/// Steps that are not empty, without tokens of a generator.
pub(crate) fn steps_of<'a>(texts: &[&'a str]) -> Vec<StepRef<'a>> {
    texts
        .iter()
        .filter(|text| !text.trim().is_empty())
        .map(|&text| StepRef {
            text,
            tokens: &[],
            finish: None,
        })
        .collect()
}
