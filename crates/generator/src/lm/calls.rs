//! The trait `Generator`: chains are opened and forked, steps started, passes run.

use beamgen_engine::{Append, Engine, Want};
use beamgen_search::{
    ChainId, Executed, GenError, Generator, GeneratorConfig, Memory, OpenedProblem, PassOutput,
    Problem, Source, StepPlan,
};

use super::{Cache, Chain, LmGenerator, Place, Row, failed};
use crate::book::{ChainBook, State};
use crate::branch_point::{BranchId, BranchPoints};

fn append<'a>(
    book: &'a ChainBook<Cache>,
    branches: &'a BranchPoints,
    engine: &Engine,
    row: &Row,
) -> Append<'a> {
    let (seq, tokens) = match row {
        Row::BranchPoint(branch) => {
            let branch = branches.get(*branch);
            (branch.seq, branch.unread.as_slice())
        }
        Row::Chain(id) => match &book.chain(*id).cache {
            Cache {
                history,
                place: Place::Own(seq),
                ..
            } => (*seq, &history[engine.len(*seq)..]),
            _ => unreachable!("only decoding chains have a row of their own"),
        },
    };
    Append {
        seq,
        tokens,
        want: Want::Last,
    }
}

fn branch_of(chain: &Chain) -> Option<BranchId> {
    match chain.cache.place {
        Place::Branch(branch) => Some(branch),
        Place::Own(_) => None,
    }
}

/// Empties a list of items for other lifetimes and keeps its memory.
fn emptied<'a>(mut items: Vec<Append<'_>>) -> Vec<Append<'a>> {
    items.clear();
    let none = items.into_iter().map(|_| unreachable!("it is empty"));
    none.collect()
}

impl Generator for LmGenerator {
    fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError> {
        let (engine, branches) = (&mut self.engine, &mut self.branches);
        self.book.open(problem, key, settings, |prompt| {
            Ok(Cache {
                history: prompt.clone(),
                place: Place::Branch(branches.insert(engine.create(), prompt)),
                granted: 0,
                evicted: None,
            })
        })
    }

    fn flops(&self, before: usize, tokens: usize, logits: usize) -> u64 {
        self.engine.model().flops(before, tokens, logits)
    }

