//! Prompts and segments as text.

use beamgen_engine::{ChatTemplate, Ending, Message, Tokenizer};
use minijinja::{Environment, UndefinedBehavior, Value, context};

use crate::label::without_label;
use crate::spec::PrmSpec;

/// A field of a spec that cannot be run with a checkpoint.
#[derive(Debug)]
pub(crate) struct Fault {
    pub field: &'static str,
    pub reason: String,
}

pub(crate) fn fault(field: &'static str, reason: impl Into<String>) -> Fault {
    let reason = reason.into();
    Fault { field, reason }
}

/// Stands where something is written later. Private-use characters: no template writes them, and
/// none trims them.
const PLACE: &str = "\u{e5f0}\u{e5f1}";
const VERDICT: &str = "\u{e5f2}\u{e5f3}";

const PROMPT: &str = "prompt.text";
const FIRST: &str = "step.first";
const TEXT: &str = "step.text";

/// Writes prompts and steps.
#[derive(Debug)]
pub(crate) struct Writer {
    jinja: Environment<'static>,
    prompt: Prompt,
    bos: String,
    has_first: bool,
    /// The family numbers the steps itself.
    numbered: bool,
    /// What the family ends a step with, where it shows; a step may bring it along.
    tag: Option<String>,
    /// Fixed texts before and behind a step's own.
    before: String,
    behind: String,
    /// With turns: the same for the first step, whose template the prompt has begun.
    first: Option<(String, String)>,
    /// Behind the place where the score is read.
    after: String,
    /// Behind the step's own text, up to the next segment.
    tail: String,
}

#[derive(Debug)]
enum Prompt {
    Plain,
    /// Up to where the assistant's turn has its content.
    Chat(Box<ChatTemplate>, Option<String>),
    /// What stands before the first user's content.
    Turns(String),
}

impl Writer {
    pub fn new(spec: &PrmSpec, tokenizer: &Tokenizer) -> Result<Self, Fault> {
        let mut jinja = Environment::new();
        jinja.set_keep_trailing_newline(true);
        jinja.set_undefined_behavior(UndefinedBehavior::Strict);
        let step = &spec.step;
        let sources = [
            (PROMPT, spec.prompt.text.as_ref()),
            (FIRST, step.first.as_ref()),
            (TEXT, Some(&step.text)),
        ];
        let mut numbered = false;
        for (name, source) in sources {
            let Some(source) = source else { continue };
            jinja
                .add_template_owned(name, source.clone())
                .map_err(|error| fault(name, error.to_string()))?;
            let template = jinja
                .get_template(name)
                .map_err(|error| fault(name, error.to_string()))?;
            numbered |= template.undeclared_variables(false).contains("index");
        }
        let mut writer = Self {
            jinja,
            prompt: Prompt::Plain,
            bos: tokenizer.bos_token().unwrap_or_default().to_owned(),
            has_first: step.first.is_some(),
            numbered,
            tag: step
                .tag
                .as_deref()
                .map(str::trim)
                .filter(|tag| !tag.is_empty())
                .map(str::to_owned),
            before: String::new(),
            behind: String::new(),
            first: None,
            after: step.verdict.clone().unwrap_or_default(),
            tail: String::new(),
        };
        if spec.prompt.text.is_none() {
            let mut template =
                ChatTemplate::of(tokenizer).map_err(|error| fault("prompt", error.to_string()))?;
            if let Some(date) = &spec.prompt.date {
                let set = template.set_date(date);
                set.map_err(|error| fault("prompt.date", error.to_string()))?;
            }
            if !template.writes_special_tokens() {
                let reason = "the model has no chat template; write the prompt as `prompt.text`";
                return Err(fault("prompt", reason));
            }
            if step.turns {
                writer.cut_turns(&template, spec.prompt.system.as_deref())?;
            } else {
                writer.prompt = Prompt::Chat(Box::new(template), spec.prompt.system.clone());
            }
        }
        let (_, tail) = writer.around(TEXT, "", 2)?;
        writer.tail = tail + &writer.behind;
        Ok(writer)
    }

