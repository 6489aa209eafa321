use std::sync::Arc;

use beamgen_engine::{ChatTemplate, Ending, Message, TextLimit, Tokenizer};
use beamgen_search::{GenError, GeneratorConfig, GivenStep, Problem, Role, ThinkingConfig};

use crate::cut::Cuts;
use crate::error::Error;
use crate::thinking::{Progress, Tags, ThinkingPlan, no_thought, switch_of, tags_of};

/// The prompt of a problem as tokens, with the given text after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The tokens of the prompt, then of the given steps, then of `begun`.
    pub tokens: Vec<u32>,
    /// The tag of a thought that the prompt leaves open, such as `<think>`.
    pub thought: Option<String>,
    /// The part of the chain that its first token belongs to.
    pub progress: Progress,
    /// The given steps of the problem, and after them the whole steps of its prefix.
    pub given: Vec<GivenStep>,
    /// The rest of the prefix, with which the next step begins.
    pub begun: String,
    /// The number of tokens of `begun`, the last of `tokens`.
    pub begun_tokens: usize,
}

impl Prompt {
    /// Returns the number of tokens of the given steps and of `begun`.
    pub fn given_tokens(&self) -> usize {
        let steps: usize = self.given.iter().map(|step| step.tokens.len()).sum();
        steps + self.begun_tokens
    }

    /// Returns the tokens of the given steps and of `begun`.
    pub fn given_ids(&self) -> &[u32] {
        &self.tokens[self.tokens.len() - self.given_tokens()..]
    }
}

/// Refuses a problem whose texts (question, context, turns, tools, given steps, prefix, system
/// prompt) cannot fit into the context. The texts are not tokenised as a whole for that.
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
    thinking: Arc<ThinkingPlan>,
    /// The settings of thoughts in effect.
    thinking_config: ThinkingConfig,
    /// How thoughts are turned off, if they are.
    off: Option<Off>,
}

/// The ways to turn the thoughts of a model off.
#[derive(Debug)]
struct Off {
    tags: Tags,
    /// The chat template with thoughts turned on, if it has a switch for them.
    on: Option<ChatTemplate>,
}

