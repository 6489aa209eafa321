use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::numbers::is_default;
use crate::width::Width;

/// The cost of a search. Every strategy is charged by the same rules.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// Prompt tokens read by the generator: each problem's prompt once, and the tokens that close
    /// thoughts at their limit.
    pub prompt_tokens: u64,
    /// Tokens sampled by the generator, including those of steps that were pruned later.
    pub generated_tokens: u64,
    /// The sampled tokens that belong to thoughts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub thought_tokens: u64,
    /// Tokens read by the scorer, including its own copy of the prompt.
    pub scored_tokens: u64,
    /// Tokens found in a cache: the prefix of a chain whenever the generator forks it, and whenever
    /// the scorer reads new steps of it.
    pub reused_tokens: u64,
    /// Forward passes of the generator in which the problem had a row; in a total, all passes.
    pub forward_passes: u64,
    /// Scorer calls in which the problem had a step; in a total, all calls.
    pub score_passes: u64,
    /// The peak of the cache memory of both models together. For a problem: the memory of its
    /// distinct live tokens when its strategy was woken. In a total: all pages in use at once.
    pub peak_kv_bytes: u64,
    /// Requests to servers that had to be repeated. A server may sample something else when a
    /// request is repeated, so such a run is not reproducible.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retries: u64,
    /// The floating-point operations by model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flops: Flops,
    /// Tokens of both models that were not read, because the cache held them for another chain, of
    /// this problem or of another, or from an earlier prompt: a system prompt, for example. Only in
    /// a total.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix_tokens: u64,
    /// The operations that the models really ran. Passes and calls are shared like their seconds, so
    /// a problem's part depends on the others in flight; so does the total where caches were
    /// dropped for lack of memory, or prefixes shared.
    #[serde(default, skip_serializing_if = "is_default")]
    pub executed: Flops,
    /// The fewest operations that give the same chains and scores, if each problem is solved by
    /// itself: its prompt, every token of a step that closed or paused and every scored token is
    /// read once, but the generator does not read the last sampled token of a chain, or tokens that
    /// close a thought after it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub least: Flops,
    /// The different chains that continued.
    #[serde(default, skip_serializing_if = "is_default")]
    pub width: Width,
    /// Wall-clock seconds by phase. A pass shared by problems is charged by rows, a scorer call by
    /// tokens.
    pub seconds: Seconds,
    /// Each judge's part of the scorer's cost, by name; empty with a single scorer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub judges: BTreeMap<String, JudgeSpent>,
}

impl Ledger {
    /// Returns the floating-point operations of both models; `None` if those of a model that read
    /// or sampled tokens are unknown.
    pub fn total_flops(&self) -> Option<u64> {
        self.known(self.flops)
    }

    /// Returns the sum of some of this ledger's operations, or `None` like
    /// [`total_flops`](Self::total_flops).
    pub fn known(&self, flops: Flops) -> Option<u64> {
        let sampled = self.prompt_tokens + self.generated_tokens;
        flops.total(sampled, self.scored_tokens)
    }

    /// Returns the operations that the models ran, as a multiple of [`least`](Self::least); `None` if
    /// those of a model are unknown. Dropped steps and caches that had to be filled again make
    /// it larger than 1, prefixes that problems share make it smaller.
    pub fn excess(&self) -> Option<f64> {
        let (executed, least) = (self.known(self.executed)?, self.known(self.least)?);
        (least > 0).then(|| executed as f64 / least as f64)
    }
}

/// Floating-point operations by model: 2 for each weight of a matrix that a token is multiplied by,
/// and 4 for each value of a query, each layer and each position that attention reads. A
/// multiply-add counts as two. Each token counts once, at its position, as in the other counts of
/// a [`Ledger`]. Norms, embeddings and the heads of reward models are left out.
///
/// The count of weights alone, 2 a token and weight, is that of Kaplan et al.,
/// <https://arxiv.org/abs/2001.08361>.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flops {
    /// The generator's operations; 0 if they are unknown, as for a server.
    pub generate: u64,
    /// The scorer's operations; 0 if they are unknown or the scorer is no model.
    pub score: u64,
}

