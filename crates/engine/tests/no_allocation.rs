//! Checks that a decoding step allocates nothing. This program has only one test, because another
//! would allocate at the same time.

mod common;

use std::alloc::System;

use beamgen_engine::rng::Key;
use beamgen_engine::{
    Append, EngineConfig, KvType, Output, Precision, RowEdits, SampleRow, Sampler, SamplingParams,
    SeqId, Want, WeightType,
};
use cap::Cap;
use common::{PAIRS, TILES, engine, random_model_as, tiny_config, tokens};

const KEY: Key = Key {
    seed: 1,
    problem: 2,
    chain: 3,
};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

#[test]
fn a_decode_step_allocates_nothing() {
    // The model is wide enough that every operation is split between the threads.
    let mut config = tiny_config();
    (config.hidden_size, config.intermediate_size) = (192, 512);
    (config.head_dim, config.vocab_size) = (32, 515);
    let prompt = tokens(250, 515, 1);
    let next = tokens(64, 515, 2);
    let types = [WeightType::Auto, WeightType::Bf16, WeightType::Int8];
    for precision in types.map(Precision::from).into_iter().chain([PAIRS, TILES]) {
        let model = random_model_as(config.clone(), precision);
        let kv_types = [KvType::F32, KvType::Bf16, KvType::F16].into_iter();
        for (kv, threads) in kv_types.flat_map(|kv| [1, 2, 3].map(|threads| (kv, threads))) {
            // The prompt fills 250 of 256 positions of a page: the steps stay inside it.
            let mut engine = engine(&model, |c: &mut EngineConfig| {
                (c.page_size, c.threads, c.max_rows) = (256, threads, 100);
                (c.kv_dtype, c.prefix_cache) = (kv, true);
            });
            let root = engine.create();
            let item = Append {
                seq: root,
                tokens: &prompt,
                want: Want::None,
            };
            let rows = engine.forward(&[item], Output::Logits).unwrap();
            engine.recycle(rows);
            for count in [1, 5, 64] {
                let seqs: Vec<SeqId> = (0..count).map(|_| engine.fork(root)).collect();
                let items: Vec<Append<'_>> = seqs
                    .iter()
                    .zip(next.chunks(1))
                    .map(|(seq, tokens)| Append {
                        seq: *seq,
                        tokens,
                        want: Want::Last,
                    })
                    .collect();
                let choice = |i: usize| SampleRow {
                    row: i,
                    history: &[],
                    params: SamplingParams {
                        temperature: 0.8,
                        top_p: 0.9,
                        ..SamplingParams::default()
                    },
                    edits: RowEdits::default(),
                    draw: KEY.at(i as u32),
                };
                let (mut sampler, mut sampled) = (Sampler::new(), Vec::new());
                for output in [Some(Output::Logits), Some(Output::Hidden), None] {
                    let mut step = || {
                        if let Some(output) = output {
                            let rows = engine.forward(&items, output).unwrap();
                            assert_eq!(rows.len(), count);
                            engine.recycle(rows);
                        } else {
                            let logits = engine.logits(&items).unwrap();
                            engine
                                .sample(&logits, 515, &mut sampler, count, choice, &mut sampled)
                                .unwrap();
                            assert_eq!(sampled.len(), count);
                            engine.recycle_logits(logits);
                        }
                    };
                    step();
                    // A pool thread that starts late allocates its name once, so the least of five
                    // measurements counts.
                    let mut taken = usize::MAX;
                    for _ in 0..5 {
                        let before = ALLOCATOR.total_allocated();
                        step();
                        step();
                        taken = taken.min(ALLOCATOR.total_allocated() - before);
                    }
                    let case = format!("{precision:?}, {kv:?}, {threads} threads, {count} rows");
                    assert_eq!(taken, 0, "{case}");
                }
                for seq in seqs.iter() {
                    engine.free(*seq);
                }
            }
            assert!(ALLOCATOR.total_allocated() > 0);
        }
    }
}
