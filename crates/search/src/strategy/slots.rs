//! The slots of a beam, shared by the strategies that keep the best chains.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::aggregation::Aggregation;
use crate::config::SearchConfig;
use crate::error::ConfigError;
use crate::numbers::is_default;
use crate::tree::{ChainTree, NodeId, State};

/// The settings of strategies that keep the best chains in slots, a table in a configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct BeamConfig {
    /// The number of slots that the copies of a text may hold.
    #[serde(skip_serializing_if = "is_default")]
    pub copies: Copies,
    /// The distance below the last slot, in logits ([`logits_below`]), from which early rejection in
    /// a beam rejects a step by its beginning; 0: every step without a slot is rejected.
    #[serde(skip_serializing_if = "is_default")]
    pub margin: f32,
}

/// Returns the distance in logits by which `score` is below `cutoff`; negative if it is above.
/// Scores are clamped to `1e-6..=1.0 - 1e-6`.
pub fn logits_below(cutoff: f32, score: f32) -> f64 {
    fn logit(score: f32) -> f64 {
        let p = f64::from(score).clamp(1e-6, 1.0 - 1e-6);
        (p / (1.0 - p)).ln()
    }
    logit(cutoff) - logit(score)
}

/// The number of slots that a text gets when it was sampled several times under one parent.
///
/// Written as `"slots"`, `"cap:2"` or `"distinct"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Copies {
    /// One slot for each copy: a text sampled k times holds up to k slots, as its copies would
    /// separately. This is search-and-learn's `filter_duplicates: false`.
    #[default]
    Slots,
    /// One slot for each copy, but at most this many.
    Cap(usize),
    /// One slot: all chains that continue differ. This is search-and-learn's
    /// `filter_duplicates: true`.
    Distinct,
}

impl Copies {
    /// Returns the most slots of a text that was sampled `copies` times.
    pub fn slots(self, copies: usize) -> usize {
        match self {
            Self::Slots => copies,
            Self::Cap(most) => copies.min(most),
            Self::Distinct => copies.min(1),
        }
    }
}

impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots => f.write_str("slots"),
            Self::Cap(most) => write!(f, "cap:{most}"),
            Self::Distinct => f.write_str("distinct"),
        }
    }
}

impl FromStr for Copies {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let cap = text.strip_prefix("cap:").and_then(|most| most.parse().ok());
        match (text, cap) {
            ("slots", _) => Ok(Self::Slots),
            ("distinct", _) => Ok(Self::Distinct),
            (_, Some(most)) if most > 0 => Ok(Self::Cap(most)),
            _ => {
                let known = ["slots", "cap:2 (or another number)", "distinct"];
                Err(ConfigError::unknown("rule for copies", text, known))
            }
        }
    }
}

impl TryFrom<String> for Copies {
    type Error = ConfigError;

    fn try_from(text: String) -> Result<Self, ConfigError> {
        text.parse()
    }
}

impl From<Copies> for String {
    fn from(copies: Copies) -> Self {
        copies.to_string()
    }
}

/// The slots of a search, and the rule by which they are given to chains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slots {
    /// N/M, the number of slots.
    pub count: usize,
    copies: Copies,
    aggregation: Aggregation,
}

/// The chains with and without slots, after slots were given to candidates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Kept {
    /// Open and paused chains with a slot, each with its number of slots, best first.
    pub survivors: Vec<(NodeId, usize)>,
    /// The number of slots of complete chains.
    pub completed: usize,
    /// Open and paused chains without a slot.
    pub pruned: Vec<NodeId>,
}

impl Slots {
    pub(super) fn of(config: &SearchConfig) -> Self {
        Self {
            count: config.n / config.m,
            copies: config
                .beam
                .as_ref()
                .map(|beam| beam.copies)
                .unwrap_or_default(),
            aggregation: config.aggregation,
        }
    }

    /// Returns the most slots of a text that `copies` candidates have.
    pub(super) fn wanted_by(self, copies: usize) -> usize {
        self.copies.slots(copies)
    }

    /// Returns the most slots of a node's text.
    pub(super) fn wanted(self, tree: &ChainTree, node: NodeId) -> usize {
        self.wanted_by(tree.node(node).copies)
    }

    /// Sorts candidates by score, best first.
    pub(super) fn sort(self, tree: &ChainTree, candidates: &mut [NodeId]) {
        tree.sort_by_score(candidates, self.aggregation);
    }

    /// Gives the slots to the best chains of `candidates` by score. A text that was sampled several
    /// times is scored and kept once, and gets as many slots as the rule for copies says.
    pub(super) fn keep(self, tree: &ChainTree, mut candidates: Vec<NodeId>) -> Kept {
        self.sort(tree, &mut candidates);
        self.place(tree, candidates)
    }

    /// Gives the slots to the chains of `ranked`, in this order. A finished chain takes slots, too,
    /// but no step is sampled for them.
    pub(super) fn place(self, tree: &ChainTree, ranked: Vec<NodeId>) -> Kept {
        let mut kept = Kept::default();
        let mut free = self.count;
        for id in ranked {
            let taken = self.wanted(tree, id).min(free);
            free -= taken;
            match (matches!(tree.node(id).state, State::Finished(_)), taken) {
                (true, _) => kept.completed += taken,
                (false, 0) => kept.pruned.push(id),
                (false, _) => kept.survivors.push((id, taken)),
            }
        }
        kept
    }

    /// Takes the chains without a slot that score less than `margin` logits below the last slot.
    pub(super) fn take_near(self, tree: &ChainTree, kept: &mut Kept, margin: f32) -> Vec<NodeId> {
        let score = |&id: &NodeId| tree.chain_score(id, self.aggregation).unwrap_or(0.0);
        let Some(cutoff) = kept.survivors.last().map(|(id, _)| score(id)) else {
            return Vec::new();
        };
        let pruned = std::mem::take(&mut kept.pruned);
        let (near, far) = pruned
            .into_iter()
            .partition(|id| logits_below(cutoff, score(id)) < f64::from(margin));
        kept.pruned = far;
        near
    }

    /// Returns the number of steps to sample in a round of a beam: N, less the part for the slots
    /// of complete chains.
    pub(super) fn budget(self, n: usize, completed: usize) -> usize {
        let growing = self.count.saturating_sub(completed);
        shares(n, self.count).take(growing).sum()
    }
}
/// Divides `steps` among chains in proportion to their slots, in the order of the chains.
pub(super) fn divide(
    chains: &[(NodeId, usize)],
    steps: usize,
) -> impl Iterator<Item = (NodeId, usize)> {
    let mut shares = shares(steps, chains.iter().map(|&(_, slots)| slots).sum());
    chains
        .iter()
        .map(move |&(node, slots)| (node, shares.by_ref().take(slots).sum()))
}

/// Splits `total` into `parts` that differ by at most one, larger parts first.
pub(crate) fn shares(total: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |i| total / parts + usize::from(i < total % parts))
}

#[cfg(test)]
mod tests;
