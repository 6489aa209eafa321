//! Checks that a row depends only on the tokens of its sequence, to the last bit.

use std::sync::Arc;

use crate::common::{
    PAIRS, TILES, append, assert_same_bits, engine, even_config, fresh, random_model,
    random_model_as, tiny_config, tokens,
};
use beamgen_engine::{
    Append, Engine, KvType, Model, ModelConfig, Output, SeqId, ThreadPool, Want, WeightType,
};

/// A model with float32 arithmetic, one with int8 weights, and two with bfloat16 arithmetic.
fn models() -> [Arc<Model>; 4] {
    let int8 = random_model_as(even_config(), WeightType::Int8);
    let [pairs, tiles] = [PAIRS, TILES].map(|precision| random_model_as(tiny_config(), precision));
    [random_model(tiny_config()), int8, pairs, tiles]
}

#[test]
fn incremental_equals_full() {
    let [model, int8, pairs, tiles] = models();
    for (model, page_size) in [
        (&model, 1),
        (&model, 5),
        (&model, 16),
        (&model, 32),
        (&int8, 16),
        (&pairs, 16),
        (&tiles, 16),
    ] {
        let all = tokens(83, 67, 1);
        let full = fresh(model, page_size, &all);
        let mut engine = engine(model, |c| c.page_size = page_size);
        for step in [1, 2, 7, 16, 31, 82] {
            let seq = engine.create();
            let mut row = 0;
            for piece in all.chunks(step) {
                for got in &append(&mut engine, seq, piece, Want::All) {
                    assert_same_bits(got, full.row(row));
                    row += 1;
                }
            }
            assert_eq!((row, engine.len(seq)), (83, 83));
            engine.free(seq);
        }
    }
}

#[test]
fn fork_prune_regrow_equals_fresh() {
    let [model, int8, pairs, tiles] = models();
    for (model, page_size) in [
        (&model, 4),
        (&model, 16),
        (&int8, 16),
        (&pairs, 16),
        (&tiles, 16),
    ] {
        let mut engine = engine(model, |c| c.page_size = page_size);
        let prompt = tokens(21, 67, 2);
        let root = engine.create();
        append(&mut engine, root, &prompt, Want::None);
        let mut chains: Vec<(SeqId, Vec<u32>)> = (0..4)
            .map(|_| (engine.fork(root), prompt.clone()))
            .collect();
        for round in 0..6u64 {
            // All chains grow in one call, by unequal steps.
            let steps: Vec<Vec<u32>> = (0..4)
                .map(|i| tokens(3 + i * 5, 67, round * 10 + i as u64))
                .collect();
            let items: Vec<Append<'_>> = chains
                .iter()
                .zip(&steps)
                .map(|(chain, step)| Append {
                    seq: chain.0,
                    tokens: step,
                    want: Want::Last,
                })
                .collect();
            let rows = engine.forward(&items, Output::Logits).unwrap();
            for (i, (chain, step)) in chains.iter_mut().zip(&steps).enumerate() {
                chain.1.extend(step);
                let whole = fresh(model, page_size, &chain.1);
                assert_same_bits(rows.row(i), whole.row(chain.1.len() - 1));
            }
            // Two chains survive. One of them is shortened before both are forked.
            for (seq, _) in chains.drain(2..) {
                engine.free(seq);
            }
            let cut = chains[0].1.len() - 2;
            engine.truncate(chains[0].0, cut);
            chains[0].1.truncate(cut);
            for i in 0..2 {
                chains.push((engine.fork(chains[i].0), chains[i].1.clone()));
            }
        }
        for (seq, _) in chains {
            engine.free(seq);
        }
        engine.free(root);
        assert_eq!(engine.kv().pages_used, 0);
    }
}

