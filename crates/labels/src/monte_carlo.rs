//! Monte Carlo labels: a search samples chains, and then rollouts from the steps of the chains.
//!
//! [`MonteCarlo`] configures a strategy of the search. The strategy samples chains to their end,
//! and then rollouts: further completions after each step. A rollout forks the key-value cache that
//! the chain left behind, so the tokens of its prefix are not read again. Rollouts of all problems
//! that are searched at the same time share forward passes. The strategy grades complete texts, or a
//! verifier does; the search itself does not know the answer.
//!
//! The samples of a step do not depend on the mode: the rollouts of [`Mode::Early`] are the first
//! of those of [`Mode::All`].

mod bisect;
mod mine;
mod pool;
mod sampled;
mod strategy;

use std::sync::{Arc, Mutex};

use beamgen_eval::{Verdict, answer};
use beamgen_search::{
    Aggregation, ConfigError, GeneratorConfig, Most, Problem, SearchConfig, Strategy,
};
use serde::{Deserialize, Serialize};

use crate::{LabelledChain, Policy};
use sampled::Sampled;
use strategy::{Labeller, lock};

/// The settings for labelling a problem.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MonteCarlo {
    /// The number of chains to sample. Equal chains become one labelled chain; chains with equal
    /// prefixes share the rollouts of these.
    pub chains: usize,
    /// The number of rollouts per step; [`Mode`] may change the number. With 0, chains are only
    /// labelled by their outcome.
    pub rollouts: u32,
    /// The choice of the steps that get rollouts.
    pub mode: Mode,
    /// The number of wrong rollouts in which [`Mode::Binary`] also searches for the first error.
    /// `OmegaPRM`'s rule chooses the rollouts. Each becomes a labelled chain with the source
    /// `rollout`.
    pub searches: u32,
    /// The choice of hard examples by a reward model; `None` for all chains. Cannot be combined
    /// with `searches`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mine: Option<Mine>,
    /// Whether to skip problems whose chains are all right or all wrong: no rollouts, no labelled
    /// chains. Such a problem does not teach a reward model to choose among its chains. `OmegaPRM`
    /// (<https://arxiv.org/abs/2406.06592>) also skips too easy and too hard problems.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mixed: bool,
}

/// Hard examples, mined with a reward model: the wrong chains that score highest, and equally many
/// right chains that score lowest. Only these get rollouts and labels. A problem without a wrong
/// chain has no hard examples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mine {
    /// The maximum number of wrong chains per problem, at least 1.
    pub wrong: usize,
    /// The function that combines the scores of a chain's steps into one score.
    pub aggregation: Aggregation,
}

impl Default for MonteCarlo {
    /// Returns the settings of Math-Shepherd (<https://arxiv.org/abs/2312.08935>): 4 chains, and 8
    /// rollouts of every step.
    fn default() -> Self {
        Self {
            chains: 4,
            rollouts: 8,
            mode: Mode::All,
            searches: 0,
            mine: None,
            mixed: false,
        }
    }
}

/// The choice of the steps that get rollouts, and of their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Every step gets the same number of rollouts.
    #[default]
    All,
    /// Every step gets rollouts until one of them is right, which decides the hard label. Rollouts
    /// are started in waves, each as large as all earlier ones together. Once a rollout is right,
    /// the running ones are dropped. The share of right rollouts is therefore biased: use only the
    /// hard label.
    Early,
    /// A binary search for the first error of each wrong chain (`OmegaPRM`,
    /// <https://arxiv.org/abs/2406.06592>). If a rollout from the middle step is right, the error
    /// is after that step, otherwise at or before it. Right chains are not searched.
    Binary,
    /// Every step gets more rollouts in hard problems (`GenPRM`,
    /// <https://arxiv.org/abs/2504.00891>): 4 times the number if less than 0.1 of the problem's
    /// chains are right, twice the number if less than 0.9 are.
    Adaptive,
}

impl Mode {
    /// All modes; help texts list them in this sequence.
    pub const ALL: [Self; 4] = [Self::All, Self::Early, Self::Binary, Self::Adaptive];

    /// Returns the name in configurations, which is the serialized form.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Early => "early",
            Self::Binary => "binary",
            Self::Adaptive => "adaptive",
        }
    }
}

/// Decides whether the final answer of a complete chain is right, if no verifier judges the problem.
pub type Grader = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Makes a grader that compares a chain's final answer with `reference`. A chain is wrong if it has
/// no answer, or if the comparison cannot be decided.
#[must_use]
pub fn graded_by_answer(reference: String) -> Grader {
    Arc::new(move |text| {
        let found = answer::extract(text);
        found.is_some_and(|found| answer::compare(&found.text, &reference) == Verdict::Same)
    })
}

