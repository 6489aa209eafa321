use std::sync::Arc;

use beamgen_engine::{ChatTemplate, Ending, Message, TextLimit, Tokenizer};
use beamgen_search::{GenError, GeneratorConfig, GivenStep, Problem, Role, thoughts};

use crate::cut::Cuts;
use crate::error::Error;

/// The prompt of a problem, as a generator reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The tokens of the prompt, and after them those of the given steps and of `begun`.
    pub tokens: Vec<u32>,
    /// The tag of a thought that the prompt opens and leaves open, such as `<think>`.
    pub thought: Option<&'static str>,
    /// The steps that the problem gives, those of its prefix included.
    pub given: Vec<GivenStep>,
    /// The rest of the prefix: the beginning of the next step.
    pub begun: String,
    /// The number of tokens of `begun`.
    pub begun_tokens: usize,
}

impl Prompt {
    /// The number of tokens of the given steps and of `begun`.
    pub fn given_tokens(&self) -> usize {
        let steps: usize = self.given.iter().map(|step| step.tokens.len()).sum();
        steps + self.begun_tokens
    }

    /// The tokens of the given steps and of `begun`.
    pub fn given_ids(&self) -> &[u32] {
        &self.tokens[self.tokens.len() - self.given_tokens()..]
    }
}

/// Refuses a problem whose texts (question, context, turns, tools, given steps, prefix, system
/// prompt) cannot fit into the context, without cutting them into tokens as a whole.
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
    texts.extend(given.chain([&problem.prefix]).map(String::as_str));
    texts.extend(problem.turns.iter().map(|turn| turn.content.as_str()));
    let tools: Vec<String> = problem.tools.iter().map(ToString::to_string).collect();
    texts.extend(tools.iter().map(String::as_str));
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

    /// Returns the source of the checkpoint's chat template.
    pub fn chat_template(&self) -> Option<&str> {
        self.tokenizer.chat_template()
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
        let text = self.text(problem, system)?;
        // A chat template writes its special tokens itself.
        let special = !self.template.is_present();
        let mut tokens = self.encode(&text, special)?;
        if tokens.is_empty() {
            return Err(GenError::Prompt("it has no tokens".into()));
        }
        let (mut given, mut begun, mut begun_tokens) = (Vec::new(), String::new(), 0);
        if !problem.steps.is_empty() || !problem.prefix.is_empty() {
            let steps = problem.steps.iter().map(|step| self.cuts.ended(step));
            let mut steps: Vec<String> = steps.collect();
            let mut rest = problem.prefix.as_str();
            while let Some(end) = self.cuts.find(rest.as_bytes(), 0) {
                // Marks are whole characters, so they end and begin between characters.
                let (step, after) = rest.split_at(end);
                steps.push(step.to_owned());
                rest = after;
            }
            // Tokenised as one more step, so that its tokens are found as theirs are.
            if !rest.is_empty() {
                steps.push(rest.to_owned());
            }
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
            if !rest.is_empty()
                && let Some(last) = given.pop()
            {
                (begun, begun_tokens) = (last.text, last.tokens.len());
            }
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
            begun,
            begun_tokens,
        };
        let (given, most) = (prompt.given_tokens(), self.max_chain_tokens);
        // Without given steps, a chain always has room for one token.
        if given > 0 && given >= most {
            return Err(GenError::GivenTooLong {
                given,
                what: if problem.prefix.is_empty() {
                    "tokens of steps"
                } else {
                    "tokens of steps and prefix"
                },
                most,
                setting: "max_chain_tokens",
            });
        }
        Ok(prompt)
    }

    /// Writes the prompt as text. A template that takes documents gets the context as documents,
    /// another gets it before the question.
    fn text(&self, problem: &Problem, system: Option<&str>) -> Result<String, GenError> {
        let refused = |error: beamgen_engine::TemplateError| GenError::Prompt(error.to_string());
        let (template, context, tools) = (&self.template, &problem.context, &problem.tools);
        let turns = problem.turns.iter().map(|turn| match turn.role {
            Role::User => Message::user(&turn.content),
            Role::Assistant => Message::assistant(&turn.content),
        });
        let before: Vec<_> = system
            .map(Message::system)
            .into_iter()
            .chain(turns)
            .collect();
        let messages = |question| [&before[..], &[Message::user(question)]].concat();
        if !tools.is_empty() {
            let bare = messages(&problem.text);
            let written = template.prompt_with_tools(&bare, tools).map_err(refused)?;
            if written.is_none() {
                return Err(GenError::Prompt(
                    "the model has no chat template that writes `tools`: leave them out, or use a model trained with tools".into(),
                ));
            }
        }
        if !context.is_empty() {
            let bare = messages(&problem.text);
            let written = template.prompt_with_documents(&bare, context, tools);
            if let Some(text) = written.map_err(refused)? {
                return Ok(text);
            }
        }
        let question = problem.question();
        let messages = messages(&question);
        if !tools.is_empty()
            && let Some(text) = template
                .prompt_with_tools(&messages, tools)
                .map_err(refused)?
        {
            return Ok(text);
        }
        template
            .render(&messages, Ending::Generation)
            .map_err(refused)
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
