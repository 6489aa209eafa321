//! The steps of a search as a page is told of them.

use std::collections::BTreeMap;

use beamgen_eval::{Record, RunHeader};
use beamgen_search::{Aggregation, ChainTree, Finish, NodeId, Pruned, State};
use serde::{Deserialize, Serialize};

/// Says whether the last of a chain's steps is right, for problems whose steps can be checked. It
/// is given the problem's text and the chain.
pub type Check<'a> = &'a dyn Fn(&str, &[&str]) -> Option<bool>;

/// No problem's steps can be checked.
pub fn unchecked(_problem: &str, _chain: &[&str]) -> Option<bool> {
    None
}

/// How a run folded the scores of a chain's steps to that of the chain.
#[must_use]
pub fn aggregation(header: &RunHeader) -> Aggregation {
    let search = header.settings.get("search");
    let written =
        search.and_then(|search| Aggregation::deserialize(search.get("aggregation")?).ok());
    written.unwrap_or_default()
}

/// The steps of a search, parents before children, from the root; a step's id is its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// All steps of the tree; without a tree, the chosen chain alone.
    pub steps: Vec<Step>,
    /// The last step of the chosen chain.
    pub chosen: Option<u32>,
    /// Whether the record has a tree.
    pub has_tree: bool,
}

/// A step, as in a run file, but for its tokens, which are only counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The step before it.
    pub parent: Option<u32>,
    /// Its text, boundary included.
    pub text: String,
    /// The scorer's probability that it is right.
    pub score: Option<f32>,
    /// The one it had in the middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_score: Option<f32>,
    /// What each of several judges said, by name; `None` for one that abstained.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub judges: BTreeMap<String, Option<f32>>,
    /// The quantiles of its probability of success: 10, 50 and 90 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<[f32; 3]>,
    /// The score of the chain that ends with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_score: Option<f32>,
    /// Whether it is known to be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<bool>,
    /// How many tokens it has.
    pub tokens: usize,
    /// The sum of their log-probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprob: Option<f32>,
    /// How many siblings were sampled with this text.
    pub copies: usize,
    /// The strategy's round in which it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Why it was pruned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruned: Option<Pruned>,
    /// The earlier sibling that stands for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<u32>,
    /// What became of it.
    #[serde(flatten)]
    pub state: State,
}

impl Search {
    /// The steps of a record's tree, or of its chosen chain if it has no tree.
    #[must_use]
    pub fn of(record: &Record, aggregation: Aggregation, check: Check<'_>) -> Self {
        let mut search = match &record.tree {
            Some(tree) => Self::of_tree(record, tree, aggregation),
            None => Self::of_chain(record),
        };
        for id in 0..search.steps.len() as u32 {
            // An empty step (the end of the text) is neither right nor wrong.
            if !search.is_empty_step(id) {
                let chain = search.chain(id);
                let texts: Vec<&str> = chain.iter().map(|&id| search.text(id)).collect();
                search.steps[id as usize].label = check(&record.problem, &texts);
            }
        }
        search
    }

    fn of_tree(record: &Record, tree: &ChainTree, aggregation: Aggregation) -> Self {
        let step = |(id, node): (NodeId, &beamgen_search::Node)| Step {
            parent: node.parent.map(|parent| parent.0),
            text: node.text.clone(),
            score: node.score,
            partial_score: node.partial_score,
            judges: node.judges.clone(),
            quantiles: node.quantiles,
            chain_score: tree.chain_score(id, aggregation),
            label: None,
            tokens: node.tokens.len(),
            logprob: node.parent.is_some().then_some(node.logprob),
            copies: node.copies,
            round: node.round,
            pruned: node.pruned,
            duplicate_of: node.duplicate_of.map(|id| id.0),
            state: node.state,
        };
        let mut search = Self {
            steps: tree.nodes().map(step).collect(),
            chosen: None,
            has_tree: true,
        };
        search.chosen = search.chosen_of(record);
        search
    }

    fn of_chain(record: &Record) -> Self {
        let step = |parent, text: &str, score, judges, state| Step {
            parent,
            text: text.to_owned(),
            score,
            partial_score: None,
            judges,
            quantiles: None,
            chain_score: None,
            label: None,
            tokens: 0,
            logprob: None,
            copies: 1,
            round: None,
            pruned: None,
            duplicate_of: None,
            state,
        };
        let mut steps = vec![step(None, "", None, BTreeMap::new(), State::Expanded)];
        for (at, of) in record.steps.iter().enumerate() {
            let (parent, judges) = (Some(at as u32), of.judges.clone());
            steps.push(step(parent, &of.text, of.score, judges, State::Expanded));
        }
        let last = steps.len() - 1;
        let finish = serde_json::from_value::<Finish>(record.finish.as_str().into());
        if let Ok(finish) = finish
            && last > 0
        {
            steps[last].state = State::Finished(finish);
        }
        Self {
            steps,
            chosen: (last > 0).then_some(last as u32),
            has_tree: false,
        }
    }

    /// The end of the chosen chain: the record names it beside its answer. Without an answer it is
    /// found by its text.
    fn chosen_of(&self, record: &Record) -> Option<u32> {
        if let Some(answer) = record.answers.first() {
            return ((answer.node.0 as usize) < self.steps.len()).then_some(answer.node.0);
        }
        let wanted: Vec<&str> = record.steps.iter().map(|step| step.text.as_str()).collect();
        let ids = 1..self.steps.len() as u32;
        ids.filter(|&id| !wanted.is_empty() && !self.is_empty_step(id))
            .find(|&id| {
                let chain = self.chain(id).into_iter();
                chain.map(|id| self.text(id)).eq(wanted.iter().copied())
            })
    }

    /// The steps from the first one to `id`, without empty ones.
    #[must_use]
    pub fn chain(&self, id: u32) -> Vec<u32> {
        let mut chain = Vec::new();
        let mut at = id;
        while let Some(parent) = self.steps[at as usize].parent {
            if !self.is_empty_step(at) {
                chain.push(at);
            }
            at = parent;
        }
        chain.reverse();
        chain
    }

    /// A step's text without its boundary and blank lines before it, as records have it.
    #[must_use]
    pub fn text(&self, id: u32) -> &str {
        let text = &self.steps[id as usize].text;
        text.trim_start_matches('\n').trim_end()
    }

    fn is_empty_step(&self, id: u32) -> bool {
        self.steps[id as usize].text.trim().is_empty()
    }
}
