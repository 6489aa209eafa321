//! The steps of a search in the form that pages show.

use std::collections::BTreeMap;

use beamgen_eval::{Record, RunHeader};
use beamgen_search::{Aggregation, ChainTree, Finish, Pruned, State, Thought};
use serde::{Deserialize, Serialize};

/// A function that decides whether the last step of a chain is right, given the problem's text and
/// the texts of the chain. `None` if the problem's steps cannot be checked.
pub type Check<'a> = &'a dyn Fn(&str, &[&str]) -> Option<bool>;

/// The [`Check`] for problems whose steps cannot be checked; always returns `None`.
pub fn unchecked(_problem: &str, _chain: &[&str]) -> Option<bool> {
    None
}

/// Returns the function by which a run combined the scores of a chain's steps; the default if the
/// run's header does not name one.
#[must_use]
pub fn aggregation(header: &RunHeader) -> Aggregation {
    let search = header.settings.get("search");
    let written =
        search.and_then(|search| Aggregation::deserialize(search.get("aggregation")?).ok());
    written.unwrap_or_default()
}

/// The steps of a search. A step's id is its index; parents come before their children.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The root and all other steps of the tree. Without a tree, the root and the chosen chain.
    pub steps: Vec<Step>,
    /// The id of the last step of the chosen chain; `None` if no chain was chosen.
    pub chosen: Option<u32>,
    /// Whether the record has a tree.
    pub has_tree: bool,
}

/// A step as recorded in a run file, with a count in place of its tokens.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The id of the previous step; `None` for the root.
    pub parent: Option<u32>,
    /// The text with the boundary that ended the step.
    pub text: String,
    /// The thought at the beginning of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought: Option<Thought>,
    /// The scorer's probability that the step is right; `None` if the step was not scored.
    pub score: Option<f32>,
    /// The score of the unfinished step; only with early rejection, which may ask for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_score: Option<f32>,
    /// The score of each judge, by name; `None` for a judge that abstained.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub judges: BTreeMap<String, Option<f32>>,
    /// The 10, 50 and 90 % quantiles of the probability that the chain will succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<[f32; 3]>,
    /// The combined score of the chain up to this step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_score: Option<f32>,
    /// The verdict of an exact check on the step; `None` if the step cannot be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<bool>,
    /// The number of tokens; 0 if the run recorded no tree.
    pub tokens: usize,
    /// The sum of the log-probabilities of the step's tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprob: Option<f32>,
    /// V: the mean worth of the step's rollouts, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f32>,
    /// Whether the step belongs to a rollout.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_rollout: bool,
    /// The number of equal siblings that were sampled and merged into this step, itself included.
    pub copies: usize,
    /// The round of the strategy that requested the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// The rank or cut-off by which the step was pruned, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruned: Option<Pruned>,
    /// The id of an equal earlier sibling, from which the search continues instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<u32>,
    /// The state in which the search left the step.
    #[serde(flatten)]
    pub state: State,
}

impl Search {
    /// Reads the steps of a record's tree, or of its chosen chain if the record has no tree.
    #[must_use]
    pub fn of(record: &Record, aggregation: Aggregation, check: Check<'_>) -> Self {
        let mut search = match &record.tree {
            Some(tree) => Self::of_tree(record, tree, aggregation),
            None => Self::of_chain(record),
        };
        for (id, label) in search.checked(&record.problem, check) {
            search.steps[id as usize].label = label;
        }
        search
    }

