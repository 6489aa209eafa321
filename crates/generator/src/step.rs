//! A step that is being decoded, and the rules for its end.

use beamgen_engine::{Sampled, Tokenizer};
use beamgen_search::{
    Border, ChainId, DecodeMode, Finish, StepOutput, StepPlan, Thought, ThoughtSteps, TokenLogprob,
    TokenLogprobs,
};

use crate::cut::whole_characters;
use crate::plan::WritingPlan;
use crate::stops::Shown;
use crate::thinking::{Phase, Progress};

/// The tokens of a step so far.
#[derive(Debug, Clone)]
pub struct Step {
    /// The token limit of the step, its random stream and its mode.
    pub plan: StepPlan,
    /// The tokens of the step so far.
    pub tokens: Vec<u32>,
    /// The part of the chain that the next token belongs to.
    pub progress: Progress,
    /// The thought at the beginning of the step.
    thought: Option<Thought>,
    /// The leftover bytes of the step before, then the bytes of `tokens`; the last character may be
    /// incomplete.
    bytes: Vec<u8>,
    /// The number of leftover bytes at the beginning of `bytes`; they belong to a token of the step
    /// before.
    leftover: usize,
    /// The number of bytes at the beginning of `bytes` that come from the problem's prefix.
    given: usize,
    logprob: f64,
    /// Log-probabilities of each of `tokens`; empty if the settings do not ask for them.
    token_logprobs: Vec<TokenLogprobs>,
}

/// The state of a step after a token was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The step needs further tokens.
    GoesOn,
    /// The step has reached the length at which its plan pauses it.
    Paused,
    /// The thought has reached its limit: the words that close it have to follow.
    ThoughtOver,
    /// The step is closed; the value says where and why.
    Closed(Closing),
}

/// The end of a step: its position and its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closing {
    /// The reason why the chain ends with the step; `None` if the chain continues.
    pub finish: Option<Finish>,
    border: Border,
    /// The number of bytes that belong to the step; bytes after them are left over.
    end: usize,
}

impl Step {
    /// Begins a step in the phase `progress` with the leftover bytes of the step before. The first
    /// `given` of them come from the problem's prefix.
    pub fn new(
        plan: StepPlan,
        leftover: Vec<u8>,
        given: usize,
        progress: Progress,
        settings: &WritingPlan,
    ) -> Self {
        let mut step = Self {
            plan,
            tokens: Vec::new(),
            progress,
            thought: None,
            leftover: leftover.len(),
            bytes: leftover,
            given,
            logprob: 0.0,
            token_logprobs: Vec::new(),
        };
        step.read_phase(0, settings);
        step
    }

    /// Returns the end of the step if the leftover bytes already hold a whole step: a token may
    /// contain the ends of two steps.
    pub fn is_leftover_step(&self, settings: &WritingPlan) -> Option<Closing> {
        let shown = self.shown(settings, 0)?;
        let finish = shown.stops.then_some(Finish::Stop);
        Some(closed_at(shown.end, finish, Border::Boundary))
    }

    fn read_phase(&mut self, seen: usize, settings: &WritingPlan) {
        if self.progress.phase != Phase::Answer {
            let thinking = &settings.thinking;
            thinking.read(&mut self.progress, &self.bytes, seen, &mut self.thought);
        }
    }

    fn shown(&self, settings: &WritingPlan, seen: usize) -> Option<Shown> {
        let stops = &settings.stops;
        // The marks between the steps of an answer, and those of a thought, hold in their own part.
        let thought = self.thought_bytes();
        let is_whole = self.progress.phase == Phase::Answer;
        if thought > 0 && settings.thinking.steps != ThoughtSteps::None {
            let cuts = match settings.thinking.steps {
                ThoughtSteps::Paragraphs => &settings.paragraphs,
                _ => &settings.no_cuts,
            };
            let shown = stops.find(cuts, &self.bytes[..thought], self.given, seen);
            // The closing tag ends a step.
            let end = is_whole.then_some(Shown {
                end: thought,
                stops: false,
            });
            return shown.or(end);
        }
        if thought > 0 && !is_whole {
            return stops.find(&settings.no_cuts, &self.bytes, self.given, seen);
        }
        let spoken = &self.bytes[thought..];
        let (given, seen) = (
            self.given.saturating_sub(thought),
            seen.saturating_sub(thought),
        );
        let mut shown = stops.find(&settings.cuts, spoken, given, seen)?;
        shown.end += thought;
        Some(shown)
    }

    /// Returns the progress of the chain after the step.
    pub(crate) fn progress_after(&self, closing: Closing) -> Progress {
        let mut progress = self.progress;
        // The end of the thought, which is known already, is left to the next step.
        if closing.end < self.thought_bytes() {
            progress.phase = Phase::Thought;
        }
        progress
    }

