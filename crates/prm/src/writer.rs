//! Prompts and segments as text.

use std::path::Path;

use beamgen_engine::{ChatTemplate, Ending, Message, Template, TemplateError, Tokenizer};
use minijinja::context;
use serde::Serialize;

use crate::error::Error;
use crate::label::without_label;
use crate::spec::PrmSpec;

/// A field of a spec that cannot be run with a checkpoint.
#[derive(Debug)]
pub(crate) struct Fault {
    pub field: &'static str,
    pub reason: String,
}

impl Fault {
    /// Turns the fault into an error about the checkpoint `model`.
    pub(crate) fn unfit(self, spec: &PrmSpec, model: &Path) -> Error {
        Error::Unfit {
            spec: spec.name.clone(),
            field: self.field,
            model: model.to_owned(),
            reason: self.reason,
        }
    }
}

pub(crate) fn fault(field: &'static str, reason: impl Into<String>) -> Fault {
    let reason = reason.into();
    Fault { field, reason }
}

/// A problem or a step that cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("{field}: {source}")]
    Template {
        field: &'static str,
        source: TemplateError,
    },
    #[error(transparent)]
    Chat(#[from] TemplateError),
    #[error("the chat template does not write the assistant's turn")]
    NoTurn,
    #[error(transparent)]
    Tokenizer(#[from] beamgen_engine::Error),
}

/// A placeholder for text that is inserted later. Private-use characters: no template writes or
/// trims them.
const PLACE: &str = "\u{e5f0}\u{e5f1}";
/// A placeholder for the verdict, which is the assistant's turn.
const VERDICT: &str = "\u{e5f2}\u{e5f3}";

const PROMPT: &str = "prompt.text";
const FIRST: &str = "step.first";
const TEXT: &str = "step.text";
const TURNS: &str = "step.turns";
const QUESTION: &str = "step.question";

/// The templates of a spec, and the fixed texts that they write around a step.
#[derive(Debug)]
pub(crate) struct Writer {
    text: Template,
    /// The template of the first step, if it differs from the others.
    first_text: Option<Template>,
    prompt: Prompt,
    bos: Option<String>,
    /// Whether a template numbers the steps; labels in the steps' own texts are then removed.
    numbered: bool,
    /// The tag that the template writes after a step, unless it is white space. If a step's text
    /// ends with the tag, the tag is removed first, so that it is not there twice.
    tag: Option<String>,
    /// The fixed text before a step's own text.
    before: String,
    /// The fixed text after a step's own text.
    behind: String,
    /// With turns: the texts before and after the first step. The prompt contains the beginning of
    /// its template.
    first: Option<(String, String)>,
    /// The text after the place where the score is read.
    after: String,
    /// The text between the step's own text and the place where the score is read, or where the
    /// question begins.
    tail: String,
    /// The text that is read after a step, up to the place where the score is read, and then
    /// removed.
    question: String,
    cut: Cut,
    /// White space at the end of every step that is written before the next step and before the
    /// question instead.
    moved: String,
    /// The texts of a chat that no template of a step writes; `None` if the prompt is not a chat.
    spoken: Option<Spoken>,
}

/// A message of a chat in which a server judges a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JudgeMessage {
    /// `system`, `user` or `assistant`.
    pub role: &'static str,
    /// The text of the message.
    pub content: String,
}

impl JudgeMessage {
    fn new(role: &'static str, content: impl Into<String>) -> Self {
        let content = content.into();
        Self { role, content }
    }
}

#[derive(Debug)]
struct Spoken {
    system: Option<String>,
    verdict: String,
    question: Option<String>,
    lead: Option<String>,
}

/// The place where white space between two parts of a chain is cut, which depends on the tokenizer:
/// some make one token of a sentence's end and the line breaks after it, others make a token of the
/// last line break only if a word follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Line breaks belong to the part before them, and only spaces to the next part.
    WithPrevious,
    /// The last line break before the first step, and all white space after a step that a question
    /// follows, belong to the next part.
    WithNext,
}

impl Cut {
    pub(crate) const ALL: [Self; 2] = [Self::WithPrevious, Self::WithNext];

    /// Returns the white space at the end of a prompt that belongs to the first step.
    fn of_next(self, text: &str) -> &str {
        let spaces = text.trim_end_matches(' ').len();
        let last = text.char_indices().next_back();
        match (self, last) {
            (Self::WithNext, Some((at, last))) if last != ' ' && last.is_whitespace() => {
                &text[at..]
            }
            _ => &text[spaces..],
        }
    }
}

#[derive(Debug)]
enum Prompt {
    /// The template of the spec.
    Text(Box<Template>),
    /// The chat template, rendered up to the content of the assistant's turn.
    Chat(Box<Chat>),
    /// The text before the content of the first user's turn.
    Turns(String),
}

