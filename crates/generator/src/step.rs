//! A step being decoded, and what ends it.

use beamgen_engine::{Sampled, Tokenizer};
use beamgen_search::{Finish, Growth, StepPlan};

/// What ends a step.
#[derive(Debug, Clone)]
pub(crate) struct StopRules {
    pub boundary: Vec<u8>,
    pub answer_markers: Vec<String>,
    pub max_step_tokens: usize,
}

/// The tokens of a step so far.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub plan: StepPlan,
    pub tokens: Vec<u32>,
    /// What the tokens stand for; not always whole characters.
    bytes: Vec<u8>,
    pub logprob: f64,
}

/// Whether a step goes on after a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    GoesOn,
    /// Held up where its plan says.
    Paused,
    /// Closed; the chain goes on if there is no reason to finish.
    Closed(Option<Finish>),
}

impl Step {
    pub fn new(plan: StepPlan) -> Self {
        Self {
            plan,
            tokens: Vec::new(),
            bytes: Vec::new(),
            logprob: 0.0,
        }
    }

    /// Adds a token. `room` is how many more the chain may have after it.
    pub fn push(
        &mut self,
        sampled: Sampled,
        room: usize,
        tokenizer: &Tokenizer,
        rules: &StopRules,
    ) -> Verdict {
        let token = sampled.token;
        self.tokens.push(token);
        self.logprob += f64::from(sampled.logprob);
        if tokenizer.is_eos(token) {
            return Verdict::Closed(Some(Finish::EndOfText));
        }
        let before = self.bytes.len();
        if !tokenizer.is_special(token) {
            self.bytes.extend_from_slice(tokenizer.token_bytes(token));
        }
        if self.closed_since(before, &rules.boundary) {
            let text = String::from_utf8_lossy(&self.bytes);
            let answered = rules.answer_markers.iter().any(|m| text.contains(m));
            return Verdict::Closed(if answered {
                Some(Finish::Answer)
            } else {
                (room == 0).then_some(Finish::ChainCap)
            });
        }
        if room == 0 {
            return Verdict::Closed(Some(Finish::ChainCap));
        }
        if self.tokens.len() >= rules.max_step_tokens {
            return Verdict::Closed(Some(Finish::StepCap));
        }
        if self.tokens.len() >= self.plan.allowance {
            return Verdict::Closed(Some(Finish::Budget));
        }
        if self.plan.growth == Growth::PauseAfter(self.tokens.len()) {
            return Verdict::Paused;
        }
        Verdict::GoesOn
    }

    /// Whether a boundary ends in the bytes from `before` on, after something to close: blank lines
    /// are no steps, they belong to the step that follows.
    fn closed_since(&self, before: usize, boundary: &[u8]) -> bool {
        let from = before.saturating_sub(boundary.len() - 1);
        let found = self.bytes[from..]
            .windows(boundary.len())
            .any(|window| window == boundary);
        found && !self.bytes.trim_ascii().is_empty()
    }

    /// The text; a character cut in two by a limit becomes U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
