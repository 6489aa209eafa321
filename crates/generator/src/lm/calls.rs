//! What a search asks of a generator: chains opened and forked, steps started, passes.

use std::collections::BTreeMap;

use beamgen_engine::{Append, Want};
use beamgen_search::{
    ChainId, GenError, Generator, GeneratorConfig, Memory, OpenedProblem, PassOutput, Problem,
    Source, StepPlan,
};

use super::{Chain, LmGenerator, Row, State, failed};
use crate::branch_point::BranchPoints;
use crate::memory::bytes_per_token;
use crate::prompts::Prompt;
use crate::step::Step;

fn append<'a>(
    chains: &'a BTreeMap<ChainId, Chain>,
    branches: &'a BranchPoints,
    row: &Row,
) -> Append<'a> {
    let (seq, tokens) = match row {
        Row::BranchPoint(branch) => {
            let branch = branches.get(*branch);
            (branch.seq, branch.unread.as_slice())
        }
        Row::Chain(id) => match &chains[id].state {
            State::Decoding(seq, step) => (*seq, &step.tokens[step.tokens.len() - 1..]),
            _ => unreachable!("only decoding chains have a row of their own"),
        },
    };
    Append {
        seq,
        tokens,
        want: Want::Last,
    }
}

/// Empty, with the memory that it had: what the next items borrow lives as long as they.
fn emptied<'a>(mut items: Vec<Append<'_>>) -> Vec<Append<'a>> {
    items.clear();
    let none = items.into_iter().map(|_| unreachable!("it is empty"));
    none.collect()
}

impl LmGenerator {
    /// A second chain with the same contents; nothing is computed or copied.
    fn fork(&mut self, chain: ChainId) -> ChainId {
        let copy = self.chain(chain).clone();
        let State::Idle(branch) = copy.state else {
            panic!("a chain is forked only between steps");
        };
        self.branches.get_mut(branch).holders += 1;
        self.insert(copy)
    }
}