/// Runs prompts, decoding steps and scoring in one call, and checks each row against a call of its
/// own.
fn mixed(engine: &mut Engine) -> Vec<Vec<f32>> {
    let mut seqs: Vec<SeqId> = (0..5).map(|_| engine.create()).collect();
    for (i, seq) in seqs.iter().enumerate() {
        append(engine, *seq, &tokens(1 + 17 * i, 67, i as u64), Want::None);
    }
    seqs.push(engine.fork(seqs[2]));
    let pieces: Vec<Vec<u32>> = [1, 40, 1, 9, 120, 33]
        .iter()
        .enumerate()
        .map(|(i, n)| tokens(*n, 67, 50 + i as u64))
        .collect();
    let at = [0, 7, 8, 64, 119];
    let wants = [
        Want::Last,
        Want::All,
        Want::Last,
        Want::None,
        Want::At(&at),
        Want::Last,
    ];
    let items: Vec<Append<'_>> = (0..6)
        .map(|i| Append {
            seq: seqs[i],
            tokens: &pieces[i],
            want: wants[i],
        })
        .collect();
    let rows = engine.forward(&items, Output::Logits).unwrap();
    assert_eq!(rows.len(), 1 + 40 + 1 + 5 + 1);
    // Each item is now computed in a call of its own.
    let mut alone = Vec::new();
    for (item, seq) in items.iter().zip(&seqs) {
        let len = engine.len(*seq) - item.tokens.len();
        engine.truncate(*seq, len);
        let rows = append(engine, *seq, item.tokens, item.want);
        alone.extend(rows.iter().map(<[f32]>::to_vec));
    }
    for (row, alone) in rows.iter().zip(&alone) {
        assert_same_bits(row, alone);
    }
    alone
}

#[test]
fn company_chunks_and_threads_change_nothing() {
    for model in models() {
        let base = mixed(&mut engine(&model, |_| ()));
        for max_rows in [1, 2, 7, 50, 199, 4096] {
            for threads in [1, 2, 5] {
                let mut engine = engine(&model, |c| {
                    c.max_rows = max_rows;
                    c.threads = threads;
                });
                for (got, want) in mixed(&mut engine).iter().zip(&base) {
                    assert_same_bits(got, want);
                }
            }
        }
    }
}

#[test]
fn threads_change_nothing_where_work_is_shared() {
    // The model is wide enough that every operation is split between the threads.
    let mut config = tiny_config();
    (
        config.hidden_size,
        config.intermediate_size,
        config.num_hidden_layers,
    ) = (192, 512, 2);
    (config.head_dim, config.vocab_size) = (32, 515);
    let all = tokens(300, 515, 3);
    let types = [WeightType::Auto, WeightType::Int8].map(Into::into);
    for precision in types.into_iter().chain([PAIRS, TILES]) {
        let model = random_model_as(config.clone(), precision);
        let run = |threads: usize| {
            let settings = |c: &mut beamgen_engine::EngineConfig| c.threads = threads;
            let mut engine = engine(&model, settings);
            let seq = engine.create();
            append(&mut engine, seq, &all, Want::All)
        };
        let one = run(1);
        for threads in [2, 3] {
            assert_same_bits(
                &run(threads).iter().flatten().copied().collect::<Vec<_>>(),
                &one.iter().flatten().copied().collect::<Vec<_>>(),
            );
        }
    }
}

#[test]
fn two_engines_share_a_pool() {
    let model = random_model(tiny_config());
    let pool = ThreadPool::new(2);
    let config = beamgen_engine::EngineConfig::default();
    let mut engines =
        [0, 1].map(|_| Engine::with_pool(model.clone(), config.clone(), pool.clone()).unwrap());
    let all = tokens(60, 67, 4);
    let rows = engines.each_mut().map(|engine| {
        let seq = engine.create();
        append(engine, seq, &all, Want::Last)
    });
    assert_eq!(rows[0], rows[1]);
}

