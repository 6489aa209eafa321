use std::sync::Arc;

use beamgen_engine::{ChatTemplate, TextLimit, Tokenizer};
use beamgen_search::{GenError, GeneratorConfig, thoughts};

use crate::error::Error;

/// A problem as a generator reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The tokens of the prompt.
    pub tokens: Vec<u32>,
    /// The tag of a thought that the prompt leaves open.
    pub thought: Option<&'static str>,
}

/// Refuses a problem and its system prompt if they cannot fit, without cutting them into tokens as
/// a whole.
///
/// # Errors
/// [`GenError::TextTooLong`]
pub fn check_text(limit: &TextLimit, problem: &str, system: Option<&str>) -> Result<(), GenError> {
    let texts = [problem, system.unwrap_or_default()];
    if limit.is_exceeded_by(&texts) {
        return Err(GenError::TextTooLong {
            bytes: texts.map(str::len).into_iter().sum(),
            context: limit.context(),
        });
    }
    Ok(())
}

/// Writes problems as prompts; needs no weights, so problems can be checked before a model is
/// loaded.
#[derive(Debug)]
pub struct Prompts {
    tokenizer: Arc<Tokenizer>,
    template: ChatTemplate,
    system: Option<String>,
    context: usize,
}

impl Prompts {
    /// The prompts of a generator with this tokenizer and these settings, whose model holds
    /// `context` tokens.
    ///
    /// # Errors
    /// The tokenizer names no end-of-text token, the chat template does not compile, or the date is
    /// none.
    pub fn new(
        tokenizer: Arc<Tokenizer>,
        context: usize,
        config: &GeneratorConfig,
    ) -> Result<Self, Error> {
        if tokenizer.eos_ids().is_empty() {
            return Err(Error::NoEndOfText);
        }
        let mut template = ChatTemplate::of(&tokenizer)?;
        if let Some(date) = &config.date {
            template.set_date(date)?;
        }
        Ok(Self {
            tokenizer,
            template,
            system: config.system_prompt.clone(),
            context,
        })
    }

    /// Whether prompts are written by the checkpoint's chat template; without one a prompt is the
    /// problem's text.
    pub fn has_chat_template(&self) -> bool {
        self.template.is_present()
    }

    /// The day that the template takes for today, if it asks.
    pub(crate) fn date(&self) -> Option<String> {
        self.template.date()
    }

    /// The longest texts that can be prompts.
    pub fn text_limit(&self) -> TextLimit {
        TextLimit::new(Arc::clone(&self.tokenizer), self.context)
    }

    /// The prompt of a problem.
    ///
    /// # Errors
    /// The template refuses it, or it leaves no room in the context.
    pub fn prompt(&self, problem: &str) -> Result<Prompt, GenError> {
        let system = self.system.as_deref();
        check_text(&self.text_limit(), problem, system)?;
        let text = self
            .template
            .prompt(system, problem)
            .map_err(|error| GenError::Prompt(error.to_string()))?;
        let special = !self.template.is_present();
        let tokens = self
            .tokenizer
            .encode(&text, special)
            .map_err(|error| GenError::Prompt(error.to_string()))?;
        if tokens.is_empty() {
            return Err(GenError::Prompt("it has no tokens".into()));
        }
        if tokens.len() >= self.context {
            return Err(GenError::PromptTooLong {
                tokens: tokens.len(),
                context: self.context,
            });
        }
        let thought = thoughts::opened_by(&text);
        Ok(Prompt { tokens, thought })
    }
}