    /// Finds out what the chat template writes around turns.
    fn cut_turns(&mut self, chat: &ChatTemplate, system: Option<&str>) -> Result<(), Fault> {
        let broken = |reason: &str| fault("step.turns", reason);
        let render = |turns: usize| {
            let messages: Vec<Message<'_>> = system
                .map(Message::system)
                .into_iter()
                .chain(
                    [Message::user(PLACE), Message::assistant(VERDICT)]
                        .into_iter()
                        .cycle()
                        .take(2 * turns),
                )
                .collect();
            chat.render(&messages, Ending::Closed)
                .map_err(|error| fault("step.turns", format!("the chat template says: {error}")))
        };
        let dropped = || broken("the chat template does not write every turn");
        let (one, two, three) = (render(1)?, render(2)?, render(3)?);
        let (head, rest) = one.split_once(PLACE).ok_or_else(dropped)?;
        let (behind, close) = rest.split_once(VERDICT).ok_or_else(dropped)?;
        let (before, end) = two
            .strip_prefix(one.as_str())
            .and_then(|next| next.split_once(PLACE))
            .ok_or_else(|| {
                broken("the chat template writes a turn in another way once more follow")
            })?;
        let segment = format!("{before}{PLACE}{behind}{VERDICT}{close}");
        if end != format!("{behind}{VERDICT}{close}") || three != format!("{two}{segment}") {
            return Err(broken("the chat template does not write all turns alike"));
        }
        self.prompt = Prompt::Turns(head.to_owned());
        self.before = before.to_owned();
        self.behind = behind.to_owned();
        self.after = format!("{}{close}", self.after);
        let (lead, tail) = self.around(self.first_template(), "", 1)?;
        self.first = Some((spaces(&lead).to_owned(), tail));
        Ok(())
    }

    fn first_template(&self) -> &'static str {
        if self.has_first { FIRST } else { TEXT }
    }

    /// What a template writes before and behind the step.
    fn around(
        &self,
        name: &'static str,
        problem: &str,
        index: usize,
    ) -> Result<(String, String), Fault> {
        let text = self
            .step_text(name, problem, PLACE, index)
            .map_err(|reason| fault(name, reason))?;
        let (before, behind) = text
            .split_once(PLACE)
            .ok_or_else(|| fault(name, "does not write {{ step }}"))?;
        Ok((before.to_owned(), behind.to_owned()))
    }

    fn step_text(
        &self,
        name: &str,
        problem: &str,
        step: &str,
        index: usize,
    ) -> Result<String, String> {
        // The problem belongs to the prompt, which only turns share with their first step.
        let values = match self.prompt {
            Prompt::Turns(_) => context! { problem, step, index },
            _ => context! { step, index },
        };
        self.render(name, values)
    }

    fn render(&self, name: &str, values: Value) -> Result<String, String> {
        self.jinja
            .get_template(name)
            .and_then(|template| template.render(values))
            .map_err(|error| match error.detail() {
                Some(detail) => format!("{}: {detail}", error.kind()),
                None => error.to_string(),
            })
    }

    /// Everything before the first step's segment.
    pub fn prompt(&self, problem: &str) -> Result<String, String> {
        match &self.prompt {
            Prompt::Plain => {
                let bos = &self.bos;
                self.render(PROMPT, context! { problem, bos })
            }
            Prompt::Chat(template, system) => {
                let system = system.as_deref().map(Message::system);
                let turns = [Message::user(problem), Message::assistant(PLACE)];
                let messages: Vec<_> = system.into_iter().chain(turns).collect();
                let mut text = template.render(&messages, Ending::Closed)?;
                let end = text
                    .rfind(PLACE)
                    .ok_or("the chat template does not write the assistant's turn")?;
                text.truncate(end);
                Ok(text)
            }
            Prompt::Turns(head) => {
                let name = self.first_template();
                let text = self.step_text(name, problem.trim(), PLACE, 1)?;
                let begun = text.rfind(PLACE).map_or("", |at| &text[..at]);
                // A space belongs to the word behind it.
                let begun = &begun[..begun.len() - spaces(begun).len()];
                Ok(format!("{head}{begun}"))
            }
        }
    }

    /// A step's segment up to where its score is read; `index` is from 1.
    pub fn step(&self, step: &str, index: usize) -> Result<String, String> {
        let mut step = step.trim();
        let untagged = self.tag.as_deref().and_then(|tag| step.strip_suffix(tag));
        if let Some(rest) = untagged.map(str::trim_end).filter(|rest| !rest.is_empty()) {
            step = rest;
        }
        if self.numbered {
            step = without_label(step);
        }
        let (before, behind) = (&self.before, &self.behind);
        match &self.first {
            Some((lead, tail)) if index == 1 => Ok(format!("{lead}{step}{tail}{behind}")),
            _ => {
                let name = if index == 1 {
                    self.first_template()
                } else {
                    TEXT
                };
                let text = self.step_text(name, "", step, index)?;
                Ok(format!("{before}{text}{behind}"))
            }
        }
    }

    /// The segment's text behind the place where the score is read.
    pub fn after(&self) -> &str {
        &self.after
    }

    /// What stands behind every step's own text, up to where its score is read.
    pub fn tail(&self) -> &str {
        &self.tail
    }

    /// Whether the prompt has its special tokens written out.
    pub fn writes_special_tokens(&self) -> bool {
        !matches!(self.prompt, Prompt::Plain)
    }
}

fn spaces(text: &str) -> &str {
    &text[text.trim_end_matches(' ').len()..]
}
