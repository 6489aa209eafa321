use std::sync::Arc;

use beamgen_engine::{ChatTemplate, TemplateError, TextLimit, Tokenizer};
use beamgen_search::{GenError, GeneratorConfig, GivenStep, Problem, thoughts};

use crate::cut::Cuts;
use crate::error::Error;

/// The prompt of a problem, as a generator reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The tokens of the prompt, and after them those of the given steps.
    pub tokens: Vec<u32>,
    /// The tag of a thought that the prompt opens and leaves open, such as `<think>`.
    pub thought: Option<&'static str>,
    /// The steps that the problem gives.
    pub given: Vec<GivenStep>,
}

impl Prompt {
    /// The number of tokens of the given steps.
    pub fn given_tokens(&self) -> usize {
        self.given.iter().map(|step| step.tokens.len()).sum()
    }
}

/// Refuses a problem whose texts (question, context, given steps, system prompt) cannot fit into
/// the context, without cutting them into tokens as a whole.
///
/// # Errors
/// [`GenError::TextTooLong`].
pub fn check_text(
    limit: &TextLimit,
    problem: &Problem,
    system: Option<&str>,
) -> Result<(), GenError> {
    let mut texts = vec![problem.text.as_str(), system.unwrap_or_default()];
    let given = problem.context.iter().chain(&problem.steps);
    texts.extend(given.map(String::as_str));
    if limit.is_exceeded_by(&texts) {
        return Err(GenError::TextTooLong {
            bytes: texts.iter().map(|text| text.len()).sum(),
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
    cuts: Cuts,
    max_chain_tokens: usize,
}

impl Prompts {
    /// Prepares the prompts of a generator with this tokenizer and these settings, whose model
    /// holds `context` tokens.
    ///
    /// # Errors
    /// If the tokenizer names no end-of-text token, the chat template does not compile, or the date
    /// is invalid.
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
            cuts: Cuts::of(config),
            max_chain_tokens: config.max_chain_tokens,
        })
    }

    /// Whether prompts are written by the checkpoint's chat template; without one a prompt is the
    /// problem's text.
    pub fn has_chat_template(&self) -> bool {
        self.template.is_present()
    }

    /// The date that the template writes, if it writes one.
    pub(crate) fn date(&self) -> Option<String> {
        self.template.date()
    }

    /// The limit on texts that can be prompts.
    pub fn text_limit(&self) -> TextLimit {
        TextLimit::new(Arc::clone(&self.tokenizer), self.context)
    }

    /// Writes the prompt of a problem and the steps that it gives, each followed by what ends it.
    ///
    /// # Errors
    /// If the template refuses the problem, or no token is left in the context or for the chain.
    pub fn prompt(&self, problem: &Problem) -> Result<Prompt, GenError> {
        let system = self.system.as_deref();
        // Before anything is tokenised: a text of gigabytes must not cost minutes.
        check_text(&self.text_limit(), problem, system)?;
        let text = self.text(problem, system);
        let text = text.map_err(|error| GenError::Prompt(error.to_string()))?;
        // A chat template writes its special tokens itself.
        let special = !self.template.is_present();
        let mut tokens = self.encode(&text, special)?;
        if tokens.is_empty() {
            return Err(GenError::Prompt("it has no tokens".into()));
        }
        let mut given = Vec::new();
        if !problem.steps.is_empty() {
            let steps = problem.steps.iter().map(|step| self.cuts.ended(step));
            let steps: Vec<String> = steps.collect();
            let written = steps.concat();
            // A chain samples after the tokens of the prompt, so those must not change when the
            // steps are tokenised with it.
            let whole = self.encode(&[&text, written.as_str()].concat(), special)?;
            let after = match whole.strip_prefix(&tokens[..]) {
                Some(after) => after.to_vec(),
                None => self.encode(&written, false)?,
            };
            given = match self.divided(&after, &steps) {
                Some(given) => given,
                None => self.apart(steps)?,
            };
            tokens.extend(given.iter().flat_map(|step| &step.tokens));
        }
        if tokens.len() >= self.context {
            return Err(GenError::PromptTooLong {
                tokens: tokens.len(),
                context: self.context,
            });
        }
        let prompt = Prompt {
            tokens,
            thought: thoughts::opened_by(&text),
            given,
        };
        let (given, most) = (prompt.given_tokens(), self.max_chain_tokens);
        // Without given steps, a chain always has room for one token.
        if given > 0 && given >= most {
            return Err(GenError::GivenTooLong {
                given,
                what: "tokens of steps",
                most,
                setting: "max_chain_tokens",
            });
        }
        Ok(prompt)
    }

    /// Writes the prompt as text. A template that takes documents gets the context as documents,
    /// another gets it before the question.
    fn text(&self, problem: &Problem, system: Option<&str>) -> Result<String, TemplateError> {
        let (template, context) = (&self.template, &problem.context);
        if !context.is_empty()
            && let Some(text) = template.prompt_with_documents(system, &problem.text, context)?
        {
            return Ok(text);
        }
        template.prompt(system, &problem.with_context())
    }

    fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, GenError> {
        let tokens = self.tokenizer.encode(text, special);
        tokens.map_err(|error| GenError::Prompt(error.to_string()))
    }

    /// Steps with the tokens of each step by itself.
    fn apart(&self, steps: Vec<String>) -> Result<Vec<GivenStep>, GenError> {
        let given = steps.into_iter().map(|text| {
            Ok(GivenStep {
                tokens: self.encode(&text, false)?,
                text,
                tokens_match_text: false,
            })
        });
        given.collect()
    }

    /// The tokens of each step, if all of them together stand for the text of the steps. A token
    /// that holds the end of one step and the beginning of the next belongs to the first.
    fn divided(&self, tokens: &[u32], steps: &[String]) -> Option<Vec<GivenStep>> {
        let (mut at, mut end, mut written) = (0, 0, Vec::new());
        let mut given = Vec::new();
        for text in steps {
            let (first, leftover) = (at, written.len() > end);
            end += text.len();
            while written.len() < end {
                // Missing tokens end the attempt: the tokens do not stand for the steps' text.
                written.extend_from_slice(self.tokenizer.token_bytes(*tokens.get(at)?));
                at += 1;
            }
            given.push(GivenStep {
                text: text.clone(),
                tokens: tokens[first..at].to_vec(),
                tokens_match_text: !leftover && written.len() == end,
            });
        }
        let is_text = at == tokens.len() && written == steps.concat().into_bytes();
        is_text.then_some(given)
    }
}