    /// Whether the chain may have begun the opening tag of a thought.
    fn may_begin_thought(&self) -> bool {
        self.progress.phase == Phase::Start && !self.bytes.trim_ascii().is_empty()
    }

    fn thought_bytes(&self) -> usize {
        self.thought.map_or(0, |thought| thought.bytes)
    }

    /// Returns the number of tokens after the thought.
    pub(crate) fn spoken_tokens(&self) -> usize {
        self.tokens.len() - self.thought.map_or(0, |thought| thought.tokens)
    }

    /// Returns the number of tokens that were sampled.
    pub(crate) fn sampled_tokens(&self) -> usize {
        self.tokens.len() - self.thought.map_or(0, |thought| thought.forced)
    }

    /// Writes the tokens that close the step's thought at its limit. `replaces` tells that the first
    /// of them stands for an end-of-text token that was sampled. Returns the end of the step, if it
    /// ends with the thought.
    pub(crate) fn close_thought(
        &mut self,
        closing: &[u32],
        replaces: bool,
        tokenizer: &Tokenizer,
        settings: &WritingPlan,
    ) -> Option<Closing> {
        let seen = self.bytes.len();
        self.tokens.extend_from_slice(closing);
        for &token in closing {
            self.bytes.extend_from_slice(tokenizer.token_bytes(token));
        }
        self.progress.thought_tokens += closing.len();
        self.read_phase(seen, settings);
        if settings.config.logprobs.is_some() {
            // The log-probability of a token that is not in the text is not kept, either.
            self.token_logprobs
                .truncate(self.token_logprobs.len() - usize::from(replaces));
            let forced = closing.iter().map(|&token| TokenLogprobs {
                chosen: TokenLogprob {
                    token,
                    bytes: tokenizer.token_bytes(token).to_vec(),
                    logprob: 0.0,
                },
                in_text: true,
                forced: true,
                top: Vec::new(),
            });
            self.token_logprobs.extend(forced);
        }
        let thought = self.thought.get_or_insert_default();
        thought.tokens = self.tokens.len();
        thought.forced = closing.len() - usize::from(replaces);
        if settings.thinking.steps == ThoughtSteps::None {
            return None;
        }
        Some(closed_at(thought.bytes, None, Border::Boundary))
    }

    /// Returns how many bytes of the problem's prefix come after the end of the step.
    pub(crate) fn given_after(&self, closing: Closing) -> usize {
        self.given.saturating_sub(closing.end)
    }

    /// Stores the log-probabilities of the token that is added next.
    pub(crate) fn keep(&mut self, logprobs: TokenLogprobs) {
        self.token_logprobs.push(logprobs);
    }

    /// Adds a token and returns the state of the step. `room` is the number of further tokens that
    /// the chain may have.
    pub fn push(
        &mut self,
        sampled: Sampled,
        room: usize,
        tokenizer: &Tokenizer,
        settings: &WritingPlan,
    ) -> Verdict {
        let token = sampled.token;
        let thinks = self.progress.phase == Phase::Thought;
        if thinks && tokenizer.is_eos(token) {
            // The closing tag is written in place of the token, so that an answer follows.
            return Verdict::ThoughtOver;
        }
        self.tokens.push(token);
        self.logprob += f64::from(sampled.logprob);
        // An end-of-text token adds no text.
        if tokenizer.is_eos(token) {
            let end = self.bytes.len();
            let ended = Some(Finish::EndOfText);
            return Verdict::Closed(closed_at(end, ended, Border::Boundary));
        }
        let seen = self.bytes.len();
        let bytes = tokenizer.token_bytes(token);
        if is_in_text(tokenizer, token, settings) {
            self.bytes.extend_from_slice(bytes);
        }
        self.read_phase(seen, settings);
        if thinks || self.progress.phase == Phase::Thought {
            let thought = self.thought.get_or_insert_default();
            // All tokens of a step up to the end of its thought belong to the thought.
            self.progress.thought_tokens += self.tokens.len() - thought.tokens;
            thought.tokens = self.tokens.len();
        }
        if self.progress.phase == Phase::Thought {
            return self.think(seen, room, settings);
        }
        // If the chain's last token completes a boundary, the step ends there, and the chain ends
        // with it.
        let cap = (room == 0).then_some(Finish::ChainCap);
        if let Some(Shown { mut end, stops }) = self.shown(settings, seen) {
            let finish = if stops { Some(Finish::Stop) } else { cap };
            // The beginning of a possible stop would be left to the next step. But if the chain
            // ends now, there is none, so it stays in this step.
            if !stops && cap.is_some() {
                let thought = self.thought_bytes();
                let spoken = &self.bytes[thought..];
                let found = settings.cuts.find(spoken, seen.saturating_sub(thought));
                end = found.map_or(end, |end| thought + end);
            }
            return Verdict::Closed(closed_at(end, finish, Border::Boundary));
        }
        // A step of fixed length ends between characters; bytes of an incomplete character are left
        // over.
        let spoken = self.spoken_tokens();
        let longest = settings.config.step_tokens;
        if longest > 0 && spoken >= longest && !self.may_begin_thought() {
            let mut end = whole_characters(&self.bytes);
            if cap.is_none() {
                end = settings.stops.before_begun(&self.bytes, self.given, end);
            }
            return Verdict::Closed(closed_at(end, cap, Border::Length));
        }
        // If several limits are reached, the most final one is reported: chain, then step, then
        // budget.
        let limit = if cap.is_some() {
            cap
        } else if spoken >= settings.config.max_step_tokens {
            Some(Finish::StepCap)
        } else if self.sampled_tokens() >= self.plan.token_limit {
            Some(Finish::Budget)
        } else {
            None
        };
        if let Some(limit) = limit {
            return Verdict::Closed(self.cut_at(limit));
        }
        let pauses = match self.plan.mode {
            DecodeMode::PauseAtOnce => self.tokens.len() == 1,
            DecodeMode::PauseAfter(tokens) => spoken == tokens,
            DecodeMode::Sample | DecodeMode::Greedy => false,
        };
        if pauses {
            Verdict::Paused
        } else {
            Verdict::GoesOn
        }
    }