impl MonteCarlo {
    /// Checks the settings that would leave nothing to do.
    ///
    /// # Errors
    /// Returns an error if `chains` or `mine.wrong` is 0, or if `rollouts` is 0 in
    /// [`Mode::Binary`].
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_count("chains", self.chains)?;
        ConfigError::check_count("mine", self.mine.map_or(1, |mine| mine.wrong))?;
        // A binary search needs rollouts; the other modes can label outcomes without any.
        let is_idle = self.mode == Mode::Binary && self.rollouts == 0;
        ConfigError::check_count("rollouts", usize::from(!is_idle))
    }

    /// Returns the most that labelling a problem samples, under settings in effect.
    #[must_use]
    pub fn most(&self, search: &SearchConfig, generator: &GeneratorConfig) -> Most {
        let max_steps = search.max_steps;
        let chain = Most {
            steps: max_steps as u64,
            tokens: generator.most_tokens() as u64,
        };
        let [chains, searches, rollouts] = [
            self.chains as u64,
            u64::from(self.searches),
            u64::from(self.rollouts),
        ];
        // A binary search asks about one step of each half; other modes ask about each step.
        let (searched, prefixes) = match self.mode {
            Mode::Binary => (
                chains.saturating_add(searches),
                u64::from(max_steps.max(1).ilog2()) + 1,
            ),
            Mode::All | Mode::Early | Mode::Adaptive => (chains, chain.steps),
        };
        let each = match self.mode {
            Mode::Adaptive => rollouts.saturating_mul(4),
            Mode::All | Mode::Early | Mode::Binary => rollouts,
        };
        let completed = searched.saturating_mul(prefixes).saturating_mul(each);
        chain
            .times(chains.saturating_add(completed))
            .within(search.budget_tokens)
    }

    /// Prepares the labelling of one problem with these settings.
    #[must_use]
    pub fn labelling(self, is_right: Grader) -> Labelling {
        Labelling {
            options: self,
            is_right,
            sampled: Arc::default(),
        }
    }
}

/// The labelling of one problem. The strategy and this handle share the samples.
#[derive(Clone)]
pub struct Labelling {
    options: MonteCarlo,
    is_right: Grader,
    sampled: Arc<Mutex<Sampled>>,
}

impl Labelling {
    /// Makes the strategy for the problem's search. Each new strategy discards the earlier samples
    /// when it begins: the search may restart a problem.
    #[must_use]
    pub fn strategy(&self) -> Box<dyn Strategy> {
        Box::new(Labeller::new(
            self.options,
            self.is_right.clone(),
            self.sampled.clone(),
        ))
    }

    /// Returns the labels that follow from the samples so far; the search may still be running.
    #[must_use]
    pub fn labels(&self, problem: &Problem, seed: u64, policy: &Policy) -> Labels {
        lock(&self.sampled).labels(self.options, problem, seed, policy)
    }
}

/// The labelled chains of a problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// The distinct chains with at least one complete step, in the order in which they were
    /// sampled.
    pub chains: Vec<LabelledChain>,
    /// The statistics of this problem.
    pub counts: Counts,
}

/// Statistics of the sampling; those of several problems can be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// The number of sampled chains, equal ones included, without rollouts that were searched like
    /// chains.
    pub chains: u64,
    /// The number of chains with a right answer.
    pub right: u64,
    /// The number of chains without an own end, which are neither right nor wrong.
    pub cut: u64,
    /// The number of labelled chains: distinct ones and, with [`Mine`] or [`MonteCarlo::mixed`],
    /// only the chosen ones.
    pub distinct: u64,
    /// The number of problems with both right and wrong chains.
    #[serde(default)]
    pub mixed: u64,
    /// The number of distinct prefixes from which at least one rollout reached its own end.
    pub labels: u64,
    /// The number of rollouts that reached their own end.
    pub rollouts: u64,
    /// The number of other rollouts that a length limit cut off; they are neither right nor wrong.
    pub truncated: u64,
    /// The number of tokens in chains. All other generated tokens are in rollouts.
    pub chain_tokens: u64,
    /// The number of rollouts that were started, including dropped ones.
    pub begun: u64,
    /// The number of tokens of the prefixes of all started rollouts; a prefix counts once per
    /// rollout.
    pub prefix_tokens: u64,
}

impl Counts {
    /// Returns how many tokens of one problem forks saved: tokens that would be read again if every
    /// chain read the prompt, and every rollout the prompt and its prefix.
    #[must_use]
    pub fn spared_tokens(&self, prompt_tokens: u64) -> u64 {
        // Only the first chain reads the prompt; every other chain or rollout begins with a fork.
        let others = (self.chains + self.begun).saturating_sub(1);
        self.prefix_tokens + others * prompt_tokens
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.chains += other.chains;
        self.right += other.right;
        self.cut += other.cut;
        self.distinct += other.distinct;
        self.mixed += other.mixed;
        self.labels += other.labels;
        self.rollouts += other.rollouts;
        self.truncated += other.truncated;
        self.chain_tokens += other.chain_tokens;
        self.begun += other.begun;
        self.prefix_tokens += other.prefix_tokens;
    }
}