impl Flops {
    /// Returns the operations of both models; `None` if those of a model with tokens are unknown.
    pub fn total(self, sampled_tokens: u64, scored_tokens: u64) -> Option<u64> {
        let is_unknown = |flops, tokens| flops == 0 && tokens > 0;
        let unknown =
            is_unknown(self.generate, sampled_tokens) || is_unknown(self.score, scored_tokens);
        (!unknown).then(|| self.sum())
    }

    /// Returns the known operations of both models.
    pub fn sum(self) -> u64 {
        self.generate.saturating_add(self.score)
    }
}

/// The work of a model since it was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Executed {
    /// The floating-point operations; 0 if they are unknown.
    pub flops: u64,
    /// The tokens that were not read, because the cache held them for another chain or from an
    /// earlier prompt.
    pub prefix_tokens: u64,
}

impl Executed {
    /// Returns the work after an `earlier` moment.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            flops: self.flops - earlier.flops,
            prefix_tokens: self.prefix_tokens - earlier.prefix_tokens,
        }
    }
}

impl Sum for Executed {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            flops: a.flops.saturating_add(b.flops),
            prefix_tokens: a.prefix_tokens.saturating_add(b.prefix_tokens),
        })
    }
}

impl AddAssign for Flops {
    fn add_assign(&mut self, other: Self) {
        self.generate = self.generate.saturating_add(other.generate);
        self.score = self.score.saturating_add(other.score);
    }
}

/// The cost of one of several judges, as part of a [`Ledger`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeSpent {
    /// Scorer calls in which the judge was asked.
    pub calls: u64,
    /// Steps that the judge was asked about.
    pub steps: u64,
    /// Steps on which the judge abstained.
    pub abstained: u64,
    /// Steps that the judge scored 0, as a checker does with a step that it proves wrong.
    pub failed: u64,
    /// Tokens that the judge computed, because its cache did not have them.
    pub scored_tokens: u64,
    /// Tokens of the judge's chains that were still in its cache and did not have to be read.
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
    /// Seconds in the generator's forward passes.
    pub generate: f64,
    /// Seconds from the submission of batches to their scores.
    pub score: f64,
    /// All other seconds: strategies, bookkeeping, observers.
    pub search: f64,
}

impl Seconds {
    /// Returns the wall-clock seconds of all phases together.
    pub fn total(self) -> f64 {
        self.generate + self.score + self.search
    }
}

impl AddAssign<&Ledger> for Ledger {
    /// Adds up the costs and takes the larger peak. For problems that shared passes, the sum of
    /// `forward_passes` exceeds the number of passes.
    fn add_assign(&mut self, other: &Self) {
        self.prompt_tokens += other.prompt_tokens;
        self.generated_tokens += other.generated_tokens;
        self.thought_tokens += other.thought_tokens;
        self.scored_tokens += other.scored_tokens;
        self.reused_tokens += other.reused_tokens;
        self.forward_passes += other.forward_passes;
        self.score_passes += other.score_passes;
        self.peak_kv_bytes = self.peak_kv_bytes.max(other.peak_kv_bytes);
        self.retries += other.retries;
        self.flops += other.flops;
        self.prefix_tokens += other.prefix_tokens;
        self.executed += other.executed;
        self.least += other.least;
        self.width += other.width;
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

/// A source of time. The search has no clock of its own, so tests can use a clock that they
/// control.
pub trait Clock {
    /// Returns the time since an arbitrary fixed moment; never decreases.
    fn now(&self) -> Duration;
}

/// A clock that never advances: all seconds in the ledger stay 0.
#[derive(Debug, Clone, Copy, Default)]
pub struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}
