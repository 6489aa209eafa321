//! A step being decoded, and its end.

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
    /// The limits of the step, its random stream and its mode.
    pub plan: StepPlan,
    /// The tokens sampled so far.
    pub tokens: Vec<u32>,
    /// The bytes left over by the step before, then those of `tokens`; not always whole characters.
    bytes: Vec<u8>,
    /// The number of leftover bytes, which belong to a token of the step before.
    leftover: usize,
    /// The number of leftover bytes that the problem's prefix gives, at the beginning.
    given: usize,
    logprob: f64,
    /// Log-probabilities of each of `tokens`, if they are kept.
    token_logprobs: Vec<TokenLogprobs>,
}

/// The state of a step after a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The step is not at its end.
    GoesOn,
    /// The step pauses where its plan says.
    Paused,
    /// The step is closed.
    Closed(Closing),
}

/// The end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closing {
    /// The reason why the chain ends; `None` if the chain continues.
    pub finish: Option<Finish>,
    border: Border,
    /// The number of bytes that belong to the step.
    end: usize,
}

impl Step {
    /// Begins a step with the bytes that the step before left over, of which the first `given` are
    /// given by the problem.
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

    /// Returns the end of the step if the leftover bytes hold a whole one: a token may contain the
    /// ends of two steps.
    pub fn is_leftover_step(&self, settings: &WritingPlan) -> Option<Closing> {
        let shown = self.shown(settings, 0)?;
        let finish = shown.stops.then_some(Finish::Stop);
        Some(closed_at(shown.end, finish, Border::Boundary))
    }

    fn shown(&self, settings: &WritingPlan, seen: usize) -> Option<Shown> {
        let stops = &settings.stops;
        stops.find(&settings.cuts, &self.bytes, self.given, seen)
    }

    /// The number of given bytes after the end of the step.
    pub(crate) fn given_after(&self, closing: Closing) -> usize {
        self.given.saturating_sub(closing.end)
    }

    /// Keeps the log-probabilities of the token that is added next.
    pub(crate) fn keep(&mut self, logprobs: TokenLogprobs) {
        self.token_logprobs.push(logprobs);
    }

    /// Adds a token. `room` is the number of tokens that the chain may have after it; `settings`
    /// have the marks and limits of steps.
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
        // The text of the end-of-text token is not part of the step.
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
        // A boundary on the chain's last token closes the step properly, and still ends the chain.
        let cap = (room == 0).then_some(Finish::ChainCap);
        if let Some(Shown { mut end, stops }) = self.shown(settings, seen) {
            let finish = if stops { Some(Finish::Stop) } else { cap };
            // What may become a stop is left to a next step, and now there is none.
            if !stops && cap.is_some() {
                end = settings.cuts.find(&self.bytes, seen).unwrap_or(end);
            }
            return Verdict::Closed(closed_at(end, finish, Border::Boundary));
        }
        // Steps of a fixed length end between characters; the rest is left over.
        if self.tokens.len() == settings.config.step_tokens {
            let mut end = whole_characters(&self.bytes);
            if cap.is_none() {
                end = settings.stops.before_begun(&self.bytes, self.given, end);
            }
            return Verdict::Closed(closed_at(end, cap, Border::Length));
        }
        // The most final reason is reported: chain, then step, then budget.
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

    /// The end of a step that is cut here, at the last whole character.
    pub fn cut_at(&self, limit: Finish) -> Closing {
        let end = whole_characters(&self.bytes);
        closed_at(end, Some(limit), Border::Limit)
    }

    /// Returns the closed step. Bytes after its end are left over if the chain continues.
    pub fn closed(mut self, chain: ChainId, closing: Closing) -> StepOutput {
        let leftover = self.bytes.split_off(closing.end);
        StepOutput {
            chain,
            // A model may sample bytes that are not UTF-8; they become replacement characters.
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
                // A finished chain has no next step.
                Some(_) => Vec::new(),
            },
        }
    }

    /// Returns the step so far, while it is paused.
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

/// Whether a token adds its bytes to the text of a chain.
pub(crate) fn is_in_text(tokenizer: &Tokenizer, token: u32) -> bool {
    // Special tokens have no text in a chain; tags of thoughts are kept, for they mark a state.
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
