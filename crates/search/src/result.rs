use std::fmt;

use serde::{Deserialize, Serialize};

use crate::choose::{Choose, FinishedChain, choose, ranked};
use crate::ledger::Ledger;
use crate::numbers::{is_default, number_or_nan};
use crate::outcome::OutcomeKind;
use crate::problem::Problem;
use crate::tree::{ChainTree, Node, NodeId};

/// The outcome of one problem: its answer, its chains and its cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProblemResult {
    /// The problem's position in the input, from 0.
    pub index: usize,
    /// The problem as it was given.
    pub problem: Problem,
    /// All steps that were sampled, numbered in depth-first order.
    pub tree: ChainTree,
    /// All chains that ended, incomplete ones included, in depth-first order.
    pub finished: Vec<FinishedChain>,
    /// The last node of the chain to show: the chain whose answer was chosen or, without an answer,
    /// the best chain.
    pub chosen: Option<NodeId>,
    /// The chosen answer. `None` if no complete chain has an answer, or if it is withheld.
    pub answer: Option<String>,
    /// Whether the answer is a guess: nothing in the chosen chain marks it as the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_guess: bool,
    /// The chosen answer, if it is withheld because its chain scores below the threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// The first step of the chosen chain that is known to be wrong. Set only if chains were
    /// checked for such steps, and the chain has an answer or would have one without that step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsound: Option<Unsound>,
    /// The name of the verifier that judged the chains. `None` if the answer is to be compared with
    /// the problem's reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<String>,
    /// The answers that took part in the choice, with their votes. The chosen answer comes first,
    /// the others by falling votes, then by falling score.
    #[serde(default)]
    pub answers: Vec<AnswerVotes>,
    /// The score of the chosen chain; `None` if no step of it was scored.
    pub score: Option<f32>,
    /// The reason why the problem was refused or failed, for example a prompt longer than the
    /// context.
    pub error: Option<String>,
    /// Whether the problem was refused because its prompt exceeds a model's context.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub too_long: bool,
    /// The reason why the search was ended early; the result has the chains that existed by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// The number of chains lost because memory was short. With more memory the result may differ.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost_to_memory: usize,
    /// The number of verdicts lost because a checker's program failed. Without the failure the
    /// result may differ.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost_verdicts: usize,
    /// The number of chains that were still growing when the search stopped at a chain that the
    /// verifier called right; `None` if it did not stop there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spared_chains: Option<usize>,
    /// The cost of this problem's search; shared passes and calls are split among the problems in
    /// them.
    pub ledger: Ledger,
    /// Wall-clock seconds from admission to the result.
    pub elapsed: f64,
}

impl ProblemResult {
    /// Returns the text that was sampled for the chain of `node`: the chain's text without the
    /// problem's given steps and prefix.
    pub fn written(&self, node: NodeId) -> String {
        let mut text = self.tree.text(node);
        let path = self.tree.path(node);
        let steps = path.iter().take(self.problem.steps.len());
        let steps: usize = steps.map(|&id| self.tree.node(id).text.len()).sum();
        let given = (steps + self.problem.prefix.len()).min(text.len());
        // A chain that ended early may end within the prefix.
        let at = (given..text.len()).find(|&at| text.is_char_boundary(at));
        text.split_off(at.unwrap_or(text.len()))
    }
}

/// A fault that makes a chain unsound: a step that is known to be wrong, whatever the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unsound {
    /// The step's number in its chain, from 0; steps without text do not count.
    pub step: usize,
    /// The kind of evidence against the step.
    pub by: Evidence,
    /// The name of the checker, the set of labels or the scorer.
    pub source: String,
    /// The reason why the step is wrong, in one line.
    pub reason: String,
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, reason, .. } = self;
        write!(f, "step {}, {source}: {reason}", self.step + 1)
    }
}

/// The kinds of evidence against a step, the most trusted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// A checker proves the step wrong.
    Checker,
    /// A label calls the step wrong.
    Label,
    /// The scorer puts the step below a stated bound.
    Scorer,
}

impl Evidence {
    /// All kinds, the most trusted first.
    pub const ALL: [Self; 3] = [Self::Checker, Self::Label, Self::Scorer];

    /// Returns the name used in files, such as `"checker"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Checker => "checker",
            Self::Label => "label",
            Self::Scorer => "scorer",
        }
    }

    /// Returns the words for steps of this kind: "a step that a checker proves wrong".
    pub fn words(self) -> &'static str {
        match self {
            Self::Checker => "a step that a checker proves wrong",
            Self::Label => "a step that a label calls wrong",
            Self::Scorer => "a step that the scorer puts below the bound",
        }
    }
}

/// An answer with its votes: the chains that give it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerVotes {
    /// The text of the answer in the best chain that gives it.
    pub answer: String,
    /// The number of chains that give the answer, with all copies of a text.
    pub votes: usize,
    /// The sum of the scores of these chains, with all copies: the weight in a weighted vote.
    #[serde(deserialize_with = "number_or_nan")]
    pub weight: f64,
    /// The score of the best of these chains; `None` if nothing was scored.
    pub score: Option<f32>,
    /// The last node of the best of these chains in the problem's tree.
    pub node: NodeId,
    /// The verifier's finding about the best of these chains; `None` if no verifier judged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeKind>,
}

