use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::numbers::is_default;

/// What a search has spent. Every strategy is charged by the same ledger.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// Prompt tokens read by the generator: once per problem.
    pub prompt_tokens: u64,
    /// Tokens sampled, also of steps pruned later.
    pub generated_tokens: u64,
    /// Tokens read by the scorer, its own copy of the prompt included.
    pub scored_tokens: u64,
    /// Tokens found in a cache: the prefix of every chain made by a fork in the generator, and the
    /// prefix of every chain at the time the scorer reads new steps of it.
    pub reused_tokens: u64,
    /// Generator passes in which the problem had a row; in a total, all passes.
    pub forward_passes: u64,
    /// Scorer calls in which the problem had a step; in a total, all calls.
    pub score_passes: u64,
    /// Largest cache memory of both models together. For one problem: that of its distinct live
    /// tokens when the strategy was woken. In a total: all pages in use at once.
    pub peak_kv_bytes: u64,
    /// Requests to servers that had to be made again. What was sampled after one may differ from
    /// what another run samples there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retries: u64,
    /// A pass shared by many problems is charged by rows, a scorer call by tokens.
    pub seconds: Seconds,
    /// Of what the scorer read, each judge's part, by name; empty where there is one scorer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub judges: BTreeMap<String, JudgeSpent>,
}

/// What one of several judges was asked and has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeSpent {
    /// Scorer calls in which it was asked.
    pub calls: u64,
    /// Steps that it was asked about.
    pub steps: u64,
    /// Of these, steps about which it had nothing to say.
    pub abstained: u64,
    /// Of these, steps that it scored 0, as a checker does that proves them wrong.
    pub failed: u64,
    /// Tokens that it read.
    pub scored_tokens: u64,
    /// Tokens that it found in its cache.
    pub reused_tokens: u64,
}

impl AddAssign for JudgeSpent {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.steps += other.steps;
        self.abstained += other.abstained;
        self.failed += other.failed;
        self.scored_tokens += other.scored_tokens;
        self.reused_tokens += other.reused_tokens;
    }
}

/// Wall-clock seconds by phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Seconds {
    /// In the generator.
    pub generate: f64,
    /// In the scorer.
    pub score: f64,
    /// Everything else: strategies, bookkeeping, observers.
    pub search: f64,
}

impl Seconds {
    /// All phases together.
    pub fn total(self) -> f64 {
        self.generate + self.score + self.search
    }
}

impl AddAssign<&Ledger> for Ledger {
    /// Sums the costs and takes the larger peak. The sum of the passes of problems that shared
    /// passes is not the number of passes.
    fn add_assign(&mut self, other: &Self) {
        self.prompt_tokens += other.prompt_tokens;
        self.generated_tokens += other.generated_tokens;
        self.scored_tokens += other.scored_tokens;
        self.reused_tokens += other.reused_tokens;
        self.forward_passes += other.forward_passes;
        self.score_passes += other.score_passes;
        self.peak_kv_bytes = self.peak_kv_bytes.max(other.peak_kv_bytes);
        self.retries += other.retries;
        self.seconds.generate += other.seconds.generate;
        self.seconds.score += other.seconds.score;
        self.seconds.search += other.seconds.search;
        for (name, spent) in &other.judges {
            *self.judges.entry(name.clone()).or_default() += *spent;
        }
    }
}

impl AddAssign for Ledger {
    fn add_assign(&mut self, other: Self) {
        *self += &other;
    }
}

/// Where time comes from. The search has no clock of its own, so that tests can bring theirs.
pub trait Clock {
    /// Time since an arbitrary fixed moment; never decreases.
    fn now(&self) -> Duration;
}

/// A clock that stands still: all seconds in the ledger stay 0.
#[derive(Debug, Clone, Copy, Default)]
pub struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}
