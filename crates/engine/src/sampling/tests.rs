use super::*;
use crate::rng::Key;

const OFF: SamplingParams = SamplingParams {
    temperature: 1.0,
    top_k: 0,
    top_p: 1.0,
    min_p: 0.0,
    repetition_penalty: 1.0,
};

fn draw(i: u32) -> Draw {
    Key {
        seed: 11,
        problem: 0,
        chain: 0,
    }
    .at(i)
}

fn frequencies(logits: &[f32], params: &SamplingParams, n: u32) -> Vec<f64> {
    let mut sampler = Sampler::new();
    let mut counts = vec![0.0; logits.len()];
    for i in 0..n {
        let sampled = sampler.sample(logits, params, &mut draw(i));
        counts[sampled.token as usize] += 1.0;
    }
    counts.iter().map(|count| count / f64::from(n)).collect()
}

fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
    let e: Vec<f64> = logits
        .iter()
        .map(|x| (f64::from(*x) / temperature).exp())
        .collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|e| e / sum).collect()
}

/// Every frequency within five standard deviations.
#[track_caller]
fn assert_distributed(got: &[f64], want: &[f64], n: u32) {
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let deviation = (w * (1.0 - w) / f64::from(n)).sqrt();
        // The weights are float32.
        assert!(
            (g - w).abs() <= 5.0 * deviation + 1e-6,
            "token {i}: {g} instead of {w}"
        );
    }
}

#[test]
fn draws_follow_the_distribution() {
    let logits: Vec<f32> = (0..50).map(|i| ((i * 7919) % 50) as f32 * 0.1).collect();
    let n = 200_000;
    for temperature in [0.5, 1.0, 2.0] {
        let params = SamplingParams { temperature, ..OFF };
        let want = softmax(&logits, f64::from(temperature));
        assert_distributed(&frequencies(&logits, &params, n), &want, n);
    }
}

#[test]
fn filters_keep_the_right_tokens_in_the_right_ratio() {
    // Probabilities 0.4, 0.3, 0.15, 0.1, 0.05 in mixed order.
    let p = [0.1f32, 0.4, 0.05, 0.3, 0.15];
    let logits = p.map(f32::ln);
    let n = 100_000;
    let check = |params: SamplingParams, kept: &[usize]| {
        let sum: f32 = kept.iter().map(|i| p[*i]).sum();
        let want: Vec<f64> = (0..5)
            .map(|i| {
                if kept.contains(&i) {
                    f64::from(p[i] / sum)
                } else {
                    0.0
                }
            })
            .collect();
        assert_distributed(&frequencies(&logits, &params, n), &want, n);
    };
    check(SamplingParams { top_k: 2, ..OFF }, &[1, 3]);
    check(SamplingParams { top_k: 5, ..OFF }, &[0, 1, 2, 3, 4]);
    check(SamplingParams { top_k: 99, ..OFF }, &[0, 1, 2, 3, 4]);
    check(SamplingParams { top_p: 0.39, ..OFF }, &[1]);
    check(SamplingParams { top_p: 0.41, ..OFF }, &[1, 3]);
    check(SamplingParams { top_p: 0.72, ..OFF }, &[1, 3, 4]);
    check(SamplingParams { min_p: 0.3, ..OFF }, &[1, 3, 4]);
    check(SamplingParams { min_p: 1.0, ..OFF }, &[1]);
    // 0.4 of the 0.7 that top-k leaves are 0.57.
    check(
        SamplingParams {
            top_k: 2,
            top_p: 0.5,
            ..OFF
        },
        &[1],
    );
    check(
        SamplingParams {
            top_k: 3,
            min_p: 0.7,
            ..OFF
        },
        &[1, 3],
    );
}

#[test]
fn at_least_one_token_stays() {
    let logits: Vec<f32> = (0..700).map(|i| (i as f32 * 0.37).sin() * 5.0).collect();
    let best = (0..700).max_by(|a, b| logits[*a as usize].total_cmp(&logits[*b as usize]));
    let best = best.unwrap();
    for params in [
        SamplingParams {
            temperature: 0.0,
            ..OFF
        },
        SamplingParams {
            temperature: 1e-40,
            ..OFF
        },
        SamplingParams {
            temperature: f32::NAN,
            ..OFF
        },
        SamplingParams { top_k: 1, ..OFF },
        SamplingParams {
            top_p: 1e-30,
            ..OFF
        },
        SamplingParams { top_p: 0.0, ..OFF },
        SamplingParams { min_p: 1.0, ..OFF },
        SamplingParams { min_p: 7.0, ..OFF },
        SamplingParams {
            temperature: 1e-3,
            top_k: 1,
            top_p: 1e-9,
            min_p: 1.0,
            ..OFF
        },
    ] {
        for i in 0..20 {
            assert_eq!(
                sample(&logits, &params, &mut draw(i)).token,
                best,
                "{params:?}"
            );
        }
    }
}

