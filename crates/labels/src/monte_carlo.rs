//! Monte Carlo labels: chains and rollouts from their steps, sampled in one search.
//!
//! [`MonteCarlo`] is a strategy of the search. It samples chains to their end, and then further
//! completions (rollouts) from their steps. A rollout begins with a fork of the cache that the
//! chain left, so no token of a prefix is read again. The rollouts of all problems in flight share
//! every forward pass. The strategy grades complete texts; the search itself knows nothing of the
//! answer.
//!
//! The rollouts of a step do not depend on the mode: [`Mode::Early`] samples a beginning of the
//! rollouts of [`Mode::All`].

mod bisect;
mod mine;
mod pool;
mod sampled;
mod strategy;

use std::sync::{Arc, Mutex};

use beamgen_eval::{Verdict, answer};
use beamgen_search::{Aggregation, ConfigError, Problem, Strategy};
use serde::{Deserialize, Serialize};

use crate::{LabelledChain, Policy};
use sampled::Sampled;
use strategy::{Labeller, lock};

/// The settings of the labelling of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MonteCarlo {
    /// The number of chains to sample. Equal chains become one labelled chain, and equal prefixes
    /// share their rollouts.
    pub chains: usize,
    /// The number of rollouts from each step, which [`Mode`] may lower or raise. With 0 the chains
    /// have only their outcomes.
    pub rollouts: u32,
    /// The choice of steps, and of the number of rollouts of each.
    pub mode: Mode,
    /// For [`Mode::Binary`]: the number of wrong rollouts, chosen by `OmegaPRM`'s rule, that are
    /// searched for their first error in addition to the chains. They become chains with the source
    /// `rollout`.
    pub searches: u32,
    /// The choice of chains to roll out by the scores of a reward model; `None` for all chains.
    /// Cannot be combined with `searches`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mine: Option<Mine>,
    /// Whether problems whose chains are all right or all wrong are left out: they get no rollouts
    /// and no labelled chains. Such problems teach a reward model nothing about choosing among
    /// chains. `OmegaPRM` (<https://arxiv.org/abs/2406.06592>) leaves out too easy and too hard
    /// problems, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mixed: bool,
}

/// Hard examples, mined by a reward model: the wrong chains of a problem that the model scores
/// highest, and equally many right chains that it scores lowest. Only these chains are rolled out
/// and labelled. Problems without a wrong chain are left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mine {
    /// The largest number of wrong chains of a problem.
    pub wrong: usize,
    /// The aggregation that makes a chain's score from the scores of its steps.
    pub aggregation: Aggregation,
}

impl Default for MonteCarlo {
    /// Returns 4 chains with 8 rollouts of every step (Math-Shepherd,
    /// <https://arxiv.org/abs/2312.08935>).
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

/// The steps that are rolled out, and the number of rollouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All steps, with equal numbers of rollouts.
    #[default]
    All,
    /// All steps, each until a rollout is right, which settles the hard label. Rollouts are sampled
    /// in waves that double, and those still growing when one is right are dropped. The share k / n
    /// is biased, so only the hard label is meaningful.
    Early,
    /// Binary search for the first error of each wrong chain (`OmegaPRM`,
    /// <https://arxiv.org/abs/2406.06592>). If a rollout from the middle step is right, the error
    /// is after that step, otherwise at or before it. Right chains are not searched.
    Binary,
    /// All steps, with more rollouts if few chains are right (`GenPRM`,
    /// <https://arxiv.org/abs/2504.00891>): 4 times as many if less than 0.1 of the problem's
    /// chains are right, twice as many below 0.9.
    Adaptive,
}

impl Mode {
    /// All modes, as help texts list them.
    pub const ALL: [Self; 4] = [Self::All, Self::Early, Self::Binary, Self::Adaptive];

    /// Returns the name used in configurations, such as `"early"`.
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

/// A function that tells whether the text of a complete chain is right.
pub type Grader = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Makes a grader that compares a chain's answer with the reference. A chain without an answer is
/// wrong, and so is one whose answer cannot be compared.
#[must_use]
pub fn graded_by_answer(reference: String) -> Grader {
    Arc::new(move |text| {
        let found = answer::extract(text);
        found.is_some_and(|found| answer::compare(&found.text, &reference) == Verdict::Same)
    })
}

impl MonteCarlo {
    /// Checks the settings.
    ///
    /// # Errors
    /// The number of chains is 0, or mining asks for no chains, or a binary search has no rollouts.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_count("chains", self.chains)?;
        ConfigError::check_count("mine", self.mine.map_or(1, |mine| mine.wrong))?;
        // A binary search is nothing but rollouts; the other modes without rollouts label outcomes.
        let is_idle = self.mode == Mode::Binary && self.rollouts == 0;
        ConfigError::check_count("rollouts", usize::from(!is_idle))
    }

    /// Starts the labelling of one problem.
    #[must_use]
    pub fn labelling(self, is_right: Grader) -> Labelling {
        Labelling {
            options: self,
            is_right,
            sampled: Arc::default(),
        }
    }
}

/// The labelling of one problem: it makes the strategy for the search and keeps the labels.
#[derive(Clone)]
pub struct Labelling {
    options: MonteCarlo,
    is_right: Grader,
    sampled: Arc<Mutex<Sampled>>,
}

impl Labelling {
    /// Makes the strategy for the problem's request. Each call starts the labelling again, which
    /// the search needs when it sets a problem back.
    #[must_use]
    pub fn strategy(&self) -> Box<dyn Strategy> {
        Box::new(Labeller::new(
            self.options,
            self.is_right.clone(),
            self.sampled.clone(),
        ))
    }

    /// Returns the labels from everything sampled so far, whether or not the search has ended.
    #[must_use]
    pub fn labels(&self, problem: &Problem, seed: u64, policy: &Policy) -> Labels {
        lock(&self.sampled).labels(self.options, problem, seed, policy)
    }
}

/// The labelled chains of a problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// The distinct chains with at least one whole step, in the order in which they were sampled.
    pub chains: Vec<LabelledChain>,
    /// Statistics of the sampling.
    pub counts: Counts,
}

/// Statistics of the sampling, which add up over problems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Sampled chains, equal chains included. Rollouts that were searched like chains do not count.
    pub chains: u64,
    /// Chains whose answer is right.
    pub right: u64,
    /// Chains cut off by a limit, which are neither right nor wrong.
    pub cut: u64,
    /// Distinct labelled chains: with [`Mine`] only mined chains, with [`MonteCarlo::mixed`] only
    /// chains of mixed problems.
    pub distinct: u64,
    /// Problems with both right and wrong chains.
    #[serde(default)]
    pub mixed: u64,
    /// Distinct prefixes with at least one complete rollout.
    pub labels: u64,
    /// Rollouts that came to their own end, whether right or wrong.
    pub rollouts: u64,
    /// Further rollouts that a length limit cut off, which are neither right nor wrong.
    pub truncated: u64,
    /// Tokens of the chains. All other generated tokens belong to rollouts.
    pub chain_tokens: u64,
    /// Rollouts that were begun, dropped ones included.
    pub begun: u64,
    /// Tokens of the prefixes before rollouts, counted once for each rollout.
    pub prefix_tokens: u64,
}

impl Counts {
    /// Returns the tokens of one problem that forks saved: those that would be read again if each
    /// chain and each rollout began with its own prompt and prefix.
    #[must_use]
    pub fn spared_tokens(&self, prompt_tokens: u64) -> u64 {
        // The first chain reads the prompt, and every other sample is a fork.
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