/// The reason why a search ended before its strategy was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Stopped {
    /// The request's [`CancelToken`](crate::CancelToken) was cancelled.
    Cancelled,
    /// The run's clock passed the request's deadline.
    Deadline,
}

impl ProblemResult {
    /// Makes the result of a problem that was not searched, without chains.
    pub fn unsearched(index: usize, problem: Problem) -> Self {
        Self {
            index,
            problem,
            ..Self::default()
        }
    }

    /// Returns the steps of the chosen chain, without empty steps; no steps if no chain is chosen.
    pub fn steps(&self) -> Vec<&Node> {
        self.chosen
            .map(|node| self.tree.steps(node).collect())
            .unwrap_or_default()
    }

    /// Returns the chosen chain; `None` if no chain is chosen or the chosen one did not end.
    pub fn chosen_chain(&self) -> Option<&FinishedChain> {
        let chosen = self.chosen?;
        self.finished.iter().find(|chain| chain.node == chosen)
    }

    /// Returns the chain that another rule for the choice takes from the same search, among the
    /// `chains` best.
    pub fn choose(&self, how: Choose, chains: usize) -> Option<&FinishedChain> {
        choose_capped(&self.finished, how, chains).map(|i| &self.finished[i])
    }

    /// Returns the chain that best-of-`k` would have chosen. Meaningful for a result of best-of-N
    /// with N >= `k`, whose chains are independent and in the order of their streams.
    pub fn choose_first(&self, k: usize, how: Choose) -> Option<&FinishedChain> {
        let first = &self.finished[..k.min(self.finished.len())];
        choose(first, how).map(|i| &first[i])
    }
}

/// Chooses among the `limit` chains with the best scores. A search can end more chains than its N;
/// the chains beyond N have no vote.
pub(crate) fn choose_capped(chains: &[FinishedChain], how: Choose, limit: usize) -> Option<usize> {
    let mut best = ranked(chains);
    best.truncate(limit);
    // In the order of the chains again, since ties go to the earlier chain.
    best.sort_unstable();
    let pool: Vec<FinishedChain> = best.iter().map(|&i| chains[i].clone()).collect();
    choose(&pool, how).map(|i| best[i])
}

/// Returns the answers among which [`choose_capped`] chooses; the one that `chosen` gives comes
/// first.
pub(crate) fn answer_votes(
    chains: &[FinishedChain],
    chosen: Option<usize>,
    limit: usize,
) -> Vec<AnswerVotes> {
    let mut best_first = ranked(chains);
    best_first.truncate(limit);
    let mut classes: Vec<(Option<&str>, AnswerVotes)> = Vec::new();
    for chain in best_first.into_iter().map(|i| &chains[i]) {
        let class = chain.class.as_deref();
        // Summed in f64 and in the same order as in `choose`, so that both report the same winner.
        let weight = f64::from(chain.score.unwrap_or(0.0)) * chain.copies as f64;
        if let Some((_, known)) = classes.iter_mut().find(|(name, _)| *name == class) {
            known.votes += chain.copies;
            known.weight += weight;
            continue;
        }
        let first = AnswerVotes {
            answer: chain.answer.clone().unwrap_or_default(),
            votes: chain.copies,
            weight,
            score: chain.score,
            node: chain.node,
            outcome: chain.outcome.as_ref().map(|outcome| outcome.kind),
        };
        classes.push((class, first));
    }
    // The classes are in the order of their best chains, which a stable sort keeps.
    let chosen = chosen.map(|i| chains[i].class.as_deref());
    classes.sort_by_key(|(class, votes)| {
        let is_rival = chosen != Some(*class);
        (is_rival, std::cmp::Reverse(votes.votes))
    });
    classes.into_iter().map(|(_, votes)| votes).collect()
}

/// The outcome of a run in numbers: problems by outcome, and the total cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunSummary {
    /// The number of results that were handed to the caller, failed problems included.
    pub problems: usize,
    /// The number of problems that were refused or failed.
    pub failed: usize,
    /// The number of problems that were cancelled or reached their deadline.
    #[serde(default)]
    pub stopped: usize,
    /// The number of problems that lost chains because memory was short.
    #[serde(default)]
    pub memory_limited: usize,
    /// The number of problems that lost verdicts because a checker's program failed.
    #[serde(default)]
    pub checker_limited: usize,
    /// The number of problems with an answer.
    pub answered: usize,
    /// The number of times that a problem was set back and started again because memory ran out. The
    /// cost of the abandoned start is only in this ledger, not in the problem's.
    pub restarts: usize,
    /// The cost of all problems, work that was abandoned included.
    pub ledger: Ledger,
    /// The wall-clock seconds from the start of the run to its end.
    pub elapsed: f64,
}
