//! Releases the chains and caches of a problem's nodes in the models, and charges sampled tokens.

use super::active::ActiveProblem;
use super::contents::ContentId;
use super::{Context, Models};
use crate::generator::StepOutput;
use crate::ledger::Ledger;
use crate::tree::{ChainTree, NodeId, State};

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
            let billed = self.tree.node(node).sampled_tokens();
            let above = self.tree.node(node).parent.unwrap_or(ChainTree::ROOT);
            self.charge_after(above, billed, sampled.saturating_sub(billed), cx);
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
            self.charge_after(node, 0, step.sampled(), cx);
        } else {
            self.steps.ahead -= 1;
            self.charge_after(node, 0, unfinished, cx);
            self.steps.dropped.push(step.chain);
        }
    }

    /// Charges the tokens of a step that closed or paused to the problem; the run's ledger gets them
    /// with the next `bill_run`. Tokens before a pause were charged at the pause; the step contains
    /// them again.
    pub(super) fn charge_step(&mut self, node: NodeId, step: &StepOutput, cx: &Context<'_, '_>) {
        let known = self.tree.node(node);
        let above = known.parent.unwrap_or(ChainTree::ROOT);
        let (billed, charged) = (known.sampled_tokens(), known.thought.unwrap_or_default());
        let tokens = step.sampled().saturating_sub(billed);
        self.charge_after(above, billed, tokens, cx);
        self.need_step(above, billed, tokens, cx);
        if let Some(thought) = step.thought {
            let forced = thought.forced - charged.forced;
            let sampled = thought.sampled() - charged.sampled();
            let before = self.bill.prompt_tokens + self.tree.token_count(above);
            let end = before + thought.tokens;
            let flops = cx.models.generator.flops(end, forced, 0);
            self.charge_flops(flops);
            self.need(flops);
            self.bill.ledger.prompt_tokens += forced as u64;
            self.bill.forced += forced as u64;
            self.bill.ledger.thought_tokens += sampled as u64;
            self.bill.thought += sampled as u64;
        }
    }

    /// Charges the tokens of a step that follows the step `above`.
    pub(super) fn charge_after(
        &mut self,
        above: NodeId,
        billed: usize,
        tokens: usize,
        cx: &Context<'_, '_>,
    ) {
        self.bill.ledger.generated_tokens += tokens as u64;
        self.bill.generated += tokens as u64;
        let before = self.bill.prompt_tokens + self.tree.token_count(above) + billed;
        self.charge_flops(cx.models.generator.flops(before, tokens, tokens));
    }

    /// Counts the operations without which a step would not exist. The last token is not read for the
    /// step itself, but for the first of its children.
    fn need_step(&mut self, above: NodeId, billed: usize, tokens: usize, cx: &Context<'_, '_>) {
        let before = self.bill.prompt_tokens + self.tree.token_count(above);
        // The last token before a pause is read when the step resumes.
        let (from, read) = match billed {
            0 => (before, tokens.saturating_sub(1)),
            billed => (before + billed - 1, tokens),
        };
        self.need(cx.models.generator.flops(from, read, read));
        // The prompt's last row is counted with the prompt.
        let is_start = above == self.policy.start.node;
        if !is_start && !std::mem::replace(&mut self.resources[above].continued, true) {
            self.need(cx.models.generator.flops(before.saturating_sub(1), 1, 1));
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
