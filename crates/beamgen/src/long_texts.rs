//! Checks whether the texts of requests fit into the models' contexts, before requests reach the
//! engine's thread.

use beamgen_engine::TextLimit;
use beamgen_generator::check_text;
use beamgen_search::{GenError, ScoreError};

use crate::request::Request;

/// The limits of texts by the models' contexts. A limit is `None` if this process does not run the
/// model, so that its tokenizer is unknown.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextLimits {
    pub(crate) generator: Option<TextLimit>,
    pub(crate) scorer: Option<TextLimit>,
}

impl TextLimits {
    /// Fails if the prompt of a problem cannot fit into the generator's context.
    pub(crate) fn check_request(&self, request: &Request) -> Result<(), GenError> {
        let system = request.settings.generator.system_prompt.as_deref();
        match &self.generator {
            Some(limit) => check_text(limit, &request.problem, system),
            None => Ok(()),
        }
    }

    /// Fails if a chain and its problem cannot fit into the scorer's context.
    pub(crate) fn check_chain(&self, problem: &str, steps: &[String]) -> Result<(), ScoreError> {
        let Some(limit) = &self.scorer else {
            return Ok(());
        };
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let texts = [&[problem], steps.as_slice()].concat();
        if limit.is_exceeded_by(&texts) {
            return Err(ScoreError::text_too_long(problem, &steps, limit.context()));
        }
        Ok(())
    }
}
