//! Thoughts: where one begins and ends in a chain, its limit, and the text that closes it.

use std::sync::Arc;

use beamgen_engine::Tokenizer;
use beamgen_search::{ThinkingConfig, Thought, ThoughtSteps, USUAL_BUDGET, thoughts};

use crate::error::Error;

/// The variables by which chat templates turn thoughts off.
const SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];

/// The text between two paragraphs of a thought.
pub(crate) const PARAGRAPH: &str = "\n\n";

/// The tags of thoughts of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tags {
    pub open: String,
    pub close: String,
}

/// Settings of thoughts as they act.
#[derive(Debug)]
pub struct ThinkingPlan {
    /// The tags that may begin a chain; the first ones are those of the model, if it has any.
    tags: Vec<Tags>,
    /// For each of `tags`, the tokens that close a thought at its limit.
    closing: Vec<Arc<[u32]>>,
    /// The most sampled tokens of a thought.
    budget: usize,
    /// Whether the tokens of a thought count for the length of the chain.
    pub shares_limit: bool,
    /// The tokens that are kept for the answer.
    reserve: usize,
    /// The rule that divides thoughts into steps.
    pub steps: ThoughtSteps,
}

/// The part of a chain that its next token belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Neither a thought nor an answer has begun.
    Start,
    /// A thought.
    Thought,
    /// The answer.
    Answer,
}

/// The phase of a chain, and the tokens of its thought so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The part of the chain that its next token belongs to.
    pub phase: Phase,
    /// The place of the thought's tags in the plan's list; 0 before a thought.
    tags: usize,
    /// The number of tokens of the thought, with those that closed it.
    pub thought_tokens: usize,
    /// Whether the thought has to end at its next token.
    pub is_late: bool,
}

impl Progress {
    /// Returns the progress at the beginning of a chain.
    pub(crate) fn start() -> Self {
        Self {
            phase: Phase::Start,
            tags: 0,
            thought_tokens: 0,
            is_late: false,
        }
    }
}

/// Returns the tags of a model: those of the settings, or those that the chat template names.
pub(crate) fn tags_of(config: &ThinkingConfig, template: Option<&str>) -> Option<Tags> {
    let tags = |open: &str, close: &str| Tags {
        open: open.to_owned(),
        close: close.to_owned(),
    };
    if let (Some(open), Some(close)) = (&config.open, &config.close) {
        return Some(tags(open, close));
    }
    let template = template?;
    let mut known = thoughts::TAGS.iter();
    // The tags of gpt-oss are put together in its template, so their beginning is looked for.
    let named = known.find(|(open, close)| {
        let channel = open.starts_with("<|channel|>") && template.contains("<|channel|>analysis");
        channel || template.contains(open) || template.contains(close)
    });
    named.map(|&(open, close)| tags(open, close))
}

/// Returns the variable by which a chat template turns thoughts off.
pub(crate) fn switch_of(template: Option<&str>) -> Option<&'static str> {
    let template = template?;
    SWITCHES.into_iter().find(|name| {
        let mut words = template.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        words.any(|word| word == *name)
    })
}

