//! Steps as the reward model's tokens.

use beamgen_engine::Tokenizer;
use beamgen_search::{Finish, ScoreError, StepRef};

/// How steps are written down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepTokens {
    /// Ends every step.
    pub step_token: u32,
    /// The generator's tokens are this model's.
    pub shared: bool,
}

impl StepTokens {
    /// Appends a step to `tokens`, the step token last.
    ///
    /// The generator's tokens are taken as they are if they mean the same here and either end
    /// in the step token or only lack it (the chain ended before its boundary). In all other cases
    /// the text is tokenised anew.
    pub fn write(
        &self,
        step: &StepRef<'_>,
        tokenizer: &Tokenizer,
        tokens: &mut Vec<u32>,
    ) -> Result<(), ScoreError> {
        let mut own = step.tokens;
        if step.finish == Some(Finish::EndOfText) {
            // The end-of-text token has no text.
            own = &own[..own.len().saturating_sub(1)];
        }
        let text = step.text.trim();
        // A generator with a padded vocabulary may sample an id that is nobody's token.
        let shared = self.shared && own.iter().all(|&id| (id as usize) < tokenizer.len());
        if shared && own.last() == Some(&self.step_token) {
            tokens.extend_from_slice(own);
            return Ok(());
        }
        if shared && !own.is_empty() && step.text.trim_end() == step.text {
            tokens.extend_from_slice(own);
        } else {
            let ids = tokenizer
                .encode(text, false)
                .map_err(|error| ScoreError::Failed(error.to_string()))?;
            tokens.extend(ids);
        }
        tokens.push(self.step_token);
        Ok(())
    }
}
