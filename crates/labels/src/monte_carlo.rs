//! Monte Carlo labels: chains, and rollouts from behind their steps, in one search.
//!
//! [`MonteCarlo`] is a strategy of the search. It samples chains to their end, and then further
//! completions (rollouts) from behind their steps. A rollout begins with a fork of the cache that
//! the chain left there, so no token of a prefix is read again, and the rollouts of all problems in
//! flight share every forward pass. The strategy grades what comes to its end; the search itself
//! knows nothing of the answer.
//!
//! The draws of a step do not depend on the mode: the first draws of [`Mode::All`] are the draws of
//! [`Mode::Early`].

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

/// What is sampled for each problem.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MonteCarlo {
    /// Chains. Chains of the same text are one in what comes out, and so are common prefixes.
    pub chains: usize,
    /// Rollouts from behind a step; [`Mode`] says when they are fewer or more. With 0 the chains have
    /// their outcomes alone.
    pub rollouts: u32,
    /// Which steps, and how many rollouts of each.
    pub mode: Mode,
    /// For [`Mode::Binary`]: in how many wrong rollouts, chosen by `OmegaPRM`'s rule, the first error
    /// is searched as well, beside the chains. They come out as chains with the source `rollout`.
    pub searches: u32,
    /// Which chains are rolled out, by the scores of a reward model; `None` is all. Not beside
    /// searches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mine: Option<Mine>,
    /// Whether problems whose chains are all right or all wrong are left out: they get no rollouts,
    /// and no chain of them comes out. A reward model chooses among a problem's chains, and there
    /// is nothing to choose among these. `OmegaPRM` (2406.06592) leaves out too easy and too hard
    /// ones, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mixed: bool,
}

/// Hard examples for a reward model, found by itself: of each problem the wrong chains that it
/// rates highest, and as many right ones that it rates lowest. Only they are rolled out and come
/// out. Chains without a wrong one among them are all left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mine {
    /// Most wrong chains of a problem.
    pub wrong: usize,
    /// What a chain's score is.
    pub aggregation: Aggregation,
}

impl Default for MonteCarlo {
    /// 4 chains, 8 rollouts (Math-Shepherd, 2312.08935), of all steps.
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

/// Which steps are rolled out, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Every step, each with as many rollouts.
    #[default]
    All,
    /// Every step, until a rollout is right: the hard label is settled then. The rollouts are
    /// drawn in waves that double; what grows when one is right is dropped. The share k / n is
    /// biased, so only the hard label means something.
    Early,
    /// Binary search for the first error of each wrong chain (`OmegaPRM`, 2406.06592): if a rollout
    /// from behind the step in the middle is right, the error is behind it, else before. A right
    /// chain has no error to search for.
    Binary,
    /// Every step, with more rollouts where few chains are right (`GenPRM`, 2504.00891): 4 times as
    /// many where less than 0.1 of the problem's chains are right, twice as many below 0.9.
    Adaptive,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::All, Self::Early, Self::Binary, Self::Adaptive];

    /// The name used in configuration, e.g. `"early"`.
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

/// Whether the text of a chain that came to its own end is right.
pub type Grader = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The grader that compares a chain's answer with the reference. An answer that cannot be compared
/// counts as wrong, and so does a chain without an answer.
#[must_use]
pub fn graded_by_answer(reference: String) -> Grader {
    Arc::new(move |text| {
        let found = answer::extract(text);
        found.is_some_and(|found| answer::compare(&found.text, &reference) == Verdict::Same)
    })
}

impl MonteCarlo {
    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// No chains, or mining for no chains, or a binary search without rollouts.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_count("chains", self.chains)?;
        ConfigError::check_count("mine", self.mine.map_or(1, |mine| mine.wrong))?;
        // Without rollouts there is no search for an error.
        let is_idle = self.mode == Mode::Binary && self.rollouts == 0;
        ConfigError::check_count("rollouts", usize::from(!is_idle))
    }

    /// The labelling of one problem.
    #[must_use]
    pub fn labelling(self, is_right: Grader) -> Labelling {
        Labelling {
            options: self,
            is_right,
            sampled: Arc::default(),
        }
    }
}

/// The labelling of one problem: its strategy before the search, its labels afterwards.
#[derive(Clone)]
pub struct Labelling {
    options: MonteCarlo,
    is_right: Grader,
    sampled: Arc<Mutex<Sampled>>,
}

impl Labelling {
    /// The strategy of the problem's request. One made later starts the labelling anew, as the
    /// search wants it when it sets a problem back.
    #[must_use]
    pub fn strategy(&self) -> Box<dyn Strategy> {
        Box::new(Labeller::new(
            self.options,
            self.is_right.clone(),
            self.sampled.clone(),
        ))
    }

    /// What was sampled by now, whether or not the search came to its end.
    #[must_use]
    pub fn labels(&self, problem: &Problem, seed: u64, policy: &Policy) -> Labels {
        lock(&self.sampled).labels(self.options, problem, seed, policy)
    }
}

/// The labelled chains of a problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// The distinct chains with at least one whole step, in the order of their draws.
    pub chains: Vec<LabelledChain>,
    /// What was sampled for them.
    pub counts: Counts,
}

/// What was sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Chains, equal ones counted, and rollouts that were searched like chains not.
    pub chains: u64,
    /// Those of them that are right.
    pub right: u64,
    /// Those that a limit cut: neither right nor wrong.
    pub cut: u64,
    /// Distinct chains that come out: with [`Mine`] those that were chosen, with
    /// [`MonteCarlo::mixed`] those of mixed problems.
    pub distinct: u64,
    /// Problems with right and wrong chains.
    #[serde(default)]
    pub mixed: u64,
    /// Distinct prefixes with at least one rollout to its end.
    pub labels: u64,
    /// Rollouts that came to their own end.
    pub rollouts: u64,
    /// Further rollouts that a length limit cut: neither right nor wrong.
    pub truncated: u64,
    /// Tokens of the chains. What else was generated is rollouts.
    pub chain_tokens: u64,
    /// Rollouts that were begun, those that were dropped counted.
    pub begun: u64,
    /// Tokens of the prefixes in front of them, once for each.
    pub prefix_tokens: u64,
}

impl Counts {
    /// Tokens that would be read again, for one problem, if each chain and each rollout began with
    /// its own prompt and prefix instead of a fork.
    #[must_use]
    pub fn spared_tokens(&self, prompt_tokens: u64) -> u64 {
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
