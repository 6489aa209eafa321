//! The steps that a problem gives: nodes of the tree from which all chains continue.

use super::Context;
use super::active::{ActiveProblem, NodeResources};
use super::contents::ContentId;
use crate::error::GenError;
use crate::event::ChainEvent;
use crate::finish::{Border, Finish};
use crate::generator::GivenStep;
use crate::tree::{ChainTree, State};

impl ActiveProblem {
    /// Makes nodes of the given steps, each the only child of the step before, as if they had been
    /// sampled. `all`: no prefix follows the steps. Then a step that states the answer ends the
    /// chain.
    pub(super) fn take_given(
        &mut self,
        steps: Vec<GivenStep>,
        all: bool,
        cx: &mut Context<'_, '_>,
    ) {
        let mut is_stated = false;
        for step in steps {
            let above = self.policy.start.node;
            let id = self.tree.add_child(above);
            self.tree.node_mut(above).state = State::Expanded;
            let node = self.tree.node_mut(id);
            node.state = State::Open;
            let read = self.request.settings.generator.thinking.score;
            node.read = read.of(&step.text, step.thought);
            let is_thought = step
                .thought
                .is_some_and(|thought| thought.bytes == step.text.len());
            node.thought = step.thought;
            node.text = step.text;
            node.tokens = step.tokens;
            let resources = &mut self.resources[above];
            let content = resources.content.unwrap_or(ContentId::ROOT);
            let given = NodeResources {
                chain: resources.chain.take(),
                content: Some(self.contents.intern(&self.tree, content, id)),
                tokens_match_text: step.tokens_match_text,
                token_limit: resources.token_limit,
                thought_steps: resources.thought_steps + u32::from(is_thought),
                ..NodeResources::default()
            };
            self.resources.push(given);
            is_stated |= self.states_answer(id, Border::Boundary, cx.models.answers);
            self.policy.start.node = id;
            self.notify(above, ChainEvent::Expanded(&[id]), cx);
            self.notify(id, ChainEvent::Closed, cx);
        }
        if is_stated && all {
            self.finish(self.policy.start.node, Finish::Answer, cx);
        }
    }

    /// Asks the strategy for its first actions. The actions are dropped if the given steps are a
    /// whole chain, or as many as a chain may have.
    pub(super) fn begin(&mut self, cx: &mut Context<'_, '_>) {
        let start = self.policy.start;
        let actions = self.policy.strategy.begin(start);
        let (node, most) = (self.tree.node(start.node), self.config().max_steps);
        let given = (node.depth - self.resources[start.node].thought_steps) as usize;
        if node.finish().is_some() {
            self.conclude(cx);
        } else if start.node != ChainTree::ROOT && given >= most {
            let error = GenError::GivenTooLong {
                given,
                what: "steps",
                most,
                setting: "max_steps",
            };
            self.fail(error.to_string(), cx);
        } else {
            self.follow(actions, cx);
        }
    }
}