/// A chat whose assistant's turn is the chain.
#[derive(Debug)]
struct Chat {
    template: ChatTemplate,
    system: Option<String>,
    /// The question, which is the user's turn after the chain, and the answer to it.
    asked: Option<(String, String)>,
}

impl Chat {
    /// Renders the chat with these contents of the user's and the assistant's turn.
    fn render(&self, problem: &str, chain: &str) -> Result<String, TemplateError> {
        let system = self.system.as_deref().map(Message::system);
        let turns = [Message::user(problem), Message::assistant(chain)];
        let asked = self.asked.iter();
        let asked = asked
            .flat_map(|(question, answer)| [Message::user(question), Message::assistant(answer)]);
        let messages: Vec<_> = system.into_iter().chain(turns).chain(asked).collect();
        self.template.render(&messages, Ending::Closed)
    }

    /// Returns the text between the chain and the answer to the question; empty if nothing is
    /// asked.
    fn question(&self) -> Result<String, Fault> {
        if self.asked.is_none() {
            return Ok(String::new());
        }
        let text = self.render("x", PLACE);
        let text = text.map_err(|error| fault(QUESTION, error.to_string()))?;
        let question = text
            .rsplit_once(PLACE)
            .and_then(|(_, rest)| rest.split_once(VERDICT));
        let (question, _) = question
            .ok_or_else(|| fault(QUESTION, "the chat template does not write every turn"))?;
        Ok(question.to_owned())
    }
}

impl Writer {
    pub(crate) fn new(spec: &PrmSpec, tokenizer: &Tokenizer, cut: Cut) -> Result<Self, Fault> {
        let step = &spec.step;
        let prompt_text = compile_optional(PROMPT, spec.prompt.text.as_deref())?;
        let first_text = compile_optional(FIRST, step.first.as_deref())?;
        let text = compile(TEXT, &step.text)?;
        let numbered = prompt_text
            .iter()
            .chain(&first_text)
            .chain([&text])
            .any(|template| template.uses("index"));
        let bos = tokenizer.special_token("bos_token");
        let (prompt, turns) = match prompt_text {
            Some(template) if bos.is_none() && needs_bos(&template) => {
                let reason = "writes {{ bos }}, but the model's tokenizer names no bos_token: name it in \
                    tokenizer_config.json, or write {{ bos | default('') }} if the model was trained without";
                return Err(fault(PROMPT, reason));
            }
            Some(template) => (Prompt::Text(Box::new(template)), None),
            None => {
                let chat = Self::chat_template(spec, tokenizer)?;
                if step.turns {
                    (Prompt::Turns(String::new()), Some(chat))
                } else {
                    let lead = step.lead.as_deref().unwrap_or_default();
                    let question = step.question.as_ref();
                    let chat = Chat {
                        template: chat,
                        system: spec.prompt.system.clone(),
                        asked: question.map(|text| (text.clone(), format!("{lead}{VERDICT}"))),
                    };
                    (Prompt::Chat(Box::new(chat)), None)
                }
            }
        };
        let question = match &prompt {
            Prompt::Chat(chat) => chat.question()?,
            Prompt::Text(_) => step.question.clone().unwrap_or_default(),
            Prompt::Turns(_) => String::new(),
        };
        let mut writer = Self {
            text,
            first_text,
            prompt,
            bos: bos.map(str::to_owned),
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
            question,
            cut,
            moved: String::new(),
            spoken: spec.prompt.text.is_none().then(|| Spoken {
                system: spec.prompt.system.clone(),
                verdict: step.verdict.clone().unwrap_or_default(),
                question: step.question.clone(),
                lead: step.lead.clone(),
            }),
        };
        if let Some(chat) = turns {
            let answer = format!("{}{VERDICT}", step.lead.as_deref().unwrap_or_default());
            writer.cut_turns(&chat, spec.prompt.system.as_deref(), &answer)?;
        }
        let (_, tail) = writer.around("", 2)?;
        let white = tail[tail.trim_end().len()..].to_owned();
        if cut == Cut::WithNext && !step.turns && !writer.question.is_empty() {
            writer.question.insert_str(0, &white);
            writer.moved = white;
        }
        let tail = tail.strip_suffix(&writer.moved).unwrap_or(&tail);
        writer.tail = format!("{tail}{}", writer.behind);
        Ok(writer)
    }

    fn chat_template(spec: &PrmSpec, tokenizer: &Tokenizer) -> Result<ChatTemplate, Fault> {
        let mut template =
            ChatTemplate::of(tokenizer).map_err(|error| fault("prompt", error.to_string()))?;
        if let Some(date) = &spec.prompt.date {
            let set = template.set_date(date);
            set.map_err(|error| fault("prompt.date", error.to_string()))?;
        }
        if !template.is_present() {
            let reason = "the model has no chat template: write the prompt as `prompt.text`";
            return Err(fault("prompt", reason));
        }
        Ok(template)
    }

