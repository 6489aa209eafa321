//! Checks that sampling on a CUDA device gives the tokens of the CPU.

mod common;

use beamgen_engine::rng::Key;
use beamgen_engine::{Sampled, Sampler, SamplingParams};
use beamgen_kernels::cuda::{Device, SampleRequest, Samples};
use common::noise;

const VOCAB: usize = 1300;

fn rows() -> Vec<Vec<f32>> {
    let spread = |width: f32, seed| noise(VOCAB, seed).iter().map(|x| x * width).collect();
    let mut rows: Vec<Vec<f32>> = vec![spread(15.0, 1), spread(2.0, 2), spread(40.0, 3)];
    for (i, x) in rows[1].iter_mut().enumerate() {
        match i % 11 {
            2 => *x = f32::NAN,
            5 => *x = f32::NEG_INFINITY,
            7 => *x = 1.75,
            _ => {}
        }
    }
    rows
}

fn settings() -> Vec<SamplingParams> {
    let mut all = Vec::new();
    for temperature in [0.0, 0.6, 1.0] {
        for (top_k, top_p) in [(0, 1.0), (20, 1.0), (0, 0.9), (40, 0.8), (900, 0.99)] {
            for (min_p, repetition_penalty) in [(0.0, 1.0), (0.05, 1.0), (0.0, 1.1)] {
                all.push(SamplingParams {
                    temperature,
                    top_k,
                    top_p,
                    min_p,
                    repetition_penalty,
                });
            }
        }
    }
    all
}

#[test]
fn a_device_draws_the_same_tokens() {
    if !beamgen_emulated_cuda::load() {
        return;
    }
    let device = Device::open(0).unwrap();
    let rows = rows();
    let history: Vec<u32> = (0..300).map(|i| i * i % VOCAB as u32).collect();
    let mut sampler = Sampler::new();
    let (mut requests, mut want): (Vec<SampleRequest>, Vec<Sampled>) = (Vec::new(), Vec::new());
    for (row, logits) in rows.iter().enumerate() {
        for (chain, params) in settings().iter().enumerate() {
            for position in 0..6 {
                let key = Key {
                    seed: 3,
                    problem: row as u64,
                    chain: chain as u64,
                };
                let mut draw = key.at(position);
                requests.push(params.on_device(row, 0..history.len(), &draw));
                want.push(sampler.sample_after(&history, logits, params, &mut draw));
            }
        }
    }
    let logits = device.upload(&rows.concat()).unwrap();
    let mut samples = Samples::new(&device, requests.len(), history.len()).unwrap();
    samples.request(&requests, &history).unwrap();
    samples.draw(&logits, VOCAB, VOCAB).unwrap();
    for ((request, want), (token, logprob)) in
        requests.iter().zip(want).zip(samples.read().unwrap())
    {
        assert_eq!(token, want.token, "{request:?}");
        assert!(
            (logprob - want.logprob).abs() < 1e-5,
            "{logprob} instead of {}",
            want.logprob
        );
    }
}
