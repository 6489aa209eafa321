//! Replaces the module for grammars in builds without the feature `structured`: all grammars are
//! refused.

use beamgen_engine::Tokenizer;
use beamgen_search::{GenError, Grammar};

use crate::error::Error;
use crate::prompts::Prompt;

/// The vocabulary for grammars. It has no value, since this build compiles no grammar.
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

/// The state of a grammar. It has no value, since this build compiles no grammar.
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

/// Refuses every grammar, since this build was made without the feature `structured`.
///
/// # Errors
/// Always [`Error::NoGrammars`].
pub fn check_grammar(_: &Grammar) -> Result<(), Error> {
    Err(Error::NoGrammars)
}
