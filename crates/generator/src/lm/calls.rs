//! What a search asks of a generator: chains opened and forked, steps started, passes.

use std::collections::BTreeMap;

use beamgen_engine::{Append, Want};
use beamgen_search::{
    ChainId, GenError, Generator, Memory, Opened, Problem, StepPlan, Stepped, child_stream,
};

use super::{Chain, LmGenerator, Row, State, failed};
use crate::memory::bytes_per_token;
use crate::stem::Stems;
use crate::step::Step;

fn append<'a>(chains: &'a BTreeMap<ChainId, Chain>, stems: &'a Stems, row: &Row) -> Append<'a> {
    let (seq, tokens) = match row {
        Row::Stem(stem) => {
            let stem = stems.get(*stem);
            (stem.seq, stem.unread.as_slice())
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

impl Generator for LmGenerator {
    fn open(&mut self, problem: &Problem, key: u64) -> Result<Opened, GenError> {
        let prompt = self.prompt(&problem.text)?;
        let prompt_tokens = prompt.len();
        let seq = self.engine.create();
        let said = match self.sampling.repetition_penalty == 1.0 {
            true => Vec::new(),
            false => prompt.clone(),
        };
        let stem = self.stems.insert(seq, prompt);
        let chain = self.insert(Chain {
            problem: key,
            prompt_tokens,
            sampled: 0,
            said,
            carried: Vec::new(),
            state: State::Idle(stem),
        });
        Ok(Opened {
            chain,
            prompt_tokens,
            entropy: child_stream(self.config.seed, 0) ^ key,
        })
    }

    fn fork(&mut self, chain: ChainId) -> ChainId {
        let copy = self.chain(chain).clone();
        let State::Idle(stem) = copy.state else {
            panic!("a chain is forked only between steps");
        };
        self.stems.get_mut(stem).holders += 1;
        self.insert(copy)
    }

    fn release(&mut self, chain: ChainId) -> usize {
        let state = self.chains.remove(&chain).expect("no such chain").state;
        let sampled = match state {
            State::Idle(stem) => {
                self.stems.release(stem, &mut self.engine);
                return 0;
            }
            State::Waiting(stem, _) => {
                // Whoever starts next from here promises its reading anew.
                self.stems.get_mut(stem).promised = false;
                self.stems.release(stem, &mut self.engine);
                0
            }
            State::Carried(stem, ..) => {
                self.stems.release(stem, &mut self.engine);
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
        // What was promised to it stays promised until the next pass counts anew.
        self.active.retain(|&id| id != chain);
        if self.active.is_empty() {
            self.promise(0);
        }
        sampled
    }

    fn can_start(&self, chain: ChainId) -> bool {
        let chain = self.chain(chain);
        let pages = match &chain.state {
            State::Idle(stem) => self.pages_for_step(chain, *stem),
            State::Paused(seq, step) => self.pages_for_rest(chain, *seq, step),
            State::Carried(..) | State::Waiting(..) | State::Decoding(..) => return false,
        };
        self.promised + pages <= self.engine.kv().pages_free
    }

    fn start_step(&mut self, id: ChainId, plan: StepPlan) {
        let chain = self.chain(id);
        let (pages, state) = match &chain.state {
            State::Idle(stem) => {
                let step = Step::new(plan, chain.carried.clone());
                match step.is_carried(&self.rules) {
                    Some(closing) => (0, State::Carried(*stem, step, closing)),
                    None => {
                        let pages = self.pages_for_step(chain, *stem);
                        (pages, State::Waiting(*stem, step))
                    }
                }
            }
            State::Paused(seq, step) => {
                let mut step = step.clone();
                step.plan = plan;
                let pages = self.pages_for_rest(chain, *seq, &step);
                (pages, State::Decoding(*seq, step))
            }
            State::Carried(..) | State::Waiting(..) | State::Decoding(..) => {
                panic!("a chain is started only between steps")
            }
        };
        self.promise(self.promised + pages);
        if let State::Waiting(stem, _) = &state {
            self.stems.get_mut(*stem).promised = true;
        }
        self.chains.get_mut(&id).expect("just looked at").state = state;
        self.active.push(id);
    }

    fn pass(&mut self) -> Result<Vec<Stepped>, GenError> {
        let mut closed = self.close_carried();

        // Chains that waited for memory while their siblings went on: the stem is read already.
        let mut waiting = self.waiting();
        waiting.retain(|&stem, chains| {
            let Some(logits) = self.stems.take_logits(stem) else {
                return true;
            };
            self.drawing.clear();
            self.drawing.extend(chains.iter().map(|&id| (id, 0)));
            self.draw_kept(&logits);
            closed.extend((0..chains.len()).filter_map(|i| self.advance(i)));
            // Kept for chains that still wait for memory.
            self.stems.keep_logits(stem, logits);
            false
        });
        self.drop_idle();

        let mut rows = std::mem::take(&mut self.rows);
        rows.extend(waiting.keys().map(|&stem| Row::Stem(stem)));
        rows.extend(self.active.iter().filter_map(|&id| {
            matches!(self.chain(id).state, State::Decoding(..)).then_some(Row::Chain(id))
        }));
        let mut items = emptied(std::mem::take(&mut self.items));
        let item = |row| append(&self.chains, &self.stems, row);
        items.extend(rows.iter().map(item));
        let tokens: usize = items.iter().map(|item| item.tokens.len()).sum();
        let logits = self.engine.logits(&items).map_err(failed)?;
        self.items = emptied(items);
        self.tokens_read += tokens as u64;
        self.drawing.clear();
        for (at, row) in rows.iter().enumerate() {
            match *row {
                Row::Chain(id) => self.drawing.push((id, at)),
                Row::Stem(stem) => {
                    self.stems.note_read(stem);
                    self.drawing
                        .extend(waiting[&stem].iter().map(|&id| (id, at)));
                }
            }
        }
        self.draw(&logits)?;
        closed.extend((0..self.drawing.len()).filter_map(|i| self.advance(i)));
        for (at, row) in rows.iter().enumerate() {
            if let Row::Stem(stem) = *row
                && self.stems.exists(stem)
            {
                // Kept for chains that still wait for memory.
                let mut kept = Vec::new();
                self.engine
                    .copy_logits(&logits, at, &mut kept)
                    .map_err(failed)?;
                self.stems.keep_logits(stem, kept);
            }
        }
        self.engine.recycle_logits(logits);
        rows.clear();
        self.rows = rows;
        self.drop_idle();
        self.stems.forget_logits(&mut self.engine);
        self.promise(self.count_promises());
        Ok(closed)
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
}
