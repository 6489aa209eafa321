//! Compares sampled tokens with a plain reference in float64, and batches with single rows.

use beamgen_engine::rng::{Draw, Key};
use beamgen_engine::{
    RowEdits, SampleRequest, Sampled, Sampler, SamplingParams, ThreadPool, log_prob,
};
use proptest::prelude::*;

const LENGTHS: [usize; 14] = [
    1, 2, 15, 16, 17, 33, 129, 1000, 1023, 1024, 1025, 2049, 3000, 5000,
];

fn draw(chain: u64, position: u32) -> Draw {
    let key = Key {
        seed: 3,
        problem: 4,
        chain,
    };
    key.at(position)
}

/// Returns logits in steps of a quarter. Many are equal, and different ones have clearly different
/// weights. Some are NaN or minus infinity.
fn logits(len: usize, spread: f32, seed: u64) -> Vec<f32> {
    (0..len as u64)
        .map(|i| {
            let u = draw(seed, i as u32).uniform() as f32;
            match (i + seed) % 37 {
                5 => f32::NAN,
                6 => f32::NEG_INFINITY,
                _ => (spread * (2.0 * u - 1.0)).round() / 4.0,
            }
        })
        .collect()
}

/// The tokens that the settings keep, in rising order, with their weights. `None` if the result
/// depends on rounding.
fn reference(logits: &[f32], params: &SamplingParams) -> Option<Vec<(usize, f64)>> {
    const CLOSE: f64 = 1e-5;
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |x: f32| ((f64::from(x) - f64::from(max)) / f64::from(params.temperature)).exp();
    let mut all: Vec<(usize, f32)> = logits.iter().copied().enumerate().collect();
    all.retain(|(_, x)| *x > f32::NEG_INFINITY);
    all.sort_by(|a, b| b.1.partial_cmp(&a.1).expect("no NaN"));
    if params.top_k > 0 {
        all.truncate(params.top_k);
    }
    let sum: f64 = all.iter().map(|(_, x)| weight(*x)).sum();
    let missing = sum * f64::from(params.top_p);
    if params.top_p < 1.0 {
        let mut above = 0.0;
        let mut end = 0;
        for (_, x) in &all {
            if (above - missing).abs() < CLOSE * sum {
                return None;
            }
            if above > missing {
                break;
            }
            above += weight(*x);
            end += 1;
        }
        all.truncate(end);
    }
    let min_p = f64::from(params.min_p);
    if all.iter().any(|(_, x)| (weight(*x) - min_p).abs() < CLOSE) && min_p > 0.0 {
        return None;
    }
    all.retain(|(_, x)| weight(*x) >= min_p);
    all.sort_by_key(|(i, _)| *i);
    Some(all.into_iter().map(|(i, x)| (i, weight(x))).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn draws_are_those_of_a_sort(
        len in prop::sample::select(&LENGTHS[..]),
        seed in 0..1000u64,
        spread in prop::sample::select(&[0.5f32, 4.0, 20.0, 80.0][..]),
        temperature in prop::sample::select(&[0.3f32, 0.7, 1.0, 1.6][..]),
        top_k in prop_oneof![Just(0), 1..6000usize, 1..60usize],
        top_p in prop_oneof![Just(1.0f32), 0.01..0.999f32],
        min_p in prop_oneof![Just(0.0f32), 0.0..0.5f32],
    ) {
        let params = SamplingParams { temperature, top_k, top_p, min_p, ..Default::default() };
        let row = logits(len, spread, seed);
        prop_assume!(row.iter().any(|x| x.is_finite()));
        let kept = reference(&row, &params);
        prop_assume!(kept.is_some());
        let kept = kept.unwrap();
        let sum: f64 = kept.iter().map(|(_, w)| w).sum();
        let mut sampler = Sampler::new();
        for position in 0..20 {
            let sampled = sampler.sample(&row, &params, &mut draw(seed, position));
            let u = draw(seed, position).uniform();
            let at = kept.iter().position(|(i, _)| *i == sampled.token as usize);
            prop_assert!(at.is_some(), "token {} does not stay", sampled.token);
            let before: f64 = kept[..at.unwrap()].iter().map(|(_, w)| w).sum();
            let with = before + kept[at.unwrap()].1;
            prop_assert!(before / sum - 1e-5 <= u && u <= with / sum + 1e-5);
            prop_assert_eq!(sampled.logprob, log_prob(&row, sampled.token));
        }
    }
}

/// A set that allows about half of the tokens, and always the last one.
fn allowed(len: usize, seed: u64) -> Vec<u32> {
    let mut words: Vec<u32> = (0..len.div_ceil(32))
        .map(|word| draw(seed, word as u32).bits())
        .collect();
    words[(len - 1) / 32] |= 1 << ((len - 1) % 32);
    words
}

#[test]
fn a_changed_row_is_sampled_like_a_row_with_these_logits() {
    for len in LENGTHS {
        for seed in 0..40 {
            let mut row = logits(len, 12.0, seed);
            row[len - 1] = 0.5;
            let bias = [(0, -3.0), (len as u32 - 1, 2.5), (len as u32 / 3, 1.25)];
            let words = allowed(len, seed);
            let edits = [
                (&bias[..], None),
                (&[][..], Some(&words[..])),
                (&bias[..], Some(&words[..])),
            ];
            for (bias, allowed) in edits {
                let mut changed = row.clone();
                for &(token, bias) in bias {
                    changed[token as usize] += bias;
                }
                for (token, logit) in changed.iter_mut().enumerate() {
                    if allowed.is_some_and(|words| words[token / 32] >> (token % 32) & 1 == 0) {
                        *logit = f32::NEG_INFINITY;
                    }
                }
                for params in [
                    SamplingParams::default(),
                    SamplingParams {
                        temperature: 0.0,
                        ..SamplingParams::default()
                    },
                    SamplingParams {
                        top_k: 7,
                        top_p: 0.7,
                        temperature: 0.8,
                        ..SamplingParams::default()
                    },
                ] {
                    let request = SampleRequest {
                        logits: &row,
                        history: &[],
                        params,
                        edits: RowEdits { bias, allowed },
                        draw: draw(seed, 2),
                    };
                    let mut sampler = Sampler::new();
                    let got = sampler.sample_one(request);
                    let want = sampler.sample(&changed, &params, &mut draw(seed, 2));
                    assert_eq!(got.token, want.token, "{len} logits, seed {seed}");
                    // The log-probability is the model's own, before the edits.
                    let own = log_prob(&row, got.token);
                    assert_eq!(got.logprob.to_bits(), own.to_bits());
                }
            }
        }
    }
}

#[test]
fn a_row_in_which_nothing_is_allowed_is_no_sample() {
    let row = [0.5, 0.25, f32::NAN];
    for allowed in [&[0][..], &[], &[4]] {
        let request = SampleRequest {
            logits: &row,
            history: &[],
            params: SamplingParams::default(),
            edits: RowEdits {
                bias: &[],
                allowed: Some(allowed),
            },
            draw: draw(0, 0),
        };
        let sampled = Sampler::new().sample_one(request);
        assert!(Sampled::check(&[sampled]).is_err(), "{sampled:?}");
    }
}

#[test]
fn the_likeliest_tokens_are_those_of_a_sort_in_float64() {
    // The tolerance is 3e-7 for the sum, plus half a step of a float32 below 128.
    const TOLERANCE: f64 = 3e-7 + 4e-6;
    for len in LENGTHS.into_iter().chain([151_936]) {
        for seed in 0..20 {
            let row = logits(len, [0.5, 12.0, 80.0][seed as usize % 3], seed);
            let mut sorted: Vec<(u32, f32)> = (0..).zip(row.iter().copied()).collect();
            sorted.retain(|(_, x)| *x > f32::NEG_INFINITY);
            // The sort is stable, so equal logits keep the order of their ids.
            sorted.sort_by(|a, b| b.1.partial_cmp(&a.1).expect("no NaN"));
            let sum: f64 = sorted.iter().map(|(_, x)| f64::from(*x).exp()).sum();
            let mut sampler = Sampler::new();
            let mut top = vec![(9, 9.0)];
            for count in [0, 1, 2, 5, 20, len + 3] {
                sampler.top_log_probs(&row, count, &mut top);
                assert_eq!(top.len(), count.min(sorted.len()), "{len} logits");
                for (token, logprob) in top.iter().take(20) {
                    assert_eq!(logprob.to_bits(), log_prob(&row, *token).to_bits());
                }
                for ((token, logprob), (best, logit)) in top.iter().zip(&sorted) {
                    assert_eq!(token, best, "{len} logits, seed {seed}");
                    let want = f64::from(*logit) - sum.ln();
                    let error = (f64::from(*logprob) - want).abs();
                    assert!(error < TOLERANCE, "{logprob} instead of {want}");
                }
            }
        }
    }
}

#[test]
fn an_infinite_logit_is_the_only_likely_token() {
    let (mut sampler, mut top) = (Sampler::new(), Vec::new());
    sampler.top_log_probs(&[1.0, f32::INFINITY, f32::NAN, 2.0], 3, &mut top);
    assert_eq!(top, [(1, 0.0)]);
    sampler.top_log_probs(&[f32::NEG_INFINITY, f32::NAN], 3, &mut top);
    assert!(top.is_empty());
    // -0.0 equals 0.0, so the lowest id comes first.
    sampler.top_log_probs(&[-0.0, 0.0, -0.0, -1.0], 2, &mut top);
    assert_eq!(
        top.iter().map(|(token, _)| *token).collect::<Vec<_>>(),
        [0, 1]
    );
}

/// Requests on few rows. Consecutive requests often have the same row.
struct Batch {
    rows: Vec<Vec<f32>>,
    requests: Vec<(usize, SamplingParams, Vec<u32>)>,
    bias: Vec<(u32, f32)>,
    allowed: Vec<u32>,
}

impl Batch {
    fn new(len: usize, count: usize) -> Self {
        let rows = (0..count.div_ceil(3)).map(|i| logits(len, 30.0, i as u64));
        let requests = (0..count).map(|i| {
            let mut params = SamplingParams::default();
            match i % 11 {
                0 => params.top_k = 3,
                1 | 2 => params.temperature = 0.0,
                3..=5 => params.top_p = 0.8,
                6 => params.min_p = 0.1,
                7 | 8 => params.repetition_penalty = 1.5,
                _ => params.temperature = 0.6,
            }
            (i / 3, params, vec![0, (i / 2 % len) as u32])
        });
        Self {
            rows: rows.collect(),
            requests: requests.collect(),
            bias: vec![(0, -100.0), (len as u32 / 2, 9.0)],
            allowed: allowed(len, 5),
        }
    }

    fn request(&self, i: usize) -> SampleRequest<'_> {
        let (row, params, history) = &self.requests[i];
        SampleRequest {
            logits: &self.rows[*row],
            history,
            params: *params,
            edits: RowEdits {
                bias: if i % 4 == 1 { &self.bias } else { &[] },
                allowed: (i % 5 == 2).then_some(&self.allowed),
            },
            draw: draw(i as u64, 9),
        }
    }

    fn alone(&self, i: usize) -> Sampled {
        Sampler::new().sample_one(self.request(i))
    }
}

#[test]
fn a_batch_is_what_each_request_is_alone() {
    for (len, count) in [(1, 5), (17, 40), (1025, 100), (40_000, 33)] {
        let batch = Batch::new(len, count);
        let want: Vec<Sampled> = (0..count).map(|i| batch.alone(i)).collect();
        for threads in [1, 2, 3] {
            let pool = ThreadPool::new(threads);
            let mut sampler = Sampler::new();
            let mut got = Vec::new();
            for _ in 0..2 {
                sampler.sample_batch(&pool, count, |i| batch.request(i), &mut got);
                assert_eq!(got, want, "{len} logits, {threads} threads");
            }
            // In reverse order, each request has other neighbours.
            let backwards = |i| batch.request(count - 1 - i);
            sampler.sample_batch(&pool, count, backwards, &mut got);
            got.reverse();
            assert_eq!(got, want);
            sampler.sample_batch(&pool, 0, |i| batch.request(i), &mut got);
            assert!(got.is_empty());
        }
    }
}