impl ThinkingPlan {
    /// Resolves settings for a model with these tags of its own; `max_chain_tokens` limits the
    /// answer. Returns the settings in effect, too.
    ///
    /// # Errors
    /// The text that closes thoughts cannot be tokenised.
    pub(crate) fn new(
        config: &ThinkingConfig,
        own: Option<Tags>,
        max_chain_tokens: usize,
        tokenizer: &Tokenizer,
    ) -> Result<(Self, ThinkingConfig), Error> {
        let mut resolved = config.clone();
        let thinks = own.is_some();
        if thinks {
            resolved.budget.get_or_insert(USUAL_BUDGET);
        }
        let reserve = config.answer_reserve.min(max_chain_tokens);
        let known = thoughts::TAGS.iter().map(|&(open, close)| Tags {
            open: open.to_owned(),
            close: close.to_owned(),
        });
        let mut tags: Vec<Tags> = own.into_iter().collect();
        for other in known {
            if !tags.contains(&other) {
                tags.push(other);
            }
        }
        let mut closing = Vec::with_capacity(tags.len());
        let mut kept = Vec::with_capacity(tags.len());
        for tags in tags {
            let text = closing_text(config, &tags);
            let tokens = tokenizer.encode(&text, false).unwrap_or_default();
            let bytes = tokens.iter().flat_map(|&id| tokenizer.token_bytes(id));
            // A vocabulary may lack a letter. Then no thought with these tags can be closed, so
            // none is looked for.
            if bytes.eq(text.as_bytes()) {
                closing.push(tokens.into());
                kept.push(tags);
            } else if thinks && kept.is_empty() {
                return Err(Error::NoClosing { text });
            }
        }
        let plan = Self {
            closing,
            tags: kept,
            budget: match resolved.budget {
                Some(budget) => budget,
                None => max_chain_tokens - reserve.min(max_chain_tokens / 2),
            },
            shares_limit: config.shares_limit || resolved.budget.is_none(),
            reserve,
            steps: config.steps,
        };
        Ok((plan, resolved))
    }

    /// Returns the progress of a chain after a prompt, and the tag that the prompt leaves open.
    pub(crate) fn after(&self, prompt: &str) -> (Progress, Option<String>) {
        let prompt = prompt.trim_end();
        let mut tags = self.tags.iter();
        let Some(at) = tags.position(|tags| prompt.ends_with(&tags.open)) else {
            return (Progress::start(), None);
        };
        let progress = Progress {
            phase: Phase::Thought,
            tags: at,
            ..Progress::start()
        };
        (progress, Some(self.tags[at].open.clone()))
    }

    /// Returns the texts that may end a step of a thought.
    pub(crate) fn marks(&self, progress: Progress) -> Vec<String> {
        let close = self.tags[progress.tags].close.clone();
        match self.steps {
            ThoughtSteps::Paragraphs => vec![close, PARAGRAPH.to_owned()],
            ThoughtSteps::None | ThoughtSteps::Tokens(_) => vec![close],
        }
    }

    /// Returns the tokens that close a thought at its limit.
    pub(crate) fn closing(&self, progress: Progress) -> &Arc<[u32]> {
        &self.closing[progress.tags]
    }

    /// Returns the number of tokens that a thought may still sample. `left` is the number of tokens
    /// that the chain may still have, for thought and answer.
    pub(crate) fn room(&self, progress: Progress, left: usize) -> usize {
        // In a short context the answer's reserve must not take all room of the thought.
        let whole = left + progress.thought_tokens;
        let kept = self.reserve.min(whole / 2) + self.closing(progress).len();
        let budget = self.budget.saturating_sub(progress.thought_tokens);
        budget.min(left.saturating_sub(kept))
    }

    /// Returns the most tokens of a step that begins in the phase `progress` and whose answer part
    /// has at most `spoken` tokens. `left` is the number of tokens that the chain may still have.
    pub(crate) fn longest_step(&self, progress: Progress, spoken: usize, left: usize) -> usize {
        let may_think = match progress.phase {
            Phase::Answer => false,
            // The chain of a model that thinks may begin with a thought.
            Phase::Start => !self.shares_limit,
            Phase::Thought => true,
        };
        if !may_think {
            return spoken.min(left);
        }
        let (thought, closing) = (self.room(progress, left), self.closing(progress).len());
        let thought = match self.steps {
            ThoughtSteps::Tokens(most) => thought.min(most),
            ThoughtSteps::None | ThoughtSteps::Paragraphs => thought,
        };
        (thought + closing).saturating_add(spoken).min(left)
    }

    /// Whether a token with these bytes is one of the tags. Its text belongs to the chain, even if
    /// the tokenizer marks the token as special.
    pub(crate) fn is_tag(&self, token: &[u8]) -> bool {
        let mut own = self.tags.iter().flat_map(|tags| [&tags.open, &tags.close]);
        thoughts::is_tag(token) || own.any(|tag| tag.as_bytes() == token)
    }

