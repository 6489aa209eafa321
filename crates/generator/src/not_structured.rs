//! Grammars in a build without the feature `structured`: all are refused.

use beamgen_engine::Tokenizer;
use beamgen_search::{GenError, Grammar};

use crate::error::Error;
use crate::prompts::Prompt;

/// The vocabulary of a build that compiles no grammar; there is none.
#[derive(Debug)]
pub(crate) enum Vocabulary {}

impl Vocabulary {
    pub(crate) fn new(_: &Tokenizer) -> Result<Self, Error> {
        Err(Error::NoGrammars)
    }

    pub(crate) fn compile(&self, _: &Grammar) -> Result<Constraint, Error> {
        match *self {}
    }
}

/// The place of a text in a grammar; there is none.
#[derive(Debug)]
pub(crate) enum Constraint {}

impl Constraint {
    pub(crate) fn fork(&self) -> Self {
        match *self {}
    }

    pub(crate) fn after(&self, _: &Prompt) -> Result<Self, GenError> {
        match *self {}
    }

    pub(crate) fn allowed(&self) -> &[u32] {
        match *self {}
    }

    pub(crate) fn push(&mut self, _: u32) -> Result<(), String> {
        match *self {}
    }
}

/// Refuses every grammar.
///
/// # Errors
/// [`Error::NoGrammars`], always.
pub fn check_grammar(_: &Grammar) -> Result<(), Error> {
    Err(Error::NoGrammars)
}