    fn executed(&self) -> Executed {
        let computed = self.engine.computed();
        Executed {
            flops: computed.flops,
            prefix_tokens: computed.reused_tokens,
        }
    }

    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        let (Source::Itself(from) | Source::ForkOf(from)) = source;
        // Chains in the middle of a step come first.
        if self.waits {
            return None;
        }
        let state = self.book.next_state(from, plan);
        let place = self.book.chain(from).cache.place;
        let (pages, granted) = self.first_piece(from);
        // Reserved pages belong to steps that have started, even if they are still free.
        if self.reserved + pages > self.engine.kv().pages_free {
            return None;
        }
        // If leftover bytes hold a whole step, the step needs no pass and no memory.
        if let State::Running(_) = state {
            self.reserve(self.reserved + pages);
            if let Place::Branch(branch) = place {
                self.branches.get_mut(branch).reserved = true;
            }
        }
        let branches = &mut self.branches;
        let id = self.book.start(source, state, |cache| {
            let Place::Branch(branch) = place else {
                panic!("a chain is forked only between steps");
            };
            // A fork copies only the list of tokens; both chains stay at the branch point.
            branches.get_mut(branch).holders += 1;
            cache.clone()
        });
        self.book.cache(id)?.granted = granted;
        Some(id)
    }

    fn forget(&mut self, kept: ChainId) -> bool {
        // A running chain has reserved pages for its own reads; after forgetting, it would have to
        // read more.
        if !self.book.active().is_empty() {
            return false;
        }
        let kept = branch_of(self.book.chain(kept));
        self.forget_branches(kept)
    }

    fn release(&mut self, chain: ChainId) -> usize {
        let chain = self.book.release(chain);
        match chain.cache.place {
            Place::Branch(branch) => {
                if let State::Running(_) = chain.state {
                    // The next chain that starts here has to reserve the pages for reading the
                    // branch point.
                    self.branches.get_mut(branch).reserved = false;
                }
                self.branches.release(branch, &mut self.engine);
            }
            Place::Own(seq) => self.engine.free(seq),
        }
        self.freed += 1;
        // The chain's reserved pages are released when the next pass counts them again.
        if self.book.active().is_empty() {
            self.reserve(0);
            self.waits = false;
        }
        chain.unfinished()
    }

    fn pass(&mut self) -> Result<PassOutput, GenError> {
        let mut closed = self.book.close_leftovers();

        // The branch point of these chains has been read while the chains waited for memory.
        let mut waiting = self.waiting();
        waiting.retain(|&branch, chains| {
            let Some(logits) = self.branches.take_logits(branch) else {
                return true;
            };
            self.sampling.clear();
            self.sampling.extend(chains.iter().map(|&id| (id, 0)));
            self.sample_kept(&logits);
            closed.extend((0..chains.len()).filter_map(|i| {
                self.keep_logprobs_of(i, &logits);
                self.advance(i)
            }));
            // Other chains at the branch point may still wait for memory, so the logits are kept.
            self.branches.keep_logits(branch, logits);
            false
        });
        self.book.drop_idle();

        let mut rows = std::mem::take(&mut self.rows);
        rows.extend(waiting.keys().map(|&branch| Row::BranchPoint(branch)));
        let active = self.book.active().iter();
        rows.extend(active.filter_map(|&id| {
            let cache = &self.book.chain(id).cache;
            let has_memory = cache.history.len() <= cache.granted;
            (matches!(cache.place, Place::Own(_)) && has_memory).then_some(Row::Chain(id))
        }));
        let mut items = emptied(std::mem::take(&mut self.items));
        items.extend(
            rows.iter()
                .map(|row| append(&self.book, &self.branches, &self.engine, row)),
        );
        // Branch points and chains share a pass, so the weights are read only once.
        let logits = self.engine.logits(&items).map_err(failed)?;
        self.items = emptied(items);
        self.sampling.clear();
        for (at, row) in rows.iter().enumerate() {
            match *row {
                Row::Chain(id) => self.sampling.push((id, at)),
                Row::BranchPoint(branch) => {
                    // All chains that wait at this branch point sample from its row.
                    self.branches.note_read(branch);
                    self.sampling
                        .extend(waiting[&branch].iter().map(|&id| (id, at)));
                }
            }
        }
        self.sample(&logits)?;
        self.keep_logprobs(&logits)?;
        closed.extend((0..self.sampling.len()).filter_map(|i| self.advance(i)));
        for (at, row) in rows.iter().enumerate() {
            if let Row::BranchPoint(branch) = *row
                && self.branches.exists(branch)
            {
                // Chains that still wait for memory will start from these logits.
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
        self.book.drop_idle();
        // `forget_logits` needs that no chain waits at a branch point, which is so after a pass.
        self.branches.forget_logits(&mut self.engine);
        self.grant(&mut closed);
        Ok(PassOutput {
            steps: closed,
            failed: self.book.take_failed(),
            retried: Vec::new(),
        })
    }

    fn active(&self) -> usize {
        self.book.active().len()
    }

    fn close_thoughts(&mut self, chains: &[ChainId]) {
        self.book.close_thoughts(chains);
    }

    fn memory(&self) -> Memory {
        let kv = self.engine.kv();
        Memory {
            used_bytes: (kv.pages_used * kv.page_bytes) as u64,
            bytes_per_token: kv.token_bytes as u64,
            capacity_tokens: kv.pages_total * kv.page_bytes / kv.token_bytes,
        }
    }

    fn check(&self, problem: &Problem) -> Result<(), GenError> {
        self.book.plans().check(problem)
    }

    fn resolve(&self, settings: &GeneratorConfig) -> GeneratorConfig {
        self.book.plans().resolve(settings)
    }
}