    /// Returns the verdict of `check` on each step that has a text; an empty step (the end of the
    /// text) is neither right nor wrong. The check gets the chain from its first step, since a step
    /// may be wrong only because of an earlier one.
    fn checked(&self, problem: &str, check: Check<'_>) -> Vec<(u32, Option<bool>)> {
        let mut children = vec![Vec::new(); self.steps.len()];
        let mut todo = Vec::new();
        for (id, step) in (0..).zip(&self.steps) {
            match step.parent {
                Some(parent) => children[parent as usize].push(id),
                None => todo.push((id, 0)),
            }
        }
        // Depth first, with the texts above the step: collecting them anew for each step would cost
        // the square of the length of a chain.
        let (mut texts, mut found) = (Vec::new(), Vec::new());
        while let Some((id, above)) = todo.pop() {
            texts.truncate(above);
            let has_parent = self.steps[id as usize].parent.is_some();
            if has_parent && !self.is_empty_step(id) {
                texts.push(self.text(id));
                found.push((id, check(problem, &texts)));
            }
            let below = children[id as usize].iter();
            todo.extend(below.map(|&child| (child, texts.len())));
        }
        found
    }

    fn of_tree(record: &Record, tree: &ChainTree, aggregation: Aggregation) -> Self {
        let steps = tree.nodes().map(|(id, node)| Step {
            parent: node.parent.map(|parent| parent.0),
            text: node.text.clone(),
            thought: node.thought,
            score: node.score,
            partial_score: node.partial_score,
            judges: node.judges.clone(),
            quantiles: node.quantiles,
            chain_score: tree.chain_score(id, aggregation),
            label: None,
            tokens: node.tokens.len(),
            // The root is the prompt, which was not sampled and has no log-probability.
            logprob: node.parent.is_some().then_some(node.logprob),
            value: node.value,
            is_rollout: node.is_rollout,
            copies: node.copies,
            round: node.round,
            pruned: node.pruned,
            duplicate_of: node.duplicate_of.map(|id| id.0),
            state: node.state,
        });
        let mut search = Self {
            steps: steps.collect(),
            chosen: None,
            has_tree: true,
        };
        search.chosen = search.chosen_of(record);
        search
    }

    fn of_chain(record: &Record) -> Self {
        let step = |parent, text: String, thought: &str, score, judges, state| Step {
            parent,
            text,
            thought: (!thought.is_empty()).then(|| Thought {
                bytes: thought.len(),
                ..Thought::default()
            }),
            score,
            partial_score: None,
            judges,
            quantiles: None,
            chain_score: None,
            label: None,
            tokens: 0,
            logprob: None,
            value: None,
            is_rollout: false,
            copies: 1,
            round: None,
            pruned: None,
            duplicate_of: None,
            state,
        };
        // Pages expect a root, which a recorded chain does not have.
        let mut steps = vec![step(
            None,
            String::new(),
            "",
            None,
            BTreeMap::new(),
            State::Expanded,
        )];
        for (at, recorded) in record.steps.iter().enumerate() {
            let (parent, judges) = (Some(at as u32), recorded.judges.clone());
            let (thought, score) = (recorded.thought.as_deref(), recorded.score);
            let thought = thought.unwrap_or_default();
            let text = [thought, &recorded.text].concat();
            steps.push(step(parent, text, thought, score, judges, State::Expanded));
        }
        let last = steps.len() - 1;
        let finish = serde_json::from_value::<Finish>(record.finish.as_str().into());
        // A newer version may have written an end that this version does not know.
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

    /// Returns the end of the chosen chain. A record with an answer names the node; otherwise the
    /// chain is found by its text.
    fn chosen_of(&self, record: &Record) -> Option<u32> {
        if let Some(answer) = record.answers.first() {
            // The file may be damaged or foreign, so the id may be out of range.
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

    /// Returns the ids of the steps from the first one to `id`. The root and empty steps are left
    /// out.
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

    /// Returns a step's text as records have it: without its thought, leading line breaks and
    /// trailing white space.
    #[must_use]
    pub fn text(&self, id: u32) -> &str {
        let step = &self.steps[id as usize];
        let spoken = step.thought.map_or(0, |thought| thought.bytes);
        let text = step.text.get(spoken..).unwrap_or_default();
        text.trim_start_matches('\n').trim_end()
    }

    fn is_empty_step(&self, id: u32) -> bool {
        self.steps[id as usize].text.trim().is_empty()
    }
}
