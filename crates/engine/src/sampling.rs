//! A token from a row of logits.

use beamgen_kernels::{Isa, argmax, exp_weights, log_sum_exp, max};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::rng::Draw;

/// How tokens are drawn. Filters apply to the tempered distribution, in the order top-k, top-p,
/// min-p, each to what the one before has left; at least one token always stays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingParams {
    /// Divides the logits. 0 takes the most likely token, the lowest id of equals.
    pub temperature: f32,
    /// Keeps that many most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the fewest most likely tokens that have this probability together; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Before all others: divides the positive and multiplies the negative logits of tokens that
    /// were read or said before (Keskar et al. 2019, arXiv:1909.05858); 1 changes nothing.
    pub repetition_penalty: f32,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
        }
    }
}

impl SamplingParams {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`Error::Sampling`] names the setting.
    pub fn validate(&self) -> Result<(), Error> {
        let bad = |field, value, expected| {
            Err(Error::Sampling {
                field,
                value,
                expected,
            })
        };
        if !self.temperature.is_finite() || self.temperature < 0.0 {
            return bad("temperature", self.temperature, "0 or more");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return bad("top_p", self.top_p, "above 0, at most 1");
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return bad("min_p", self.min_p, "from 0 to 1");
        }
        if !(self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite()) {
            return bad("repetition_penalty", self.repetition_penalty, "above 0");
        }
        Ok(())
    }
}

/// A drawn token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// The token.
    pub token: u32,
    /// Natural log of its probability under the model's own distribution: temperature 1, no
    /// filters, whatever the settings. Never NaN.
    pub logprob: f32,
}

/// Draws a token. See [`Sampler::sample`]; a [`Sampler`] that is kept saves the working memory.
pub fn sample(logits: &[f32], params: &SamplingParams, draw: &mut Draw) -> Sampled {
    Sampler::new().sample(logits, params, draw)
}

/// Natural log of a token's probability under `logits`. NaN logits count as minus infinity.
///
/// # Panics
/// If the token is outside.
#[must_use]
pub fn log_prob(logits: &[f32], token: u32) -> f32 {
    relative_to(log_sum_exp(Isa::detect(), logits), logits[token as usize])
}

/// `logit - total`, where neither infinities nor NaN make a NaN.
fn relative_to(total: f32, logit: f32) -> f32 {
    if logit.is_nan() || logit == f32::NEG_INFINITY {
        f32::NEG_INFINITY
    } else if logit == f32::INFINITY {
        0.0
    } else {
        (logit - total).min(0.0)
    }
}

/// Draws tokens; keeps its working memory.
#[derive(Clone, Debug)]
pub struct Sampler {
    isa: Isa,
    weights: Vec<f32>,
    order: Vec<f32>,
    penalised: Vec<f32>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self::new()
    }
}

