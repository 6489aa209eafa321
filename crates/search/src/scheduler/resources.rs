//! Releases the chains and caches of a problem's nodes in the models, and charges sampled tokens.

use super::active::ActiveProblem;
use super::contents::ContentId;
use super::{Context, Models};
use crate::generator::StepOutput;
use crate::ledger::Ledger;
use crate::thinking::Thought;
use crate::tree::{ChainTree, NodeId, State};

/// Tokens of a step that were not charged yet.
#[derive(Clone, Copy)]
struct NewTokens {
    count: usize,
    /// The number of sampled tokens. The others close a thought at its limit.
    sampled: usize,
}

impl NewTokens {
    fn sampled(tokens: usize) -> Self {
        Self {
            count: tokens,
            sampled: tokens,
        }
    }
}

/// Returns the number of tokens at the end of a step that need not be read for it: the last sampled
/// one, and those that close a thought after it.
fn unread(tokens: usize, thought: Option<Thought>) -> usize {
    let closing = match thought {
        Some(thought) if thought.tokens == tokens => thought.forced,
        _ => 0,
    };
    tokens.min(1 + closing)
}

impl ActiveProblem {
    /// Releases the idle chain of a node and the speculative step after it.
    pub(super) fn release(&mut self, node: NodeId, cx: &mut Context<'_, '_>) {
        self.drop_speculative(node, cx);
        if let Some(chain) = self.resources[node].chain.take() {
            cx.models.generator.release(chain);
        }
    }

    /// Releases a chain in the middle of a step and charges the tokens sampled since the last
    /// pause.
    pub(super) fn cancel(&mut self, node: NodeId, cx: &mut Context<'_, '_>) {
        if let Some(chain) = self.resources[node].chain.take() {
            // The generator reports the whole unfinished step. Tokens before a pause are already in
            // the tree, where they were charged.
            let sampled = cx.models.generator.release(chain);
            let known = self.tree.node(node);
            let above = known.parent.unwrap_or(ChainTree::ROOT);
            let new = NewTokens::sampled(sampled.saturating_sub(known.sampled_tokens()));
            self.charge_after(above, known.tokens.len(), new, cx);
            self.steps.dropped.push(chain);
        }
    }

    /// Discards the speculative step after `node`, and charges its sampled tokens.
    pub(super) fn drop_speculative(&mut self, node: NodeId, cx: &mut Context<'_, '_>) {
        let Some(step) = self.resources[node].speculative.take() else {
            return;
        };
        let unfinished = cx.models.generator.release(step.chain);
        if let Some(step) = &step.step {
            self.charge_after(node, 0, NewTokens::sampled(step.sampled()), cx);
        } else {
            self.steps.ahead -= 1;
            self.charge_after(node, 0, NewTokens::sampled(unfinished), cx);
            self.steps.dropped.push(step.chain);
        }
    }

    /// Charges the tokens of a step that closed or paused to the problem; the run's ledger gets them
    /// with the next `bill_run`. Tokens before a pause were charged at the pause; the step contains
    /// them again.
    pub(super) fn charge_step(&mut self, node: NodeId, step: &StepOutput, cx: &Context<'_, '_>) {
        let known = self.tree.node(node);
        let above = known.parent.unwrap_or(ChainTree::ROOT);
        let (billed, charged) = (known.tokens.len(), known.thought.unwrap_or_default());
        let new = NewTokens {
            count: step.tokens.len().saturating_sub(billed),
            sampled: step.sampled().saturating_sub(known.sampled_tokens()),
        };
        self.charge_after(above, billed, new, cx);
        self.need_step(node, step, new, cx);
        if let Some(thought) = step.thought {
            let forced = thought.forced - charged.forced;
            let sampled = thought.sampled() - charged.sampled();
            self.bill.ledger.prompt_tokens += forced as u64;
            self.bill.forced += forced as u64;
            self.bill.ledger.thought_tokens += sampled as u64;
            self.bill.thought += sampled as u64;
        }
    }

    /// Charges new tokens of a step that follows the step `above`, after `billed` ones.
    fn charge_after(&mut self, above: NodeId, billed: usize, new: NewTokens, cx: &Context<'_, '_>) {
        self.bill.ledger.generated_tokens += new.sampled as u64;
        self.bill.generated += new.sampled as u64;
        let before = self.bill.prompt_tokens + self.tree.token_count(above) + billed;
        self.charge_flops(cx.models.generator.flops(before, new.count, new.sampled));
    }

