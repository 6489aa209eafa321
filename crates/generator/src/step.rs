//! A step that is being decoded, and the rules for its end.

use beamgen_engine::{Sampled, Tokenizer};
use beamgen_search::{
    Border, ChainId, DecodeMode, Finish, StepOutput, StepPlan, TokenLogprobs, thoughts,
};

use crate::cut::whole_characters;
use crate::plan::WritingPlan;
use crate::stops::Shown;

/// The tokens of a step so far.
#[derive(Debug, Clone)]
pub struct Step {
    /// The token limit of the step, its random stream and its mode.
    pub plan: StepPlan,
    /// The tokens sampled for the step so far.
    pub tokens: Vec<u32>,
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
    /// Begins a step with the leftover bytes of the step before. The first `given` of them come
    /// from the problem's prefix.
    pub fn new(plan: StepPlan, leftover: Vec<u8>, given: usize) -> Self {
        Self {
            plan,
            tokens: Vec::new(),
            leftover: leftover.len(),
            bytes: leftover,
            given,
            logprob: 0.0,
            token_logprobs: Vec::new(),
        }
    }

    /// Returns the end of the step if the leftover bytes already hold a whole step: a token may
    /// contain the ends of two steps.
    pub fn is_leftover_step(&self, settings: &WritingPlan) -> Option<Closing> {
        let shown = self.shown(settings, 0)?;
        let finish = shown.stops.then_some(Finish::Stop);
        Some(closed_at(shown.end, finish, Border::Boundary))
    }

    fn shown(&self, settings: &WritingPlan, seen: usize) -> Option<Shown> {
        let stops = &settings.stops;
        stops.find(&settings.cuts, &self.bytes, self.given, seen)
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
        if is_in_text(tokenizer, token) {
            self.bytes.extend_from_slice(bytes);
        }
        // If the chain's last token completes a boundary, the step ends there, and the chain ends
        // with it.
        let cap = (room == 0).then_some(Finish::ChainCap);
        if let Some(Shown { mut end, stops }) = self.shown(settings, seen) {
            let finish = if stops { Some(Finish::Stop) } else { cap };
            // The beginning of a possible stop would be left to the next step. But if the chain
            // ends now, there is none, so it stays in this step.
            if !stops && cap.is_some() {
                end = settings.cuts.find(&self.bytes, seen).unwrap_or(end);
            }
            return Verdict::Closed(closed_at(end, finish, Border::Boundary));
        }
        // A step of fixed length ends between characters; bytes of an incomplete character are left
        // over.
        if self.tokens.len() == settings.config.step_tokens {
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
        } else if self.tokens.len() >= settings.config.max_step_tokens {
            Some(Finish::StepCap)
        } else if self.tokens.len() >= self.plan.token_limit {
            Some(Finish::Budget)
        } else {
            None
        };
        if let Some(limit) = limit {
            return Verdict::Closed(self.cut_at(limit));
        }
        if self.plan.mode == DecodeMode::PauseAfter(self.tokens.len()) {
            Verdict::Paused
        } else {
            Verdict::GoesOn
        }
    }

    /// Returns the end of a step that is cut off here, after its last whole character.
    pub fn cut_at(&self, limit: Finish) -> Closing {
        let end = whole_characters(&self.bytes);
        closed_at(end, Some(limit), Border::Limit)
    }

    /// Returns the closed step. Bytes after its end are left over, unless the chain ends.
    pub fn closed(mut self, chain: ChainId, closing: Closing) -> StepOutput {
        let leftover = self.bytes.split_off(closing.end);
        StepOutput {
            chain,
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
pub(crate) fn is_in_text(tokenizer: &Tokenizer, token: u32) -> bool {
    // The tags of thoughts have to be in the text: it depends on them whether a text is an answer.
    !tokenizer.is_eos(token)
        && (!tokenizer.is_special(token) || thoughts::is_tag(tokenizer.token_bytes(token)))
}

fn closed_at(end: usize, finish: Option<Finish>, border: Border) -> Closing {
    Closing {
        finish,
        border,
        end,
    }
}
