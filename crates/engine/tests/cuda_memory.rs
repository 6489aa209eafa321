//! Checks that passes on a CUDA device allocate no memory. This program has only one test, because
//! another would allocate at the same time.
#![cfg(feature = "cuda")]

mod common;

use std::sync::Arc;

use beamgen_engine::{
    Append, DeviceChoice, Engine, EngineConfig, Model, SeqId, ThreadPool, Want, WeightType, Weights,
};
use common::{even_config, random_weights};

#[test]
fn passes_take_no_memory() {
    if !beamgen_emulated_cuda::load() {
        return;
    }
    let compute = DeviceChoice::Cuda(0).open().unwrap();
    let config = even_config();
    let weights = Weights::from_tensors(random_weights(&config)).unwrap();
    let pool = ThreadPool::new(1);
    let model = Model::on(&compute, config, &weights, WeightType::Bf16, &pool).unwrap();
    let settings = EngineConfig {
        kv_bytes: 4 << 20,
        max_rows: 48,
        threads: 1,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(Arc::new(model), settings).unwrap();
    let seqs: Vec<SeqId> = (0..7).map(|_| engine.create()).collect();
    let mut free = Vec::new();
    for turn in 0..40 {
        let item = |seq: &SeqId| Append {
            seq: *seq,
            tokens: &[3],
            want: Want::Last,
        };
        let items: Vec<Append<'_>> = seqs.iter().map(item).collect();
        let logits = engine.logits(&items).unwrap();
        engine.recycle_logits(logits);
        // The first passes may allocate, because they load kernels and record a graph.
        if turn > 3 {
            free.push(compute.free_bytes().unwrap());
        }
    }
    assert!(free.iter().all(|bytes| *bytes == free[0]), "{free:?}");
}
