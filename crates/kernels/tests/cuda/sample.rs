//! Compares sampled tokens with a float64 model of the CPU's sampling. Tokens must be equal, unless
//! a random number is too near to a boundary.

use beamgen_kernels::cuda::{Device, Number, SampleRequest, Samples, log_probs};
use beamgen_kernels::{Isa, IsaLevel, exp_weights, log_sum_exp_reference};

use crate::helpers::{device, download, noise, upload};

/// The least distance of a random number from the boundary between two tokens at which tokens are
/// compared, as a fraction of the sum of weights. Weights have the CPU's bits and sums are float64.
/// Only the CPU's portable tier, which has no fused multiply-adds, has other bits.
fn margin() -> f64 {
    match Isa::detect().level() {
        IsaLevel::Portable => 1e-6,
        _ => 1e-12,
    }
}

const OFF: SampleRequest = SampleRequest {
    row: 0,
    said_first: 0,
    said_count: 0,
    top_k: 0,
    penalty: 1.0,
    temperature: 1.0,
    top_p: 1.0,
    min_p: 0.0,
    key: [0; 2],
    counter: [0; 4],
};

/// Philox4x32 with ten rounds (Salmon et al., SC 2011).
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let [a, b] =
            [(0xD251_1F53u64, 0), (0xCD9E_8D57, 2)].map(|(m, i)| m * u64::from(counter[i]));
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
    counter
}