impl Prompts {
    /// Prepares prompts for a tokenizer and settings; the model has a context of `context` tokens.
    ///
    /// # Errors
    /// The tokenizer names no end-of-text token, the chat template does not compile, or the date is
    /// invalid.
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
        let source = tokenizer.chat_template();
        let own = tags_of(&config.thinking, source);
        let mut variables = config.chat_template_kwargs.clone();
        let off = match &own {
            Some(tags) if config.thinking.budget == Some(0) => {
                let switch = switch_of(source).filter(|name| !variables.contains_key(*name));
                variables.extend(switch.map(|name| (name.to_owned(), false.into())));
                let mut on = switch.map(|_| ChatTemplate::of(&tokenizer)).transpose()?;
                if let (Some(on), Some(name)) = (&mut on, switch) {
                    let mut variables = variables.clone();
                    variables.insert(name.to_owned(), true.into());
                    on.set_variables(variables)
                        .map_err(|name| Error::Variable { name })?;
                }
                let tags = tags.clone();
                Some(Off { tags, on })
            }
            _ => None,
        };
        template
            .set_variables(variables)
            .map_err(|name| Error::Variable { name })?;
        let (thinking, thinking_config) =
            ThinkingPlan::new(&config.thinking, own, config.max_chain_tokens, &tokenizer)?;
        Ok(Self {
            thinking: Arc::new(thinking),
            thinking_config,
            off,
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

    /// Returns the source of the checkpoint's chat template; `None` without one.
    pub fn chat_template(&self) -> Option<&str> {
        self.tokenizer.chat_template()
    }

    /// Returns the date that the template writes; `None` if it writes none.
    pub(crate) fn date(&self) -> Option<String> {
        self.template.date()
    }

    /// Returns the tags, limits and steps of thoughts.
    pub(crate) fn thinking(&self) -> &Arc<ThinkingPlan> {
        &self.thinking
    }

    /// Returns the settings of thoughts in effect.
    pub fn thinking_config(&self) -> &ThinkingConfig {
        &self.thinking_config
    }

    /// Returns the limit that the texts of a problem have to keep.
    pub fn text_limit(&self) -> TextLimit {
        TextLimit::new(Arc::clone(&self.tokenizer), self.context)
    }

    /// Writes the prompt of a problem and its given steps, each with a boundary at its end.
    ///
    /// # Errors
    /// The template refuses the problem, or no token is left in the context or for the chain.
    pub fn prompt(&self, problem: &Problem) -> Result<Prompt, GenError> {
        let system = self.system.as_deref();
        // Before anything is tokenised: a text of gigabytes would take minutes.
        check_text(&self.text_limit(), problem, system)?;
        let mut text = text_of(&self.template, problem, system)?;
        self.turn_off(&mut text, problem, system)?;
        let (mut progress, thought) = match self.off {
            Some(_) => (Progress::start(), None),
            None => self.thinking.after(&text),
        };
        // A chat template writes special tokens itself, so the tokenizer must not add them again.
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
                // Marks consist of whole characters, so the split is between characters.
                let (step, after) = rest.split_at(end);
                steps.push(step.to_owned());
                rest = after;
            }
            // The rest is treated as one more step, so that its tokens are found in the same way.
            if !rest.is_empty() {
                steps.push(rest.to_owned());
            }
            let written = steps.concat();
            // The chain samples after the prompt's own tokens. Tokenised together with the steps,
            // these tokens must be the same; otherwise the steps are tokenised separately.
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
            for step in &mut given {
                let (thinking, tokenizer) = (&self.thinking, &*self.tokenizer);
                step.thought = thinking.given(&mut progress, &step.text, &step.tokens, tokenizer);
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
            thought,
            progress,
            given,
            begun,
            begun_tokens,
        };
        let (given, most) = (prompt.given_tokens(), self.max_chain_tokens);
        // Without given tokens a chain has room for at least one token.
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

    /// Appends the text that keeps a model from thinking, if thoughts are off and the template has
    /// no switch for that.
    fn turn_off(
        &self,
        text: &mut String,
        problem: &Problem,
        system: Option<&str>,
    ) -> Result<(), GenError> {
        let Some(Off { tags, on }) = &self.off else {
            return Ok(());
        };
        let is_closed = text.trim_end().ends_with(&tags.close);
        let is_open = text.trim_end().ends_with(&tags.open);
        // A switch that changes the prompt is trusted to turn thoughts off.
        let is_switched = match on {
            Some(on) if !is_closed && !is_open => *text != text_of(on, problem, system)?,
            _ => false,
        };
        if !is_closed && !is_switched {
            text.push_str(&no_thought(tags, text));
        }
        Ok(())
    }

    fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, GenError> {
        let tokens = self.tokenizer.encode(text, special);
        tokens.map_err(|error| GenError::Prompt(error.to_string()))
    }

    /// Tokenises each step separately.
    fn apart(&self, steps: Vec<String>) -> Result<Vec<GivenStep>, GenError> {
        let given = steps.into_iter().map(|text| {
            Ok(GivenStep {
                tokens: self.encode(&text, false)?,
                text,
                tokens_match_text: false,
                thought: None,
            })
        });
        given.collect()
    }

    /// Divides `tokens` among the steps, if together they are exactly the steps' text; `None`
    /// otherwise. A token with the end of one step and the beginning of the next belongs to the
    /// first.
    fn divided(&self, tokens: &[u32], steps: &[String]) -> Option<Vec<GivenStep>> {
        let (mut at, mut end, mut written) = (0, 0, Vec::new());
        let mut given = Vec::new();
        for text in steps {
            let (first, leftover) = (at, written.len() > end);
            end += text.len();
            while written.len() < end {
                // If tokens are missing, they do not stand for the text of the steps.
                written.extend_from_slice(self.tokenizer.token_bytes(*tokens.get(at)?));
                at += 1;
            }
            given.push(GivenStep {
                text: text.clone(),
                tokens: tokens[first..at].to_vec(),
                tokens_match_text: !leftover && written.len() == end,
                thought: None,
            });
        }
        let is_text = at == tokens.len() && written == steps.concat().into_bytes();
        is_text.then_some(given)
    }
}

/// Writes the prompt as text. The context becomes the template's documents if the template
/// takes documents; otherwise it is put before the question.
fn text_of(
    template: &ChatTemplate,
    problem: &Problem,
    system: Option<&str>,
) -> Result<String, GenError> {
    let refused = |error: beamgen_engine::TemplateError| GenError::Prompt(error.to_string());
    let (context, tools) = (&problem.context, &problem.tools);
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
