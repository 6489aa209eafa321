//! The baseline of the timings: a sampler that works row by row on one thread. It passes over all
//! weights in plain loops for each setting. Only the exponentials and the largest logit use vector
//! instructions; top-k and top-p use quickselect.

use beamgen_engine::rng::Draw;
use beamgen_engine::{Sampled, SamplingParams};
use beamgen_kernels::{Isa, exp_weights, log_sum_exp, maxima, maxima_len};

/// A sampler that reuses its buffers for every row.
#[derive(Default)]
pub(crate) struct Plain {
    maxima: Vec<f32>,
    weights: Vec<f32>,
    order: Vec<f32>,
}

impl Plain {
    pub(crate) fn sample(
        &mut self,
        logits: &[f32],
        params: &SamplingParams,
        draw: &mut Draw,
    ) -> Sampled {
        let isa = Isa::detect();
        let token = if params.temperature == 0.0 {
            argmax(logits)
        } else {
            self.maxima.resize(maxima_len(logits.len()), 0.0);
            self.weights.resize(logits.len(), 0.0);
            let top = maxima(isa, logits, &mut self.maxima);
            let scale = 1.0 / params.temperature;
            exp_weights(isa, logits, top, scale, &mut self.weights);
            if params.top_k > 0 {
                self.keep_top_k(logits, params.top_k);
            }
            if params.top_p < 1.0 {
                self.keep_top_p(params.top_p);
            }
            if params.min_p > 0.0 {
                let few = self.weights.iter_mut().filter(|w| **w < params.min_p);
                few.for_each(|w| *w = 0.0);
            }
            pick(&self.weights, draw.uniform())
        };
        Sampled {
            token: token as u32,
            logprob: (f64::from(logits[token]) - log_sum_exp(isa, logits)) as f32,
        }
    }

    /// Zeroes all weights except those of the `k` largest logits. Among equal logits the lowest ids
    /// stay.
    fn keep_top_k(&mut self, logits: &[f32], k: usize) {
        self.order.clear();
        self.order.extend(logits);
        let (above, least, _) = self
            .order
            .select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
        let least = *least;
        let mut equals = k - above.iter().filter(|x| **x > least).count();
        for (weight, logit) in self.weights.iter_mut().zip(logits) {
            if *logit == least && equals > 0 {
                equals -= 1;
            } else if *logit <= least {
                *weight = 0.0;
            }
        }
    }

    /// Keeps the fewest largest weights whose sum reaches `p` of the whole, and zeroes the others.
    /// Among equal weights the lowest ids stay.
    fn keep_top_p(&mut self, p: f32) {
        self.order.clear();
        self.order.extend(self.weights.iter().filter(|w| **w > 0.0));
        let sum: f64 = self.order.iter().map(|w| f64::from(*w)).sum();
        let mut missing = (sum * f64::from(p)).max(f64::MIN_POSITIVE);
        // Quickselect by sum: each round continues only on the side of the pivot that has the
        // limit.
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

/// Returns the index at which the running sum passes the fraction `u` of the whole.
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

fn argmax(x: &[f32]) -> usize {
    let mut best = (0, f32::NEG_INFINITY);
    for (i, x) in x.iter().enumerate() {
        if *x > best.1 {
            best = (i, *x);
        }
    }
    best.0
}