fn uniform(request: &SampleRequest) -> f64 {
    let words = philox(request.counter, request.key);
    let bits = u64::from(words[0]) << 32 | u64::from(words[1]);
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// The distribution that the settings make of a row, in float64.
struct Model {
    /// The tokens that may be sampled, in rising order, with their weights.
    kept: Vec<(usize, f64)>,
    /// The logarithm of the sum of exponentials of the row.
    total: f64,
    /// The distance of top-p's limit from keeping one token more or fewer, as a fraction of the
    /// sum.
    nucleus: f64,
}

impl Model {
    fn penalised(x: &[f32], request: &SampleRequest, said: &[u32]) -> Self {
        let mut row = x.to_vec();
        for token in &said[request.said_first as usize..][..request.said_count as usize] {
            let (at, logit) = (*token as usize, x[*token as usize]);
            row[at] = if logit < 0.0 {
                logit * request.penalty
            } else {
                logit / request.penalty
            };
        }
        let raw = Self::new(x, &OFF);
        Self {
            total: raw.total,
            ..Self::new(&row, request)
        }
    }

    fn new(x: &[f32], request: &SampleRequest) -> Self {
        let values: Vec<f32> = x
            .iter()
            .map(|v| if v.is_nan() { f32::NEG_INFINITY } else { *v })
            .collect();
        let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let first = values.iter().position(|v| *v == max).expect("a largest");
        let mut model = Self {
            kept: vec![(first, 1.0)],
            total: f64::from(max),
            nucleus: 1.0,
        };
        if max.is_infinite() {
            return model;
        }
        model.total = log_sum_exp_reference(&values);
        let scale = 1.0 / request.temperature;
        if !(scale > 0.0 && scale.is_finite()) {
            return model;
        }
        let mut weights = vec![0.0; x.len()];
        exp_weights(Isa::detect(), &values, max, scale, &mut weights);
        let mut ids: Vec<usize> = (0..x.len()).collect();
        let top_k = request.top_k as usize;
        if (1..x.len()).contains(&top_k) {
            ids.retain(|i| values[*i] > f32::NEG_INFINITY);
            ids.sort_by(|a, b| values[*b].partial_cmp(&values[*a]).expect("numbers"));
            ids.truncate(top_k);
            ids.sort_unstable();
        }
        ids.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
        if request.top_p < 1.0 {
            let sum: f64 = ids.iter().map(|i| f64::from(weights[*i])).sum();
            let target = (sum * f64::from(request.top_p).max(0.0)).max(f64::MIN_POSITIVE);
            let mut before = 0.0f64;
            ids.retain(|i| {
                // A sum that equals the target has few bits, so it is the same in any order.
                if before != target {
                    model.nucleus = model.nucleus.min((before - target).abs() / sum);
                }
                let stays = before < target;
                before += f64::from(weights[*i]);
                stays
            });
        }
        let min_p = if request.min_p > 0.0 {
            request.min_p.min(1.0)
        } else {
            0.0
        };
        ids.retain(|i| weights[*i] >= min_p);
        ids.sort_unstable();
        model.kept = ids.iter().map(|i| (*i, f64::from(weights[*i]))).collect();
        model
    }

    /// Returns the token for the uniform number `u`, and the distance of `u` from the nearest
    /// boundary.
    fn token(&self, u: f64) -> (usize, f64) {
        let sum: f64 = self.kept.iter().map(|(_, w)| w).sum();
        let (mut end, mut token, mut distance) = (0.0, None, self.nucleus);
        for (i, w) in &self.kept {
            if *w > 0.0 {
                end += w;
                token = token.or((u * sum < end).then_some(*i));
                distance = distance.min((u * sum - end).abs() / sum);
            }
        }
        (token.unwrap_or(self.kept[0].0), distance)
    }
}

#[track_caller]
fn assert_logprob(model: &Model, logit: f32, got: f32, case: &str) {
    let want = match logit {
        x if x.is_nan() || x == f32::NEG_INFINITY => f64::NEG_INFINITY,
        f32::INFINITY => 0.0,
        x => (f64::from(x) - model.total).min(0.0),
    };
    let same = f64::from(got) == want || (f64::from(got) - want).abs() < 1e-5;
    assert!(same, "{case}: log-probability {got} instead of {want}");
}

/// Samples a token for every request and compares it with the model. Returns the number of requests
/// that were too near to a boundary.
fn compare(
    device: &Device,
    rows: &[Vec<f32>],
    stride: usize,
    vocab: usize,
    requests: &[SampleRequest],
) -> usize {
    let mut padded = Vec::with_capacity(rows.len() * stride);
    for row in rows {
        padded.extend_from_slice(&row[..vocab]);
        // Numbers beyond a row's tokens must never be sampled, however large they are.
        padded.resize(padded.len() + stride - vocab, 1e30);
    }
    let logits = upload(device, Number::F32, &padded);
    let mut samples = Samples::new(device, requests.len(), 0).expect("memory");
    samples.request(requests, &[]).expect("a copy");
    samples.draw(&logits, vocab, stride).expect("a launch");
    let mut near = 0;
    let mut before: Option<(SampleRequest, Model)> = None;
    for (request, (token, logprob)) in requests.iter().zip(samples.read().expect("a copy")) {
        let row = &rows[request.row as usize][..vocab];
        let settings = SampleRequest {
            key: [0; 2],
            counter: [0; 4],
            ..*request
        };
        // Settings with NaN do not equal themselves, so their model is computed each time.
        let model = match before.take() {
            Some((last, model)) if last == settings => model,
            _ => Model::new(row, request),
        };
        let case = format!("{request:?} of {vocab}");
        let (want, distance) = model.token(uniform(request));
        if model.kept.len() > 1 && distance < margin() {
            near += 1;
        } else {
            assert_eq!(token as usize, want, "{case}, {distance:e} from a boundary");
        }
        assert_logprob(&model, row[token as usize], logprob, &case);
        before = Some((settings, model));
    }
    near
}

/// `draws` requests for each combination of row and settings.
fn requests(rows: usize, settings: &[SampleRequest], draws: u32) -> Vec<SampleRequest> {
    let mut all = Vec::new();
    for row in 0..rows as u32 {
        for (i, settings) in settings.iter().enumerate() {
            all.extend((0..draws).map(|draw| SampleRequest {
                row,
                key: [11, 5],
                counter: [0, draw, 7 * row, i as u32],
                ..*settings
            }));
        }
    }
    all
}

/// Every kind of setting and combinations of them, for a row of `vocab` logits.
fn settings(vocab: usize) -> Vec<SampleRequest> {
    let mut all = Vec::new();
    for temperature in [1.0, 0.7, 3.0] {
        for top_k in [0, 1, 5, 700, vocab as u32 / 2 + 1, vocab as u32 - 1] {
            for top_p in [1.0, 0.95, 0.5] {
                for min_p in [0.0, 0.05] {
                    all.push(SampleRequest {
                        top_k,
                        temperature,
                        top_p,
                        min_p,
                        ..OFF
                    });
                }
            }
        }
    }
    all
}

const INF: f32 = f32::INFINITY;

/// Rows of `n` logits: spread like a model's, nearly flat, with NaN and infinities, with few
/// different values, and with one value.
fn rows(n: usize) -> Vec<Vec<f32>> {
    let spread =
        |width: f32, seed| -> Vec<f32> { noise(n, seed).iter().map(|x| x * width).collect() };
    let mut odd = spread(8.0, 3);
    for (i, x) in odd.iter_mut().enumerate() {
        match i % 7 {
            1 => *x = f32::NAN,
            3 => *x = -INF,
            _ => {}
        }
    }
    vec![
        spread(12.0, 1),
        spread(1e-3, 2),
        odd,
        (0..n).map(|i| [0.0, -0.0, 1.5, 1.5, -2.0][i % 5]).collect(),
        vec![-7.25; n],
    ]
}

#[test]
fn tokens_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    let (mut near, mut all) = (0, 0);
    for (vocab, draws) in [
        (2, 2),
        (3, 2),
        (32, 3),
        (33, 1),
        (515, 1),
        (1024, 1),
        (5000, 1),
    ] {
        let rows = rows(vocab);
        let requests = requests(rows.len(), &settings(vocab), draws);
        near += compare(device, &rows, vocab + 3, vocab, &requests);
        all += requests.len();
    }
    assert!(near * 50 < all, "{near} of {all} draws are near a boundary");
}

