//! A step being decoded, and what ends it.

use beamgen_engine::{Sampled, Tokenizer};
use beamgen_search::{Border, ChainId, DecodeMode, Finish, StepOutput, StepPlan, thoughts};

use crate::cut::{Cuts, whole_characters};
use crate::plan::WritingPlan;

/// The tokens of a step so far.
#[derive(Debug, Clone)]
pub struct Step {
    /// How it is to be written.
    pub plan: StepPlan,
    /// What was sampled.
    pub tokens: Vec<u32>,
    /// What was carried here and what the tokens stand for; not always whole characters.
    bytes: Vec<u8>,
    /// How many of the bytes were carried here: they are of a token of the step before.
    leftover: usize,
    logprob: f64,
}

/// Whether a step goes on after a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is not at its end.
    GoesOn,
    /// Paused where its plan says.
    Paused,
    /// It is closed.
    Closed(Closing),
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closing {
    /// The chain goes on if there is no reason to finish.
    pub finish: Option<Finish>,
    border: Border,
    /// How many of the bytes are the step's.
    end: usize,
}

impl Step {
    /// A step that begins with the bytes that the step before left over.
    pub fn new(plan: StepPlan, leftover: Vec<u8>) -> Self {
        Self {
            plan,
            tokens: Vec::new(),
            leftover: leftover.len(),
            bytes: leftover,
            logprob: 0.0,
        }
    }

    /// Whether what was carried here is a whole step already: one token may hold the ends of two.
    pub fn is_leftover_step(&self, cuts: &Cuts) -> Option<Closing> {
        let end = cuts.find(&self.bytes, 0)?;
        Some(closed_at(end, None, Border::Boundary))
    }

    /// Adds a token. `room` is how many more the chain may have after it, `settings` say what ends a
    /// step.
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
        if tokenizer.is_eos(token) {
            let end = self.bytes.len();
            let ended = Some(Finish::EndOfText);
            return Verdict::Closed(closed_at(end, ended, Border::Boundary));
        }
        let seen = self.bytes.len();
        let bytes = tokenizer.token_bytes(token);
        if !tokenizer.is_special(token) || thoughts::is_tag(bytes) {
            self.bytes.extend_from_slice(bytes);
        }
        let cap = (room == 0).then_some(Finish::ChainCap);
        if let Some(end) = settings.cuts.find(&self.bytes, seen) {
            return Verdict::Closed(closed_at(end, cap, Border::Boundary));
        }
        if self.tokens.len() == settings.config.step_tokens {
            let end = whole_characters(&self.bytes);
            return Verdict::Closed(closed_at(end, cap, Border::Length));
        }
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

    /// Cut where it is, between characters.
    pub fn cut_at(&self, limit: Finish) -> Closing {
        let end = whole_characters(&self.bytes);
        closed_at(end, Some(limit), Border::Limit)
    }

    /// The step as it closed. What is behind its end is carried on if the chain goes on.
    pub fn closed(mut self, chain: ChainId, closing: Closing) -> StepOutput {
        let leftover = self.bytes.split_off(closing.end);
        StepOutput {
            chain,
            text: String::from_utf8_lossy(&self.bytes).into_owned(),
            logprob: self.logprob as f32,
            tokens: self.tokens,
            border: closing.border,
            finish: closing.finish,
            paused: false,
            tokens_match_text: self.leftover == 0 && leftover.is_empty(),
            leftover: match closing.finish {
                None => leftover,
                Some(_) => Vec::new(),
            },
        }
    }

    /// The step as it is held up.
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

fn closed_at(end: usize, finish: Option<Finish>, border: Border) -> Closing {
    Closing {
        finish,
        border,
        end,
    }
}
