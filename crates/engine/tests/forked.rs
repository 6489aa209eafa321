//! Checks that a process that was forked after CUDA was opened refuses the device.
#![cfg(all(feature = "cuda", target_os = "linux"))]

mod common;

use std::process::Command;
use std::sync::Arc;

use beamgen_engine::{
    Append, DeviceChoice, Engine, EngineConfig, Error, Model, Output, ThreadPool, Want, WeightType,
    Weights,
};
use common::{even_config, random_weights};

/// Forks. The test `a_forked_process_is_told` starts this one in a process without other threads.
#[test]
#[ignore = "forks, so a_forked_process_is_told starts it in a process of its own"]
fn in_a_forked_process() {
    assert!(beamgen_emulated_cuda::load());
    let compute = DeviceChoice::Cuda(0).open().unwrap();
    let config = even_config();
    let weights = Weights::from_tensors(random_weights(&config)).unwrap();
    let load = || {
        let pool = ThreadPool::new(1);
        Model::on(&compute, config.clone(), &weights, WeightType::F32, &pool)
    };
    let settings = EngineConfig {
        kv_bytes: 1 << 20,
        threads: 1,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(Arc::new(load().unwrap()), settings).unwrap();
    let seq = engine.create();
    let append = Append {
        seq,
        tokens: &[1, 2],
        want: Want::Last,
    };
    let parent = format!("from process {}", std::process::id());
    let told = |result: Result<(), Error>| {
        let text = result.unwrap_err().to_string();
        for part in ["forked", "spawn", &parent] {
            assert!(text.contains(part), "{text}");
        }
    };
    assert!(beamgen_emulated_cuda::in_a_fork(|| {
        told(engine.forward(&[append], Output::Logits).map(drop));
        told(engine.logits(&[append]).map(drop));
        told(load().map(drop));
        told(compute.free_bytes().map(drop));
        told(DeviceChoice::Cuda(0).open().map(drop));
        // `Auto` falls back to the CPU and returns the reason.
        let (instead, why) = DeviceChoice::Auto.open_or_say().unwrap();
        told(Err(why.unwrap()));
        instead.is_cpu()
    }));
    engine.forward(&[append], Output::Logits).unwrap();
}

#[test]
fn a_forked_process_is_told() {
    if beamgen_emulated_cuda::library().is_none() {
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_forked_process", "--ignored"])
        .env_remove("BEAMGEN_TEST_CUDA")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