    /// Counts the operations without which the new tokens of a step would not exist. The last sampled
    /// token and those that close a thought after it are not read for the step itself, but for the
    /// first of its children that samples.
    fn need_step(&mut self, node: NodeId, step: &StepOutput, new: NewTokens, cx: &Context<'_, '_>) {
        let known = self.tree.node(node);
        let mut above = known.parent.unwrap_or(ChainTree::ROOT);
        let mut end = self.bill.prompt_tokens + self.tree.token_count(above);
        let read_before = known.tokens.len() - unread(known.tokens.len(), known.thought);
        let read = step.tokens.len() - unread(step.tokens.len(), step.thought);
        // The token before the first one is counted below.
        let logits = match known.tokens.len() {
            0 => new.sampled.saturating_sub(1),
            _ => new.sampled,
        };
        let rows = read.saturating_sub(read_before);
        self.need(cx.models.generator.flops(end + read_before, rows, logits));
        if step.sampled() == 0 {
            return;
        }
        // The prompt's last row is counted with the prompt.
        let mut logits = 1;
        while above != self.policy.start.node
            && !std::mem::replace(&mut self.resources[above].continued, true)
        {
            let parent = self.tree.node(above);
            let rest = unread(parent.tokens.len(), parent.thought);
            let (sampled, next) = (parent.sampled_tokens(), parent.parent);
            end = end.saturating_sub(rest);
            // An empty step has no token to read. Only the last row before a sampled token gives
            // logits.
            if rest > 0 {
                self.need(cx.models.generator.flops(end, rest, logits));
                logits = 0;
            }
            if sampled > 0 {
                break;
            }
            above = next.unwrap_or(ChainTree::ROOT);
        }
    }

    /// Counts operations of the generator that no search for the same chains can do without.
    pub(super) fn need(&mut self, flops: u64) {
        let least = &mut self.bill.ledger.least.generate;
        *least = least.saturating_add(flops);
        self.bill.least = self.bill.least.saturating_add(flops);
    }

    /// Charges operations of the generator.
    pub(super) fn charge_flops(&mut self, flops: u64) {
        let generate = &mut self.bill.ledger.flops.generate;
        *generate = generate.saturating_add(flops);
        self.bill.flops = self.bill.flops.saturating_add(flops);
    }

    /// Adds the tokens that the run's ledger does not contain yet.
    pub(super) fn bill_run(&mut self, run: &mut Ledger) {
        run.generated_tokens += std::mem::take(&mut self.bill.generated);
        run.prompt_tokens += std::mem::take(&mut self.bill.forced);
        run.thought_tokens += std::mem::take(&mut self.bill.thought);
        run.reused_tokens += std::mem::take(&mut self.bill.reused);
        let flops = std::mem::take(&mut self.bill.flops);
        run.flops.generate = run.flops.generate.saturating_add(flops);
        let least = std::mem::take(&mut self.bill.least);
        run.least.generate = run.least.generate.saturating_add(least);
    }

    /// Releases everything that the problem holds in either model.
    pub(super) fn release_all(&mut self, cx: &mut Context<'_, '_>) {
        // `cancel` also releases idle chains; for them the generator reports 0 tokens.
        for node in self.resources.nodes() {
            self.drop_speculative(node, cx);
            self.cancel(node, cx);
        }
        self.release_scores(cx);
    }

    pub(super) fn release_scores(&mut self, cx: &mut Context<'_, '_>) {
        if let Some(scorer) = cx.models.scorer.as_deref_mut() {
            self.contents.keep(&[], scorer);
        }
    }

    /// Records the memory of the distinct tokens that are alive in either model, if it is a new
    /// peak.
    pub(super) fn note_memory(&mut self, models: &Models<'_>) {
        let memory = models.generator.memory();
        let nodes = self.resources.nodes();
        // Counted from the tree, not asked of the models: the models' memory also holds other
        // problems, on which this problem's ledger must not depend.
        let in_generator: Vec<NodeId> = nodes
            .filter(|&node| self.resources[node].chain.is_some())
            .collect();
        let mut bytes = 0;
        if !in_generator.is_empty() {
            let tokens = self.bill.prompt_tokens + self.tree.distinct_tokens(&in_generator);
            bytes += tokens as u64 * memory.bytes_per_token;
        }
        if let Some(scorer) = &models.scorer {
            let memory = scorer.memory();
            let prompt = self.bill.prompt_tokens;
            bytes += self.contents.bytes(&self.tree, prompt, memory);
        }
        self.bill.ledger.peak_kv_bytes = self.bill.ledger.peak_kv_bytes.max(bytes);
    }

    /// Releases the scorer's caches from which no chain will be read any more.
    pub(super) fn release_read(&mut self, cx: &mut Context<'_, '_>) {
        if self.contents.batches > 0 {
            // The scorer is still reading from these caches.
            return;
        }
        let Some(scorer) = cx.models.scorer.as_deref_mut() else {
            return;
        };
        let nodes = self.resources.nodes();
        let wanted: Vec<ContentId> = nodes.filter_map(|node| self.read_from(node)).collect();
        self.contents.keep(&wanted, scorer);
    }

    /// Returns the text from which the unscored steps at or below a node will be read.
    fn read_from(&self, id: NodeId) -> Option<ContentId> {
        let node = self.tree.node(id);
        let own = self.resources[id].content;
        match node.state {
            State::Open => own,
            State::Growing | State::Paused => {
                let parent = node.parent.unwrap_or(ChainTree::ROOT);
                self.resources[parent].content
            }
            State::Expanded if self.policy.strategy.keeps_expanded(id) => own,
            State::Finished(finish) if finish.is_complete() => {
                own.filter(|&content| self.contents.scored(content).is_none())
            }
            _ => None,
        }
    }
}