    /// Reads the bytes of a step and updates the progress of its chain and the thought at its
    /// beginning. The first `seen` bytes are known.
    pub(crate) fn read(
        &self,
        progress: &mut Progress,
        bytes: &[u8],
        seen: usize,
        thought: &mut Option<Thought>,
    ) {
        let mut from = seen;
        if progress.phase == Phase::Start {
            progress.phase = self.begun(bytes, &mut progress.tags);
            if progress.phase == Phase::Thought {
                let blank = bytes.len() - bytes.trim_ascii_start().len();
                from = blank + self.tags[progress.tags].open.len();
                thought.get_or_insert_default().open = from;
            }
        }
        if progress.phase != Phase::Thought {
            return;
        }
        let thought = thought.get_or_insert_default();
        thought.bytes = bytes.len();
        let close = self.tags[progress.tags].close.as_bytes();
        // The tag may have begun in the bytes that are known.
        let from = from.saturating_sub(close.len() - 1).max(thought.open);
        let mut windows = bytes[from.min(bytes.len())..].windows(close.len());
        if let Some(at) = windows.position(|window| window == close) {
            thought.bytes = from + at + close.len();
            thought.close = close.len();
            progress.phase = Phase::Answer;
        }
    }

    /// Returns the phase of a chain whose text so far is `bytes`, and sets the place of its tags.
    fn begun(&self, bytes: &[u8], at: &mut usize) -> Phase {
        let text = bytes.trim_ascii_start();
        let opens = |tags: &Tags| text.starts_with(tags.open.as_bytes());
        if let Some(tags) = self.tags.iter().position(opens) {
            *at = tags;
            return Phase::Thought;
        }
        let may_open = |tags: &Tags| tags.open.as_bytes().starts_with(text);
        if self.tags.iter().any(may_open) {
            Phase::Start
        } else {
            Phase::Answer
        }
    }

    /// Returns the length of `bytes`, the text of a step in a thought, without the beginning of a
    /// closing tag at their end.
    pub(crate) fn before_tag(&self, progress: Progress, bytes: &[u8]) -> usize {
        let close = self.tags[progress.tags].close.as_bytes();
        let most = (close.len() - 1).min(bytes.len());
        let begun = (1..=most).rev().find(|&n| bytes.ends_with(&close[..n]));
        bytes.len() - begun.unwrap_or_default()
    }

    /// Returns the thought at the beginning of a given step with these tokens, and updates the
    /// progress of its chain.
    pub(crate) fn given(
        &self,
        progress: &mut Progress,
        text: &str,
        tokens: &[u32],
        tokenizer: &Tokenizer,
    ) -> Option<Thought> {
        let mut thought = None;
        self.read(progress, text.as_bytes(), 0, &mut thought);
        let thought: &mut Thought = thought.as_mut()?;
        let mut written = 0;
        thought.tokens = tokens.len();
        if thought.bytes < text.len() {
            let ends = tokens.iter().map(|&id| {
                written += tokenizer.token_bytes(id).len();
                written
            });
            let before = ends.take_while(|&end| end < thought.bytes).count();
            thought.tokens = tokens.len().min(before + 1);
        }
        progress.thought_tokens += thought.tokens;
        Some(*thought)
    }
}

/// Returns the text that closes a thought at its limit: the message, the closing tag and a blank
/// line, with which published models begin their answers.
fn closing_text(config: &ThinkingConfig, tags: &Tags) -> String {
    [&config.message, &tags.close, after(tags)].concat()
}

/// Returns the text after a closing tag. A channel of gpt-oss needs none.
fn after(tags: &Tags) -> &'static str {
    if tags.close.ends_with("<|message|>") {
        ""
    } else {
        "\n\n"
    }
}

/// Returns the text after a prompt that keeps the model from thinking: the end of the thought that
/// the prompt opens, or an empty thought.
pub(crate) fn no_thought(tags: &Tags, prompt: &str) -> String {
    let after = after(tags);
    if prompt.trim_end().ends_with(&tags.open) {
        let line = if prompt.ends_with('\n') { "\n" } else { "\n\n" };
        return [line, &tags.close, after].concat();
    }
    [&tags.open, "\n\n", &tags.close, after].concat()
}