#[test]
fn settings_at_and_beyond_their_ends() {
    let Some(device) = device() else { return };
    let rows = rows(601);
    let mut settings = Vec::new();
    for temperature in [0.0, 1e-40, 1e-3, 1e8, 1e30, f32::NAN, INF, -1.0] {
        for (top_k, top_p, min_p) in [
            (0, 1.0, 0.0),
            (3, 0.9, 0.0),
            (0, 0.3, 0.01),
            (600, 0.999_999_94, 0.0),
        ] {
            settings.push(SampleRequest {
                temperature,
                top_k,
                top_p,
                min_p,
                ..OFF
            });
        }
    }
    for (top_k, top_p, min_p) in [
        (601, 1.0, 0.0),
        (u32::MAX, 2.0, -1.0),
        (0, 0.0, 0.0),
        (0, -1.0, 0.0),
        (0, 1e-30, 0.0),
        (0, f32::NAN, f32::NAN),
        (0, 1.0, 1.0),
        (0, 1.0, 7.0),
        (5, 0.5, 1.0),
    ] {
        settings.push(SampleRequest {
            top_k,
            top_p,
            min_p,
            ..OFF
        });
    }
    compare(device, &rows, 601, 601, &requests(rows.len(), &settings, 2));
}

#[test]
fn odd_rows_never_make_a_nan() {
    let Some(device) = device() else { return };
    let rows = [
        [f32::NAN, 0.0, -INF],
        [-INF; 3],
        [f32::NAN; 3],
        [0.0, INF, INF],
        [3e38, -3e38, 3e38],
        [f32::MIN, -INF, f32::MIN],
        [-INF, 5.0, -INF],
    ]
    .map(|row| row.to_vec());
    let mut settings = settings(3);
    settings.push(SampleRequest {
        temperature: 0.0,
        ..OFF
    });
    compare(device, &rows, 4, 3, &requests(rows.len(), &settings, 2));
    // Tests rows with a single token, and then a request whose row does not exist.
    compare(device, &rows, 3, 1, &requests(rows.len(), &settings, 1));
    let mut samples = Samples::new(device, 2, 0).expect("memory");
    samples
        .request(&[SampleRequest { row: 1, ..OFF }, OFF], &[])
        .expect("a copy");
    samples
        .draw(&upload(device, Number::F32, &[0.5; 4]), 4, 4)
        .expect("a launch");
    let drawn: Vec<(u32, f32)> = samples.read().expect("a copy").collect();
    assert!(drawn[0].0 == 0 && drawn[0].1.is_nan());
    assert_eq!(drawn[1].1, -(4f32.ln()));
}