    /// Returns the state of a step whose thought continues after a token. `room` is the number of
    /// further tokens that the chain may have, thought and answer together.
    fn think(&self, seen: usize, room: usize, settings: &WritingPlan) -> Verdict {
        if let Some(Shown { end, stops }) = self.shown(settings, seen) {
            let finish = stops.then_some(Finish::Stop);
            return Verdict::Closed(closed_at(end, finish, Border::Boundary));
        }
        let thinking = &settings.thinking;
        let left = self.plan.token_limit.saturating_sub(self.sampled_tokens());
        if thinking.room(self.progress, room.min(left)) == 0 || self.progress.is_late {
            return Verdict::ThoughtOver;
        }
        if thinking.steps == ThoughtSteps::Tokens(self.tokens.len()) {
            // The beginning of the closing tag is left to the next step.
            let end = whole_characters(&self.bytes);
            let end = end.min(thinking.before_tag(self.progress, &self.bytes));
            return Verdict::Closed(closed_at(end, None, Border::Length));
        }
        if self.plan.mode == DecodeMode::PauseAtOnce && self.tokens.len() == 1 {
            return Verdict::Paused;
        }
        Verdict::GoesOn
    }

    /// Returns the end of a step that is cut off here, after its last whole character.
    pub fn cut_at(&self, limit: Finish) -> Closing {
        let end = whole_characters(&self.bytes);
        closed_at(end, Some(limit), Border::Limit)
    }

    /// Returns the closed step. Bytes after its end are left over, unless the chain ends.
    pub fn closed(mut self, chain: ChainId, closing: Closing) -> StepOutput {
        let leftover = self.bytes.split_off(closing.end);
        if let Some(thought) = &mut self.thought {
            if thought.bytes > self.bytes.len() {
                (thought.bytes, thought.close) = (self.bytes.len(), 0);
            }
            // Bytes that are not UTF-8 become longer characters.
            thought.bytes = String::from_utf8_lossy(&self.bytes[..thought.bytes]).len();
        }
        StepOutput {
            chain,
            thought: self.thought,
            // A model may sample bytes that are not UTF-8, which become replacement characters.
            text: String::from_utf8_lossy(&self.bytes).into_owned(),
            logprob: self.logprob as f32,
            token_logprobs: self.token_logprobs,
            tokens: self.tokens,
            border: closing.border,
            finish: closing.finish,
            paused: false,
            tokens_match_text: self.leftover == 0 && leftover.is_empty(),
            leftover: match closing.finish {
                None => leftover,
                // The chain has ended, so there is no step for the leftover bytes.
                Some(_) => Vec::new(),
            },
        }
    }

    /// Returns the tokens and the text so far of a step that is paused.
    pub fn paused(&self, chain: ChainId) -> StepOutput {
        let end = whole_characters(&self.bytes);
        let closing = closed_at(end, None, Border::Limit);
        StepOutput {
            paused: true,
            leftover: Vec::new(),
            ..self.clone().closed(chain, closing)
        }
    }
}

/// Whether a token adds its bytes to the text of a chain. Special tokens do not, except tags of
/// thoughts.
pub(crate) fn is_in_text(tokenizer: &Tokenizer, token: u32, settings: &WritingPlan) -> bool {
    // The tags of thoughts have to be in the text: it depends on them whether a text is an answer.
    let is_tag = || settings.thinking.is_tag(tokenizer.token_bytes(token));
    !tokenizer.is_eos(token) && (!tokenizer.is_special(token) || is_tag())
}

fn closed_at(end: usize, finish: Option<Finish>, border: Border) -> Closing {
    Closing {
        finish,
        border,
        end,
    }
}
