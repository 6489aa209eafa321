//! What a problem's nodes hold in the models, and giving it back.

use super::Models;
use super::live::Live;
use crate::generator::ChainId;
use crate::scorer::ScoreId;
use crate::tree::NodeId;

/// What a node holds in the models, and how much of it is still owed to its children.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    pub chain: Option<ChainId>,
    pub score: Option<ScoreId>,
    /// Children still to be started from `chain`.
    pub unstarted: usize,
    /// Children still to be closed.
    pub unclosed: usize,
    /// Children that may still be scored from `score`.
    pub unscored: usize,
}

impl Live {
    pub(super) fn release(&mut self, node: NodeId, models: &mut Models<'_>) {
        if let Some(chain) = self.held(node).chain.take() {
            models.generator.release(chain);
        }
        self.release_score(node, models);
    }

    pub fn release_score(&mut self, node: NodeId, models: &mut Models<'_>) {
        if let Some(id) = self.held(node).score.take()
            && let Some(scorer) = models.scorer.as_mut()
        {
            scorer.release(id);
        }
    }

    /// Drops a chain in the middle of a step.
    pub(super) fn cancel(&mut self, node: NodeId, models: &mut Models<'_>) {
        if let Some(chain) = self.held(node).chain.take() {
            let sampled = models.generator.release(chain);
            self.ledger.generated_tokens += sampled as u64;
            self.cancelled.push((chain, sampled));
        }
    }

    /// Gives everything back. Returns the tokens sampled for unfinished steps.
    pub fn release_all(&mut self, models: &mut Models<'_>) -> usize {
        let ids: Vec<NodeId> = self.tree.nodes().map(|(id, _)| id).collect();
        let mut sampled = 0;
        for id in ids {
            if let Some(chain) = self.held(id).chain.take() {
                sampled += models.generator.release(chain);
            }
            self.release_score(id, models);
        }
        sampled
    }

    /// Memory of the distinct tokens that are alive in either model.
    pub(super) fn note_memory(&mut self, models: &Models<'_>) {
        let in_generator = self.live_tokens(|held, _| held.chain.is_some());
        let generator = in_generator * models.generator.memory().bytes_per_token;
        let scorer = models.scorer.as_ref().map_or(0, |scorer| {
            let ready = &self.ready;
            let tokens = self.live_tokens(|held, id| held.score.is_some() || ready.contains(&id));
            tokens * scorer.memory().bytes_per_token
        });
        self.ledger.peak_kv_bytes = self.ledger.peak_kv_bytes.max(generator + scorer);
    }

    /// Tokens of the prompt and of all nodes at or above one that `holds`.
    fn live_tokens(&self, holds: impl Fn(&Held, NodeId) -> bool) -> u64 {
        let mut alive = vec![false; self.tree.len()];
        // Children are younger than their parents.
        let mut tokens = 0;
        for at in (0..self.tree.len()).rev() {
            let id = NodeId(at as u32);
            if !alive[at] && !holds(&self.held[at], id) {
                continue;
            }
            let node = self.tree.node(id);
            tokens += node.tokens.len();
            match node.parent {
                Some(parent) => alive[parent.index()] = true,
                None => tokens += self.prompt_tokens,
            }
        }
        tokens as u64
    }
}