/// With ties, the filters must keep the right number of tokens, the first ones. The many samples
/// find each kept token.
#[test]
fn of_equals_the_first_stay() {
    let Some(device) = device() else { return };
    let row: Vec<f32> = (0..2500)
        .map(|i| if i % 2 == 1 { 2.0 } else { 1.0 })
        .collect();
    let logits = upload(device, Number::F32, &row);
    for (top_k, top_p, last) in [(7, 1.0, 13), (0, 0.004, 11), (7, 0.5, 7), (1251, 1.0, 2499)] {
        let settings = SampleRequest {
            top_k,
            top_p,
            temperature: 0.25,
            ..OFF
        };
        let requests = requests(1, &[settings], 150);
        let mut samples = Samples::new(device, requests.len(), 0).expect("memory");
        samples.request(&requests, &[]).expect("a copy");
        samples.draw(&logits, 2500, 2500).expect("a launch");
        let mut seen: Vec<u32> = samples
            .read()
            .expect("a copy")
            .map(|(token, _)| token)
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert!(
            seen.iter().all(|token| token % 2 == 1 && *token <= last),
            "{seen:?}"
        );
        if last < 20 {
            assert_eq!(seen.len() as u32, last / 2 + 1);
        }
    }
}

/// The row has more values than the kernel ranks at once, and neighbouring values differ in the
/// last bit.
#[test]
fn neighbouring_values_are_told_apart() {
    let Some(device) = device() else { return };
    let row: Vec<f32> = (0..4500u32)
        .map(|i| f32::from_bits(1f32.to_bits() + i * i % 3))
        .collect();
    let mut settings = Vec::new();
    for top_k in [1, 600, 1499, 2999, 3001, 4400] {
        for top_p in [1.0, 0.7] {
            settings.push(SampleRequest {
                top_k,
                top_p,
                temperature: 1e-6,
                ..OFF
            });
        }
    }
    compare(device, &[row], 4500, 4500, &requests(1, &settings, 4));
}

#[test]
fn a_vocabulary_of_152_thousand() {
    const VOCAB: usize = 151_936;
    let Some(device) = device() else { return };
    // The distribution is roughly a model's: most logits are far below a few likely ones.
    let row: Vec<f32> = noise(VOCAB, 9).iter().map(|x| 9.0 * x * x * x).collect();
    let mut settings = vec![OFF];
    for (temperature, top_k, top_p, min_p) in [
        (0.0, 0, 1.0, 0.0),
        (0.8, 0, 1.0, 0.0),
        (0.7, 20, 0.8, 0.0),
        (1.0, 0, 0.95, 0.0),
        (0.3, 0, 0.9, 0.02),
        (1.0, 100_000, 0.99, 0.0),
    ] {
        settings.push(SampleRequest {
            temperature,
            top_k,
            top_p,
            min_p,
            ..OFF
        });
    }
    let requests = requests(2, &settings, 2);
    compare(device, &[row, vec![0.25; VOCAB]], VOCAB, VOCAB, &requests);
}

#[test]
fn a_sample_is_batch_invariant() {
    let Some(device) = device() else { return };
    let vocab = 1500;
    let rows = rows(vocab);
    let logits = upload(device, Number::F32, &rows.concat());
    let settings = [
        OFF,
        SampleRequest {
            top_k: 40,
            top_p: 0.9,
            ..OFF
        },
        SampleRequest {
            top_p: 0.8,
            min_p: 0.01,
            temperature: 0.6,
            ..OFF
        },
    ];
    let mut samples = Samples::new(device, 64, 0).expect("memory");
    let mut draw = |requests: &[SampleRequest]| -> Vec<(u32, u32)> {
        samples.request(requests, &[]).expect("a copy");
        samples.draw(&logits, vocab, vocab).expect("a launch");
        let drawn = samples.read().expect("a copy");
        drawn
            .map(|(token, logprob)| (token, logprob.to_bits()))
            .collect()
    };
    let mut all = requests(rows.len(), &settings, 2);
    let together = draw(&all);
    for (request, drawn) in all.iter().zip(&together) {
        assert_eq!(draw(&[*request]), [*drawn]);
    }
    all.reverse();
    let reversed: Vec<_> = draw(&all).into_iter().rev().collect();
    assert_eq!(reversed, together);
}

