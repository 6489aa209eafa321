//! Bounds on the cost of a search, known before it begins.

use std::ops::AddAssign;

use serde::Serialize;

use crate::config::SearchConfig;
use crate::generation::GeneratorConfig;

/// The most that the search of a problem samples. Searches usually end long before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Most {
    /// The most steps, those of rollouts included. No step is scored more than once after its end.
    pub steps: u64,
    /// The most sampled tokens, those of thoughts and rollouts included.
    pub tokens: u64,
}

impl Most {
    /// Returns the bounds of a search under settings in effect
    /// ([`Generator::resolve`](crate::Generator::resolve)).
    pub fn of(search: &SearchConfig, generator: &GeneratorConfig) -> Self {
        let spec = search.strategy.spec();
        let mut steps = count_of((spec.steps)(search));
        if search.speculate && spec.in_rounds {
            // Each chain of a round may continue by a step that is then discarded.
            steps = steps.saturating_mul(2);
        }
        let chain = count_of(generator.most_tokens());
        let tokens = if spec.branches {
            let thought = count_of(generator.thinking.budget.unwrap_or(0));
            let longest = count_of(generator.longest_step());
            let spoken = steps.saturating_mul(longest);
            spoken.saturating_add(count_of((spec.first_steps)(search)).saturating_mul(thought))
        } else {
            count_of((spec.chains)(search)).saturating_mul(chain)
        };
        let mut most = Self { steps, tokens };
        let rollouts = search
            .rollouts
            .as_ref()
            .map_or(0, |rollouts| rollouts.count);
        most += Self {
            steps: count_of(search.max_steps),
            tokens: chain,
        }
        .times(steps.saturating_mul(count_of(rollouts)));
        most.within(search.budget_tokens)
    }

    /// Returns the bounds under a budget of tokens; 0 for none.
    #[must_use]
    pub fn within(self, budget_tokens: usize) -> Self {
        let tokens = match budget_tokens {
            0 => self.tokens,
            budget => self.tokens.min(count_of(budget)),
        };
        Self { tokens, ..self }
    }

    /// Returns the bounds of `count` equal searches.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self {
            steps: self.steps.saturating_mul(count),
            tokens: self.tokens.saturating_mul(count),
        }
    }
}

impl AddAssign for Most {
    fn add_assign(&mut self, other: Self) {
        self.steps = self.steps.saturating_add(other.steps);
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

fn count_of(n: usize) -> u64 {
    n as u64
}
