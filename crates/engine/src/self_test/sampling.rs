//! Tests sampling and log-probabilities.

use beamgen_kernels::cuda::{self, Device, Number, SampleRequest, Samples};

use super::values::{check, compare, noise, tolerance, wrong};
use crate::rng::Key;
use crate::{Error, Sampler, SamplingParams, log_prob};

const VOCAB: usize = 1300;
/// The number of logits in a row. The last ten belong to no token.
const STRIDE: usize = 1310;
/// The tokens with a repetition penalty. Token 640 appears twice but must be penalised once.
const HISTORY: [u32; 3] = [640, 7, 640];
const KEY: Key = Key {
    seed: 1,
    problem: 2,
    chain: 3,
};

/// Tests each setting on each of two rows: the tokens must be the CPU's. Then tests the
/// log-probabilities of given tokens.
pub(super) fn run(device: &Device) -> Result<(), Error> {
    let logits: Vec<f32> = noise(2 * STRIDE, 10).iter().map(|x| 8.0 * x).collect();
    let rows = device.upload(&logits)?;
    let settings = [
        (0.0, 0, 1.0, 0.0, 1.0),
        (1.0, 0, 1.0, 0.0, 1.0),
        (0.7, 5, 1.0, 0.0, 1.3),
        (1.0, 0, 0.9, 0.0, 1.0),
        (1.2, 50, 0.95, 0.05, 1.1),
    ];
    let params =
        settings.map(
            |(temperature, top_k, top_p, min_p, repetition_penalty)| SamplingParams {
                temperature,
                top_k,
                top_p,
                min_p,
                repetition_penalty,
            },
        );
    let cases: Vec<(usize, SamplingParams)> = (0..2)
        .flat_map(|row| params.map(|params| (row, params)))
        .collect();
    let requests: Vec<SampleRequest> = cases
        .iter()
        .enumerate()
        .map(|(i, (row, params))| params.on_device(*row, 0..HISTORY.len(), &KEY.at(i as u32)))
        .collect();
    let mut samples = Samples::new(device, requests.len(), HISTORY.len())?;
    samples.request(&requests, &HISTORY)?;
    samples.draw(&rows, VOCAB, STRIDE)?;
    let mut sampler = Sampler::new();
    for ((i, (row, params)), (token, logprob)) in cases.iter().enumerate().zip(samples.read()?) {
        let logits = &logits[row * STRIDE..][..VOCAB];
        let mut draw = KEY.at(i as u32);
        let expected = sampler.sample_after(&HISTORY, logits, params, &mut draw);
        if token != expected.token {
            let [got, expected] = [token, expected.token].map(|token| format!("token {token}"));
            return Err(wrong("sample", got, expected));
        }
        let (what, expected) = ("sample's log-probability", f64::from(expected.logprob));
        check(what, 1, &[logprob], &[expected], tolerance(Number::F32))?;
    }

    let tokens = [1299u32, 4];
    let mut out = device.alloc(8)?;
    cuda::log_probs(&mut out, &rows, &device.upload(&tokens)?, 2, VOCAB, STRIDE)?;
    let rows = logits.chunks(STRIDE).zip(tokens);
    let expected: Vec<f64> = rows
        .map(|(row, token)| f64::from(log_prob(&row[..VOCAB], token)))
        .collect();
    compare("log_prob", 1, &out, Number::F32, &expected)
}