impl Sampler {
    /// A sampler without working memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            isa: Isa::detect(),
            weights: Vec::new(),
            order: Vec::new(),
            penalised: Vec::new(),
        }
    }

    /// Draws a token by inversion, with one uniform number.
    ///
    /// NaN counts as minus infinity; if no logit is above it, token 0 comes with log-probability
    /// minus infinity. Settings outside their ranges act as the nearest that makes sense
    /// ([`SamplingParams::validate`] finds them).
    ///
    /// # Panics
    /// If there are no logits.
    pub fn sample(&mut self, logits: &[f32], params: &SamplingParams, draw: &mut Draw) -> Sampled {
        assert!(!logits.is_empty(), "a row of logits");
        let total = log_sum_exp(self.isa, logits);
        let token = if total.is_finite() {
            self.draw(logits, params, draw)
        } else {
            argmax(logits)
        };
        Sampled {
            token: token as u32,
            logprob: relative_to(total, logits[token]),
        }
    }

    /// As [`sample`](Self::sample), with the repetition penalty on the tokens in `said`, which may
    /// have some twice.
    ///
    /// # Panics
    /// If there are no logits, or a token is outside.
    pub fn sample_after(
        &mut self,
        said: &[u32],
        logits: &[f32],
        params: &SamplingParams,
        draw: &mut Draw,
    ) -> Sampled {
        let penalty = params.repetition_penalty;
        if penalty == 1.0 {
            return self.sample(logits, params, draw);
        }
        let mut row = std::mem::take(&mut self.penalised);
        row.clear();
        row.extend_from_slice(logits);
        for &token in said {
            let logit = logits[token as usize];
            row[token as usize] = match logit < 0.0 {
                true => logit * penalty,
                false => logit / penalty,
            };
        }
        let token = self.sample(&row, params, draw).token;
        self.penalised = row;
        Sampled {
            token,
            logprob: log_prob(logits, token),
        }
    }

    fn draw(&mut self, logits: &[f32], params: &SamplingParams, draw: &mut Draw) -> usize {
        let scale = 1.0 / params.temperature;
        // Also for a temperature so small that its inverse overflows, and for NaN.
        if !(scale > 0.0 && scale.is_finite()) {
            return argmax(logits);
        }
        self.weights.resize(logits.len(), 0.0);
        let top = max(self.isa, logits);
        exp_weights(self.isa, logits, top, scale, &mut self.weights);
        if (1..logits.len()).contains(&params.top_k) {
            self.keep_top_k(logits, params.top_k);
        }
        if params.top_p < 1.0 {
            self.keep_top_p(params.top_p);
        }
        if params.min_p > 0.0 {
            // The largest weight is e^0 = 1, and no filter drops it.
            let least = params.min_p.min(1.0);
            self.weights
                .iter_mut()
                .filter(|w| **w < least)
                .for_each(|w| *w = 0.0);
        }
        pick(&self.weights, draw.uniform())
    }

    /// Zeroes all but the `k` largest logits; of equals the lowest ids stay.
    fn keep_top_k(&mut self, logits: &[f32], k: usize) {
        let value = |x: f32| if x.is_nan() { f32::NEG_INFINITY } else { x };
        self.order.clear();
        self.order.extend(logits.iter().map(|x| value(*x)));
        let (above, least, _) = self
            .order
            .select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
        let least = *least;
        let mut equals = k - above.iter().filter(|x| **x > least).count();
        for (weight, logit) in self.weights.iter_mut().zip(logits) {
            let logit = value(*logit);
            if logit == least && equals > 0 {
                equals -= 1;
            } else if logit <= least {
                *weight = 0.0;
            }
        }
    }

    /// Zeroes all but the fewest largest weights that make `p` of the sum; of equals the lowest
    /// ids stay.
    fn keep_top_p(&mut self, p: f32) {
        self.order.clear();
        self.order.extend(self.weights.iter().filter(|w| **w > 0.0));
        let sum: f64 = self.order.iter().map(|w| f64::from(*w)).sum();
        let mut missing = (sum * f64::from(p)).max(f64::MIN_POSITIVE);
        // Quickselect by mass: each round looks only at the side where the limit lies.
        let (least, mut equals) = loop {
            let Some(&pivot) = self.order.get(self.order.len() / 2) else {
                return;
            };
            let above: f64 = self
                .order
                .iter()
                .filter(|w| **w > pivot)
                .map(|w| f64::from(*w))
                .sum();
            if above >= missing {
                self.order.retain(|w| *w > pivot);
                continue;
            }
            let count = self.order.iter().filter(|w| **w == pivot).count();
            let with = above + count as f64 * f64::from(pivot);
            if with >= missing {
                break (
                    pivot,
                    ((missing - above) / f64::from(pivot)).ceil() as usize,
                );
            }
            missing -= with;
            self.order.retain(|w| *w < pivot);
        };
        for weight in &mut self.weights {
            if *weight == least && equals > 0 {
                equals -= 1;
            } else if *weight <= least {
                *weight = 0.0;
            }
        }
    }
}

/// The index at which the running sum passes the fraction `u` of the whole.
fn pick(weights: &[f32], u: f64) -> usize {
    let sum: f64 = weights.iter().map(|w| f64::from(*w)).sum();
    let mut left = u * sum;
    let mut last = 0;
    for (i, weight) in weights.iter().enumerate() {
        if *weight > 0.0 {
            last = i;
            left -= f64::from(*weight);
            if left < 0.0 {
                break;
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
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
        let best = argmax(&logits) as u32;
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

    /// As RepetitionPenaltyLogitsProcessor of `transformers`.
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
        let said = sampler.sample_after(&[2], &logits, &greedy, &mut draw(0));
        assert_eq!(said.token, 0);
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
}
