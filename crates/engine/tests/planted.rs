//! Plants a wrong number in each kernel of the emulated device. The self-test of operations must
//! find it, and so must the first passes of a model that uses the kernel.
#![cfg(all(feature = "cuda", target_os = "linux"))]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use beamgen_emulated_cuda::plant_wrong;
use beamgen_engine::{
    Compute, DeviceChoice, Engine, EngineConfig, Error, Model, ModelConfig, ThreadPool, WeightType,
    Weights,
};
use beamgen_test_support::{Missing, skip};
use common::{even_config, random_weights, tiny_config};

/// Kernels that the passes of a model do not run, each with its user.
const IN_NO_PASS: [(&str, &str); 4] = [
    ("log_prob", "a reward model that is read by its logits"),
    ("prm_head", "a reward model with a head"),
    ("prm_layer", "a reward model with a head of several layers"),
    ("sample", "a generator"),
];

/// A lock that runs one test at a time, because a planted fault affects the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Opens the device without faults; `None` if the test is skipped.
fn device() -> Option<Compute> {
    if beamgen_emulated_cuda::uses_real_device() {
        skip(Missing::Gpu, "a real device is not wrong when asked");
        return None;
    }
    if !beamgen_emulated_cuda::load() {
        return None;
    }
    plant_wrong("");
    Some(DeviceChoice::Cuda(0).open().unwrap())
}

/// The names of all kernels in `kernels/ptx`, sorted.
fn kernels() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/ptx");
    let mut names = Vec::new();
    for file in folder.read_dir().unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|ext| ext == "ptx") {
            let text = std::fs::read_to_string(path).unwrap();
            let entries = text
                .lines()
                .filter_map(|line| line.strip_prefix(".visible .entry "));
            names.extend(entries.map(|rest| rest.trim_end_matches('(').to_owned()));
        }
    }
    names.sort();
    assert!(names.iter().any(|name| name == "sample"), "{names:?}");
    names
}

/// The places of a wrong number: the first, middle and last value of each argument that `kernel`
/// writes.
fn places(kernel: &str) -> Vec<String> {
    // All other kernels write only to their first argument, or to memory that no one reads later.
    let arguments = match kernel {
        "sample" | "rope_kv_f32" | "rope_kv_bf16" | "rope_kv_f16" => 2,
        _ => 1,
    };
    let places = ["first", "middle", "last"];
    (0..arguments)
        .flat_map(|argument| places.map(|place| format!("{place}.{argument}")))
        .collect()
}

/// The message of an error about wrong numbers; `None` if nothing failed.
fn said<T>(result: Result<T, Error>) -> Option<String> {
    match result {
        Ok(_) => None,
        Err(Error::Device(text)) if text.contains("wrong numbers") => Some(text),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_test_of_operations_finds_every_kernel() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if device().is_none() {
        return;
    }
    let mut missed = Vec::new();
    for kernel in kernels() {
        for place in places(&kernel) {
            plant_wrong(&format!("{kernel}@{place}"));
            match said(DeviceChoice::Cuda(0).open()) {
                Some(text) => eprintln!("{kernel}@{place}: {text}"),
                None => missed.push(format!("{kernel}@{place}")),
            }
        }
    }
    plant_wrong("");
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

/// Models that together use every kernel of a pass, small ones first. Each has the suffix that its
/// kernels' names end in.
fn models(compute: &Compute) -> Vec<(&'static str, Arc<Model>)> {
    let a_layer = |config| ModelConfig {
        num_hidden_layers: 1,
        num_attention_heads: 4,
        windows: vec![None],
        ..config
    };
    let (odd, small) = (a_layer(tiny_config()), a_layer(even_config()));
    let heads = |head_dim| ModelConfig {
        head_dim,
        ..small.clone()
    };
    // This model has enough outputs for the kernels for many rows.
    let wide = ModelConfig {
        hidden_size: 32,
        vocab_size: 8449,
        intermediate_size: 4256,
        ..small.clone()
    };
    let mut chosen = vec![(odd.clone(), WeightType::F32, "_f32")];
    let sixteen_bits = [(WeightType::Bf16, "_bf16"), (WeightType::F16, "_f16")];
    for config in [odd, heads(64), heads(96), heads(128), small.clone(), wide] {
        chosen.extend(sixteen_bits.map(|(kind, name)| (config.clone(), kind, name)));
    }
    let load = |(config, weight_type, name): (ModelConfig, WeightType, &'static str)| {
        let weights = Weights::from_tensors(random_weights(&config)).unwrap();
        let pool = ThreadPool::new(1);
        let model = Model::on(compute, config, &weights, weight_type, &pool).unwrap();
        (name, Arc::new(model))
    };
    chosen.into_iter().map(load).collect()
}

#[test]
fn the_first_passes_find_every_kernel_that_passes_run() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(compute) = device() else { return };
    let models = models(&compute);
    let engine = |model: &Arc<Model>| {
        let config = EngineConfig {
            kv_bytes: 4 << 20,
            threads: 1,
            ..EngineConfig::default()
        };
        Engine::new(Arc::clone(model), config)
    };
    for (_, model) in &models {
        engine(model).unwrap();
    }
    let mut missed = BTreeSet::new();
    for kernel in kernels() {
        // The last number may belong to a padding row, which is never read.
        plant_wrong(&format!("{kernel}@middle"));
        let likely = models.iter().filter(|(name, _)| kernel.ends_with(name));
        let others = models.iter().filter(|(name, _)| !kernel.ends_with(name));
        match likely
            .chain(others)
            .find_map(|(_, model)| said(engine(model)))
        {
            Some(text) => eprintln!("{kernel}: {text}"),
            None => assert!(missed.insert(kernel)),
        }
    }
    plant_wrong("");
    let expected = IN_NO_PASS.map(|(kernel, _)| kernel.to_owned());
    assert_eq!(missed, BTreeSet::from(expected));
}