/// The penalty of `RepetitionPenaltyLogitsProcessor` of `transformers`; the log-probability is the
/// model's own.
#[test]
fn said_tokens_are_penalised_once() {
    let Some(device) = device() else { return };
    for vocab in [1, 2, 40, 700] {
        let rows = rows(vocab);
        let logits = upload(device, Number::F32, &rows.concat());
        let mut said: Vec<u32> = (0..90).map(|i| i * i % vocab as u32).collect();
        said.push(0);
        let mut settings = Vec::new();
        for (said_first, said_count) in [(0, 0), (0, 91), (7, 3), (90, 1)] {
            for (penalty, top_k) in [(1.3, 0), (0.5, 4), (1.0, 0), (2.0, 1)] {
                settings.push(SampleRequest {
                    said_first,
                    said_count,
                    penalty,
                    top_k,
                    ..OFF
                });
            }
        }
        let requests = requests(rows.len(), &settings, 3);
        let mut samples = Samples::new(device, requests.len(), said.len()).expect("memory");
        samples.request(&requests, &said).expect("a copy");
        samples.draw(&logits, vocab, vocab).expect("a launch");
        for (request, (token, logprob)) in requests.iter().zip(samples.read().expect("a copy")) {
            let row = &rows[request.row as usize];
            let model = Model::penalised(row, request, &said);
            let (want, distance) = model.token(uniform(request));
            let case = format!("{request:?} of {vocab}");
            assert!(
                token as usize == want || distance < margin(),
                "{case}: {token}, not {want}"
            );
            assert_logprob(&model, row[token as usize], logprob, &case);
        }
    }
}

#[test]
fn fewer_requests_than_before_or_none() {
    let Some(device) = device() else { return };
    let rows = rows(99);
    let logits = upload(device, Number::F32, &rows.concat());
    let mut samples = Samples::new(device, 9, 0).expect("memory");
    let mut first = None;
    for count in [5, 0, 3] {
        let requests = &requests(rows.len(), &[OFF], 1)[..count];
        samples.request(requests, &[]).expect("a copy");
        samples.draw(&logits, 99, 99).expect("a launch");
        let read: Vec<u32> = samples
            .read()
            .expect("a copy")
            .map(|(token, _)| token)
            .collect();
        first.get_or_insert_with(|| read.clone());
        assert_eq!(
            first.as_deref().map(|first| &first[..count]),
            Some(&read[..])
        );
    }
}

#[test]
fn log_probabilities_of_given_tokens() {
    let Some(device) = device() else { return };
    for vocab in [1, 31, 600, 5000] {
        let mut rows = rows(vocab);
        rows.push(vec![-INF; vocab]);
        rows.push(
            (0..vocab)
                .map(|i| if i % 3 == 0 { INF } else { 1.0 })
                .collect(),
        );
        let tokens: Vec<u32> = (0..rows.len())
            .map(|i| ((i * 31 + 1) % vocab) as u32)
            .collect();
        let logits = upload(device, Number::F32, &rows.concat());
        let mut out = device.alloc(4 * rows.len()).expect("memory");
        let list = device.upload(&tokens).expect("memory");
        log_probs(&mut out, &logits, &list, rows.len(), vocab, vocab).expect("a launch");
        for ((row, token), got) in
            rows.iter()
                .zip(&tokens)
                .zip(download(&out, Number::F32, rows.len()))
        {
            assert_logprob(
                &Model::new(row, &OFF),
                row[*token as usize],
                got,
                &format!("{token} of {vocab}"),
            );
        }
    }
    let mut out = device.alloc(4).expect("memory");
    let (logits, token) = (
        upload(device, Number::F32, &[0.0; 3]),
        device.upload(&[3u32]).expect("memory"),
    );
    log_probs(&mut out, &logits, &token, 1, 3, 3).expect("a launch");
    assert!(download(&out, Number::F32, 1)[0].is_nan());
}