impl Generator for LmGenerator {
    fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError> {
        let plan = self.plans.get(settings);
        let plan = plan.map_err(|error| GenError::Settings(error.to_string()))?;
        let Prompt {
            tokens: prompt,
            thought,
        } = plan.prompts.prompt(&problem.text)?;
        let prompt_tokens = prompt.len();
        let seq = self.engine.create();
        let history = prompt.clone();
        let strategy_seed = plan.strategy_seed(key);
        let branch = self.branches.insert(seq, prompt);
        let chain = self.insert(Chain {
            plan,
            problem: key,
            prompt_tokens,
            sampled: 0,
            history,
            leftover: Vec::new(),
            state: State::Idle(branch),
        });
        Ok(OpenedProblem {
            chain,
            prompt_tokens,
            strategy_seed,
            thought,
        })
    }

    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        let (Source::Itself(from) | Source::ForkOf(from)) = source;
        let chain = self.chain(from);
        let (pages, reserved, state) = match &chain.state {
            State::Idle(branch) => {
                let pages = self.pages_for_step(chain, *branch);
                let step = Step::new(plan, chain.leftover.clone());
                match step.is_leftover_step(&chain.plan.rules) {
                    Some(closing) => (pages, 0, State::Leftover(*branch, step, closing)),
                    None => (pages, pages, State::Waiting(*branch, step)),
                }
            }
            State::Paused(seq, step) => {
                let mut step = step.clone();
                step.plan = plan;
                let pages = self.pages_for_rest(chain, *seq, &step);
                (pages, pages, State::Decoding(*seq, step))
            }
            State::Leftover(..) | State::Waiting(..) | State::Decoding(..) => {
                panic!("a chain is started only between steps")
            }
        };
        if self.reserved + pages > self.engine.kv().pages_free {
            return None;
        }
        let id = match source {
            Source::Itself(id) => id,
            Source::ForkOf(id) => self.fork(id),
        };
        self.reserve(self.reserved + reserved);
        if let State::Waiting(branch, _) = &state {
            self.branches.get_mut(*branch).reserved = true;
        }
        self.chains.get_mut(&id).expect("just looked at").state = state;
        self.active.push(id);
        Some(id)
    }

    fn forget(&mut self, kept: ChainId) -> bool {
        if !self.active.is_empty() {
            return false;
        }
        let branch_of = |chain: &Chain| match chain.state {
            State::Idle(branch) => Some(branch),
            _ => None,
        };
        let kept = branch_of(self.chain(kept));
        let before = self.engine.kv().pages_free;
        for chain in self.chains.values() {
            if let Some(branch) = branch_of(chain).filter(|&branch| Some(branch) != kept) {
                self.branches
                    .forget(branch, &chain.history, &mut self.engine);
            }
        }
        self.engine.kv().pages_free > before
    }

    fn release(&mut self, chain: ChainId) -> usize {
        let state = self.chains.remove(&chain).expect("no such chain").state;
        let sampled = match state {
            State::Idle(branch) => {
                self.branches.release(branch, &mut self.engine);
                return 0;
            }
            State::Waiting(branch, _) => {
                // Whoever starts next from here reserves the pages for reading it anew.
                self.branches.get_mut(branch).reserved = false;
                self.branches.release(branch, &mut self.engine);
                0
            }
            State::Leftover(branch, ..) => {
                self.branches.release(branch, &mut self.engine);
                0
            }
            State::Paused(seq, step) => {
                self.engine.free(seq);
                return step.tokens.len();
            }
            State::Decoding(seq, step) => {
                self.engine.free(seq);
                step.tokens.len()
            }
        };
        // What it reserved stays reserved until the next pass counts anew.
        self.active.retain(|&id| id != chain);
        if self.active.is_empty() {
            self.reserve(0);
        }
        sampled
    }

    fn pass(&mut self) -> Result<PassOutput, GenError> {
        let mut closed = self.close_leftover();

        // Chains that waited for memory while their siblings went on: the branch is read already.
        let mut waiting = self.waiting();
        waiting.retain(|&branch, chains| {
            let Some(logits) = self.branches.take_logits(branch) else {
                return true;
            };
            self.drawing.clear();
            self.drawing.extend(chains.iter().map(|&id| (id, 0)));
            self.draw_kept(&logits);
            closed.extend((0..chains.len()).filter_map(|i| self.advance(i)));
            // Kept for chains that still wait for memory.
            self.branches.keep_logits(branch, logits);
            false
        });
        self.drop_idle();

        let mut rows = std::mem::take(&mut self.rows);
        rows.extend(waiting.keys().map(|&branch| Row::BranchPoint(branch)));
        rows.extend(self.active.iter().filter_map(|&id| {
            matches!(self.chain(id).state, State::Decoding(..)).then_some(Row::Chain(id))
        }));
        let mut items = emptied(std::mem::take(&mut self.items));
        let item = |row| append(&self.chains, &self.branches, row);
        items.extend(rows.iter().map(item));
        let tokens: usize = items.iter().map(|item| item.tokens.len()).sum();
        let logits = self.engine.logits(&items).map_err(failed)?;
        self.items = emptied(items);
        self.tokens_read += tokens as u64;
        self.drawing.clear();
        for (at, row) in rows.iter().enumerate() {
            match *row {
                Row::Chain(id) => self.drawing.push((id, at)),
                Row::BranchPoint(branch) => {
                    self.branches.note_read(branch);
                    self.drawing
                        .extend(waiting[&branch].iter().map(|&id| (id, at)));
                }
            }
        }
        self.draw(&logits)?;
        closed.extend((0..self.drawing.len()).filter_map(|i| self.advance(i)));
        for (at, row) in rows.iter().enumerate() {
            if let Row::BranchPoint(branch) = *row
                && self.branches.exists(branch)
            {
                // Kept for chains that still wait for memory.
                let mut kept = Vec::new();
                self.engine
                    .copy_logits(&logits, at, &mut kept)
                    .map_err(failed)?;
                self.branches.keep_logits(branch, kept);
            }
        }
        self.engine.recycle_logits(logits);
        rows.clear();
        self.rows = rows;
        self.drop_idle();
        self.branches.forget_logits(&mut self.engine);
        self.reserve(self.count_reserved());
        Ok(closed.into())
    }

    fn active(&self) -> usize {
        self.active.len()
    }

    fn memory(&self) -> Memory {
        let kv = self.engine.kv();
        Memory {
            used_bytes: (kv.pages_used * kv.page_bytes) as u64,
            bytes_per_token: bytes_per_token(&self.engine),
            capacity_tokens: kv.pages_total * kv.page_bytes
                / bytes_per_token(&self.engine) as usize,
        }
    }

    fn check(&self, problem: &Problem) -> Result<(), GenError> {
        let prompts = &self.plans.defaults().prompts;
        prompts.prompt(&problem.text).map(drop)
    }

    fn resolve(&self, settings: &GeneratorConfig) -> GeneratorConfig {
        let resolved = self.plans.resolve(settings);
        resolved.unwrap_or_else(|_| settings.clone())
    }
}