    /// Renders chats with one to three turns, to find the texts that the chat template writes
    /// around turns. `answer` is the assistant's turn.
    fn cut_turns(
        &mut self,
        chat: &ChatTemplate,
        system: Option<&str>,
        answer: &str,
    ) -> Result<(), Fault> {
        let render = |turns: usize| {
            let messages: Vec<Message<'_>> = system
                .map(Message::system)
                .into_iter()
                .chain(
                    [Message::user(PLACE), Message::assistant(answer)]
                        .into_iter()
                        .cycle()
                        .take(2 * turns),
                )
                .collect();
            chat.render(&messages, Ending::Closed)
                .map_err(|error| fault(TURNS, error.to_string()))
        };
        let dropped = || fault(TURNS, "the chat template does not write every turn");
        let other = || fault(TURNS, "the chat template does not write all turns alike");
        let (one, two, three) = (render(1)?, render(2)?, render(3)?);
        let (head, rest) = one.split_once(PLACE).ok_or_else(dropped)?;
        let (last, close) = rest.split_once(VERDICT).ok_or_else(dropped)?;
        // The second chat shows an earlier turn, and what is between two turns. Some templates
        // write the last answer in another way, as with an empty thought in Qwen3's.
        let rest = two
            .strip_prefix(head)
            .and_then(|two| two.strip_prefix(PLACE));
        let (kept, rest) = rest
            .and_then(|rest| rest.split_once(VERDICT))
            .ok_or_else(other)?;
        let (between, _) = rest.split_once(PLACE).ok_or_else(dropped)?;
        let before = between.strip_prefix(close).ok_or_else(other)?;
        let ending = format!("{PLACE}{last}{VERDICT}{close}");
        let earlier = format!("{PLACE}{kept}{VERDICT}{between}");
        if two != format!("{head}{earlier}{ending}")
            || three != format!("{head}{earlier}{earlier}{ending}")
        {
            return Err(other());
        }
        // A score is read where the answer is the last turn. What only the last turn has is
        // removed afterwards.
        let both = shared(kept, last);
        let (behind, after) = kept.split_at(both);
        self.question = last[both..].to_owned();
        self.after = format!("{after}{}{close}", self.after);
        self.prompt = Prompt::Turns(head.to_owned());
        self.before = before.to_owned();
        self.behind = behind.to_owned();
        let (lead, tail) = self.around("", 1)?;
        // The prompt ends before these spaces: a tokenizer puts them into the first token of the
        // step.
        self.first = Some((self.cut.of_next(&lead).to_owned(), tail));
        Ok(())
    }

    /// Returns the template of step `index` and its field in the spec, for messages.
    fn template(&self, index: usize) -> (&'static str, &Template) {
        match &self.first_text {
            Some(first) if index == 1 => (FIRST, first),
            _ => (TEXT, &self.text),
        }
    }

    /// Returns the texts that a template writes before and after the step's own text.
    fn around(&self, problem: &str, index: usize) -> Result<(String, String), Fault> {
        let (field, _) = self.template(index);
        let text = self
            .step_text(problem, PLACE, index)
            .map_err(|error| fault(field, error.to_string()))?;
        let (before, behind) = text
            .split_once(PLACE)
            .ok_or_else(|| fault(field, "does not write {{ step }}"))?;
        Ok((before.to_owned(), behind.to_owned()))
    }

    fn step_text(&self, problem: &str, step: &str, index: usize) -> Result<String, WriteError> {
        // The problem belongs to the prompt, which only turns share with their first step.
        let values = if let Prompt::Turns(_) = self.prompt {
            context! { problem, step, index }
        } else {
            context! { step, index }
        };
        let (field, template) = self.template(index);
        template
            .render(values, problem.len() + step.len())
            .map_err(|source| WriteError::Template { field, source })
    }

    /// Returns the text before the first step's segment.
    pub(crate) fn prompt(&self, problem: &str) -> Result<String, WriteError> {
        match &self.prompt {
            Prompt::Text(template) => {
                let values = if let Some(bos) = &self.bos {
                    context! { problem, bos }
                } else {
                    context! { problem }
                };
                template
                    .render(values, problem.len())
                    .map_err(|source| WriteError::Template {
                        field: PROMPT,
                        source,
                    })
            }
            Prompt::Chat(chat) => {
                let mut text = chat.render(problem, PLACE)?;
                // The last placeholder is the assistant's turn, even if the problem contains the
                // same characters.
                let end = text.rfind(PLACE).ok_or(WriteError::NoTurn)?;
                text.truncate(end);
                Ok(text)
            }
            Prompt::Turns(head) => {
                let text = self.step_text(problem.trim(), PLACE, 1)?;
                let begun = text.rfind(PLACE).map_or("", |at| &text[..at]);
                // A space at the end belongs to the first token of the step, so it is left to the
                // step's segment.
                let begun = &begun[..begun.len() - self.cut.of_next(begun).len()];
                Ok(format!("{head}{begun}"))
            }
        }
    }