#[test]
fn hidden_rows_are_what_the_head_reads() {
    let model = random_model(tiny_config());
    let mut engine = engine(&model, |_| ());
    let all = tokens(20, 67, 5);
    let seq = engine.create();
    let item = Append {
        seq,
        tokens: &all,
        want: Want::All,
    };
    let hidden = engine.forward(&[item], Output::Hidden).unwrap();
    assert_eq!((hidden.len(), hidden.width()), (20, 40));
    // After the norm, a row's root mean square is that of the norm's weights, about 1.
    for row in &hidden {
        let square: f32 = row.iter().map(|x| x * x).sum::<f32>() / 40.0;
        assert!((0.5..2.0).contains(&square.sqrt()));
    }
    engine.recycle(hidden);
}

/// Compares branches of several depths in one call with separate calls. The prompt has several
/// blocks of attention.
#[test]
fn branches_of_a_long_prompt_are_as_alone() {
    let model = random_model(ModelConfig {
        head_dim: 32,
        max_position_embeddings: 1000,
        windows: Vec::new(),
        ..tiny_config()
    });
    for kv_dtype in [KvType::F32, KvType::Bf16, KvType::F16] {
        for (threads, max_rows) in [(1, 512), (3, 7)] {
            let mut engine = engine(&model, |c| {
                (c.kv_dtype, c.threads, c.max_rows) = (kv_dtype, threads, max_rows);
            });
            let prompt = tokens(530, 67, 5);
            let root = engine.create();
            append(&mut engine, root, &prompt, Want::None);
            let middle = engine.fork(root);
            let step = tokens(270, 67, 6);
            append(&mut engine, middle, &step, Want::None);
            let long = [prompt.clone(), step].concat();
            let branches: Vec<(SeqId, Vec<u32>)> = (0..9)
                .map(|i| match i {
                    0..4 => (engine.fork(root), prompt.clone()),
                    _ => (engine.fork(middle), long.clone()),
                })
                .collect();
            let steps: Vec<Vec<u32>> = (0..9).map(|i| tokens(1 + 3 * i, 67, i as u64)).collect();
            let items: Vec<Append<'_>> = branches
                .iter()
                .zip(&steps)
                .map(|((seq, _), tokens)| Append {
                    seq: *seq,
                    tokens,
                    want: Want::Last,
                })
                .collect();
            let rows = engine.forward(&items, Output::Logits).unwrap();
            for (i, ((_, before), step)) in branches.iter().zip(&steps).enumerate() {
                let mut alone = crate::common::engine(&model, |c| c.kv_dtype = kv_dtype);
                let seq = alone.create();
                for piece in [before.clone(), step.clone()].concat().chunks(400) {
                    append(&mut alone, seq, piece, Want::None);
                }
                let whole = [before.clone(), step.clone()].concat();
                alone.truncate(seq, whole.len() - 1);
                let last = append(&mut alone, seq, &whole[whole.len() - 1..], Want::Last);
                assert_same_bits(rows.row(i), last.row(0));
            }
        }
    }
}

#[test]
fn narrow_keys_and_values_stay_near_float32() {
    let model = random_model(even_config());
    let all = tokens(83, 67, 1);
    let run = |kv_dtype| {
        let mut engine = engine(&model, |c| c.kv_dtype = kv_dtype);
        let seq = engine.create();
        append(&mut engine, seq, &all, Want::All)
            .iter()
            .flatten()
            .copied()
            .collect::<Vec<f32>>()
    };
    let exact = run(KvType::F32);
    let norm = |x: &mut dyn Iterator<Item = f32>| x.map(|x| x * x).sum::<f32>().sqrt();
    for (kv_dtype, tolerance) in [(KvType::Bf16, 0.03), (KvType::F16, 0.003)] {
        let narrow = run(kv_dtype);
        let error = norm(&mut exact.iter().zip(&narrow).map(|(a, b)| a - b));
        let relative = error / norm(&mut exact.iter().copied());
        assert!(
            relative > 0.0 && relative < tolerance,
            "{kv_dtype}: {relative}"
        );
    }
}