#[test]
fn equals_are_kept_by_lowest_id() {
    let logits = [1.0, 3.0, 3.0, 3.0, 0.0];
    for (params, allowed) in [
        (
            SamplingParams {
                temperature: 0.0,
                ..OFF
            },
            vec![1],
        ),
        (SamplingParams { top_k: 2, ..OFF }, vec![1, 2]),
        (SamplingParams { top_p: 0.4, ..OFF }, vec![1, 2]),
    ] {
        let f = frequencies(&logits, &params, 300);
        for (i, f) in f.iter().enumerate() {
            assert_eq!(*f > 0.0, allowed.contains(&i), "{params:?}, token {i}");
        }
    }
}

#[test]
fn odd_logits_never_make_a_nan() {
    const INF: f32 = f32::INFINITY;
    let rows: [&[f32]; 6] = [
        &[f32::NAN, 0.0, -INF],
        &[-INF, -INF],
        &[f32::NAN, f32::NAN],
        &[0.0, INF, INF],
        &[3e38, -3e38, 3e38],
        &[5.0],
    ];
    for logits in rows {
        for temperature in [0.0, 0.3, 1.0, 1e30] {
            for (top_k, top_p, min_p) in [(0, 1.0, 0.0), (1, 1.0, 0.0), (2, 0.9, 0.1)] {
                let params = SamplingParams {
                    temperature,
                    top_k,
                    top_p,
                    min_p,
                    ..OFF
                };
                let sampled = sample(logits, &params, &mut draw(0));
                assert!((sampled.token as usize) < logits.len());
                assert!(!sampled.logprob.is_nan() && sampled.logprob <= 0.0);
            }
        }
    }
    assert_eq!(sample(&[f32::NAN, 0.0], &OFF, &mut draw(1)).token, 1);
}

#[test]
fn logprob_is_the_models_own() {
    let logits = [0.1f32, 1.7, -2.0, 0.4];
    let want = softmax(&logits, 1.0);
    let params = SamplingParams {
        temperature: 0.2,
        top_k: 2,
        ..OFF
    };
    for i in 0..20 {
        let sampled = sample(&logits, &params, &mut draw(i));
        let want = want[sampled.token as usize].ln();
        assert!((f64::from(sampled.logprob) - want).abs() < 1e-6);
        assert_eq!(log_prob(&logits, sampled.token), sampled.logprob);
    }
}

/// The penalty of `RepetitionPenaltyLogitsProcessor` of `transformers`.
#[test]
fn said_tokens_are_penalised_once_and_their_logprob_is_the_models_own() {
    let logits = [1.0f32, -1.0, 2.0, 0.0, f32::NEG_INFINITY];
    let penalised = [0.5, -2.0, 2.0, 0.0, f32::NEG_INFINITY];
    let params = SamplingParams {
        repetition_penalty: 2.0,
        ..OFF
    };
    let mut sampler = Sampler::new();
    for i in 0..200 {
        let got = sampler.sample_after(&[0, 1, 4, 0, 1, 3], &logits, &params, &mut draw(i));
        let want = sample(&penalised, &OFF, &mut draw(i));
        assert_eq!(got.token, want.token);
        assert_eq!(got.logprob, log_prob(&logits, want.token));
    }
    let greedy = SamplingParams {
        temperature: 0.0,
        repetition_penalty: 3.0,
        ..OFF
    };
    let penalised = sampler.sample_after(&[2], &logits, &greedy, &mut draw(0));
    assert_eq!(penalised.token, 0);
}

#[test]
fn the_same_draw_gives_the_same_token() {
    let logits: Vec<f32> = (0..300).map(|i| (i as f32 * 0.11).cos()).collect();
    let mut kept = Sampler::new();
    for i in 0..100 {
        let params = SamplingParams { top_p: 0.9, ..OFF };
        let a = kept.sample(&logits, &params, &mut draw(i));
        assert_eq!(a, sample(&logits, &params, &mut draw(i)));
    }
}

#[test]
fn ranges_are_checked() {
    assert!(OFF.validate().is_ok());
    for (params, field) in [
        (
            SamplingParams {
                temperature: -1.0,
                ..OFF
            },
            "temperature",
        ),
        (SamplingParams { top_p: 0.0, ..OFF }, "top_p"),
        (SamplingParams { min_p: 1.5, ..OFF }, "min_p"),
        (
            SamplingParams {
                repetition_penalty: 0.0,
                ..OFF
            },
            "repetition_penalty",
        ),
    ] {
        assert!(params.validate().unwrap_err().to_string().contains(field));
    }
}