    /// Returns the chat at whose end the score of the last of `steps` is read: in the answer to it,
    /// or where its last message continues if that is the assistant's. `None` if the prompt is not
    /// a chat.
    pub(crate) fn messages(
        &self,
        problem: &str,
        steps: &[&str],
    ) -> Result<Option<Vec<JudgeMessage>>, WriteError> {
        let Some(spoken) = &self.spoken else {
            return Ok(None);
        };
        let texts = steps.iter().enumerate();
        let texts = texts.map(|(i, step)| self.step_text(problem.trim(), self.own(step), i + 1));
        let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
        let system = spoken.system.as_ref();
        let mut messages: Vec<JudgeMessage> = system
            .map(|system| JudgeMessage::new("system", system))
            .into_iter()
            .collect();
        if matches!(self.prompt, Prompt::Turns(_)) {
            for (i, text) in texts.into_iter().enumerate() {
                if i > 0 {
                    let lead = spoken.lead.as_deref().unwrap_or_default();
                    let answer = format!("{lead}{}", spoken.verdict);
                    messages.push(JudgeMessage::new("assistant", answer));
                }
                messages.push(JudgeMessage::new("user", text));
            }
        } else {
            messages.push(JudgeMessage::new("user", problem));
            messages.push(JudgeMessage::new("assistant", texts.concat()));
            let question = spoken.question.iter();
            messages.extend(question.map(|question| JudgeMessage::new("user", question)));
        }
        let lead = spoken.lead.iter();
        messages.extend(lead.map(|lead| JudgeMessage::new("assistant", lead)));
        Ok(Some(messages))
    }

    /// Returns a step's own text, as the templates write it.
    fn own<'a>(&self, step: &'a str) -> &'a str {
        let mut step = step.trim();
        let untagged = self.tag.as_deref().and_then(|tag| step.strip_suffix(tag));
        // A step that is only the tag keeps it: an empty step has no score.
        if let Some(rest) = untagged.map(str::trim_end).filter(|rest| !rest.is_empty()) {
            step = rest;
        }
        if self.numbered {
            step = without_label(step);
        }
        step
    }

    /// Returns the segment of a step up to the place where its score is read; `index` is from 1.
    pub(crate) fn step(&self, step: &str, index: usize) -> Result<String, WriteError> {
        let step = self.own(step);
        let (before, behind) = (&self.before, &self.behind);
        match &self.first {
            Some((lead, tail)) if index == 1 => Ok(format!("{lead}{step}{tail}{behind}")),
            _ => {
                let text = self.step_text("", step, index)?;
                let text = text.strip_suffix(&self.moved).unwrap_or(&text);
                let moved = if index == 1 { "" } else { &self.moved };
                Ok(format!("{before}{moved}{text}{behind}"))
            }
        }
    }

    /// Returns the segment's text after the place where the score is read.
    pub(crate) fn after(&self) -> &str {
        &self.after
    }

    /// Returns the text that is read after a step, and then removed.
    pub(crate) fn question(&self) -> &str {
        &self.question
    }

    /// Returns the text between any step's own text and the place where its score is read, or where
    /// the question begins.
    pub(crate) fn tail(&self) -> &str {
        &self.tail
    }

    /// Whether the prompt's text already contains special tokens, as texts of chat templates do.
    pub(crate) fn writes_special_tokens(&self) -> bool {
        !matches!(self.prompt, Prompt::Text(_))
    }
}

fn compile(field: &'static str, source: &str) -> Result<Template, Fault> {
    // Strict: a misspelt variable is an error and not an empty text.
    Template::strict("the template", source).map_err(|error| fault(field, error.to_string()))
}

fn compile_optional(field: &'static str, source: Option<&str>) -> Result<Option<Template>, Fault> {
    source.map(|source| compile(field, source)).transpose()
}

/// Whether a prompt's template fails without `bos` but not with it.
fn needs_bos(template: &Template) -> bool {
    let problem = "";
    template.uses("bos")
        && template.render(context! { problem }, 0).is_err()
        && template.render(context! { problem, bos => "" }, 0).is_ok()
}

/// Returns the length of the text with which both begin, up to the end of a line or of a special
/// token if they differ: a token must not span the two.
fn shared(a: &str, b: &str) -> usize {
    if a == b {
        return a.len();
    }
    let same = a
        .char_indices()
        .zip(b.chars())
        .take_while(|((_, a), b)| a == b);
    let same = same.last().map_or(0, |((at, c), _)| at + c.len_utf8());
    a[..same].rfind(['\n', '>']).map_or(0, |at| at + 1)
}
