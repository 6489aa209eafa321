//! Applies random operations to sequences until no page is free, and compares the engine with a
//! plain vector of tokens per sequence.

use std::sync::Arc;

use crate::common::{assert_same_bits, engine, fresh, random_model, tiny_config};
use beamgen_engine::{Append, Engine, Error, Model, ModelConfig, Output, SeqId, Want};
use proptest::prelude::*;

const PAGE: usize = 4;
const PAGES: usize = 12;
const VOCAB: u32 = 11;

#[derive(Clone, Debug)]
enum Op {
    Create,
    Fork(usize),
    Truncate(usize, usize),
    Free(usize),
    /// Appends tokens to several sequences in one call. The pairs are an index and a number of
    /// tokens.
    Append(Vec<(usize, usize)>, u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => Just(Op::Create),
        4 => (0..8usize).prop_map(Op::Fork),
        3 => (0..8usize, 0..30usize).prop_map(|(i, n)| Op::Truncate(i, n)),
        2 => (0..8usize).prop_map(Op::Free),
        8 => (prop::collection::vec((0..8usize, 0..12usize), 1..5), 0..VOCAB)
            .prop_map(|(items, seed)| Op::Append(items, seed)),
    ]
}

/// The engine, and the expected tokens of each of its sequences.
struct World {
    model: Arc<Model>,
    engine: Engine,
    naive: Vec<(SeqId, Vec<u32>)>,
}

impl World {
    fn new(model: &Arc<Model>) -> Self {
        let page_bytes = engine(model, |c| c.page_size = PAGE).kv().page_bytes;
        let engine = engine(model, |c| {
            c.page_size = PAGE;
            c.kv_bytes = PAGES * page_bytes;
            c.max_rows = 9;
        });
        Self {
            model: Arc::clone(model),
            engine,
            naive: Vec::new(),
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Create => self.naive.push((self.engine.create(), Vec::new())),
            _ if self.naive.is_empty() => {}
            Op::Fork(i) => {
                let (seq, tokens) = self.naive[i % self.naive.len()].clone();
                let used = self.engine.kv().pages_used;
                self.naive.push((self.engine.fork(seq), tokens));
                assert_eq!(self.engine.kv().pages_used, used, "a fork takes no page");
            }
            Op::Truncate(i, n) => {
                let i = i % self.naive.len();
                let (seq, tokens) = &mut self.naive[i];
                tokens.truncate(n);
                self.engine.truncate(*seq, tokens.len());
            }
            Op::Free(i) => {
                let (seq, _) = self.naive.swap_remove(i % self.naive.len());
                self.engine.free(seq);
            }
            Op::Append(items, seed) => self.append(&items, seed),
        }
        self.check();
    }

    fn append(&mut self, items: &[(usize, usize)], seed: u32) {
        let mut pieces: Vec<(usize, Vec<u32>)> = Vec::new();
        for (i, n) in items {
            let i = i % self.naive.len();
            if pieces.iter().all(|(other, _)| *other != i) {
                let tokens = (0..*n as u32)
                    .map(|k| (seed + k * k + i as u32) % VOCAB)
                    .collect();
                pieces.push((i, tokens));
            }
        }
        let calls: Vec<Append<'_>> = pieces
            .iter()
            .map(|(i, tokens)| Append {
                seq: self.naive[*i].0,
                tokens,
                want: Want::Last,
            })
            .collect();
        let before = self.engine.kv();
        let alone = match calls.as_slice() {
            [one] => Some(self.engine.pages_needed(one.seq, one.tokens.len())),
            _ => None,
        };
        match self.engine.forward(&calls, Output::Logits) {
            Ok(rows) => {
                let taken = self.engine.kv().pages_used - before.pages_used;
                assert!(alone.is_none_or(|needed| needed == taken));
                let mut rows = rows.iter();
                for (i, tokens) in pieces {
                    self.naive[i].1.extend(&tokens);
                    if !tokens.is_empty() {
                        let whole = fresh(&self.model, PAGE, &self.naive[i].1);
                        assert_same_bits(rows.next().unwrap(), whole.row(whole.len() - 1));
                    }
                }
                assert!(rows.next().is_none());
            }
            Err(Error::OutOfMemory { needed, free }) => {
                assert!(needed > free);
                assert!(alone.is_none_or(|alone| alone == needed));
                assert_eq!(self.engine.kv(), before);
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn check(&self) {
        let kv = self.engine.kv();
        assert_eq!(
            (kv.pages_total, kv.pages_used + kv.pages_free),
            (PAGES, PAGES)
        );
        assert_eq!(self.engine.sequences(), self.naive.len());
        // Sharing never needs more pages than separate sequences, and at least the pages of the
        // longest.
        let pages = |tokens: &Vec<u32>| tokens.len().div_ceil(PAGE);
        let sum: usize = self.naive.iter().map(|(_, t)| pages(t)).sum();
        let longest = self.naive.iter().map(|(_, t)| pages(t)).max().unwrap_or(0);
        assert!((longest..=sum).contains(&kv.pages_used));
        for (seq, tokens) in &self.naive {
            assert_eq!(self.engine.len(*seq), tokens.len());
        }
    }

    /// Checks that every sequence, also one with shared pages, still has the keys and values of its
    /// own tokens.
    fn finish(mut self) {
        while let Some((seq, mut tokens)) = self.naive.pop() {
            if let Some(last) = tokens.pop() {
                // The last token is read again, because its row attends to all other tokens of the
                // sequence.
                self.engine.truncate(seq, tokens.len());
                let item = Append {
                    seq,
                    tokens: &[last],
                    want: Want::Last,
                };
                match self.engine.forward(&[item], Output::Logits) {
                    Ok(rows) => {
                        tokens.push(last);
                        let whole = fresh(&self.model, PAGE, &tokens);
                        assert_same_bits(rows.row(0), whole.row(whole.len() - 1));
                    }
                    Err(Error::OutOfMemory { needed: 1, free: 0 }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            self.engine.free(seq);
        }
        let kv = self.engine.kv();
        assert_eq!((kv.pages_used, kv.pages_free), (0, PAGES));
        assert!(self.engine.is_empty());
    }
}

fn small_model() -> Arc<Model> {
    random_model(ModelConfig {
        vocab_size: VOCAB as usize,
        hidden_size: 16,
        intermediate_size: 20,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 6,
        ..tiny_config()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_behave_as_vectors_of_tokens(ops in prop::collection::vec(op(), 1..60)) {
        let mut world = World::new(&small_model());
        for op in ops {
            world.apply(op);
        }
        world.finish();
    }
}

#[test]
fn the_pool_runs_dry_and_recovers() {
    let mut world = World::new(&small_model());
    world.apply(Op::Create);
    world.apply(Op::Append(vec![(0, 6)], 0));
    // Eight sequences share two pages. Each append to the last page takes a page, until none is
    // free.
    for _ in 0..7 {
        world.apply(Op::Fork(0));
    }
    for round in 0..4 {
        for i in 0..8 {
            world.apply(Op::Append(vec![(i, 5)], round));
        }
    }
    assert_eq!(world.engine.kv().pages_free, 0);
    world.apply(Op::Free(0));
    assert!(world.engine.kv().pages_free > 0);
    world.finish();
}
