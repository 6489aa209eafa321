//! Quantiles of the probability of success: a linear layer of the reward model's hidden state, the
//! step's score and the lowest score so far, under the pinball loss.
//!
//! The loss is that of the log-odds. A quantile goes through a rising map as it is, so this fits the
//! same quantiles; but no gradient vanishes where a probability is near 0 or 1, as most are. Shares
//! nearer to 0 or 1 than [`EDGE`] count as that: a prediction beyond has no loss then (Powell's
//! censored quantile regression).

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::Sample;
use super::logistic::{Logistic, logit, sigmoid};

/// The quantiles that are read.
pub const LEVELS: [f64; 3] = [0.1, 0.5, 0.9];

/// The low quantile, the median and the high quantile of a step's probability of success.
pub type Quantiles = [f32; LEVELS.len()];

/// Passes over all samples.
const PASSES: usize = 400;
/// Adam's step, and its memories.
const RATE: f64 = 0.02;
const BETAS: (f64, f64) = (0.9, 0.999);
/// The weight of the square of a standardised hidden state's weight.
const DECAY: f64 = 1e-3;
/// A few rollouts tell no smaller share from 0.
const EDGE: f64 = 1.0 / 32.0;
/// One problem in so many says when to stop.
const WATCHED: usize = 8;
/// Passes without a better loss on these after which fitting ends.
const PATIENCE: usize = 40;

/// A linear layer of the hidden state and two logits, standardised, for each of [`LEVELS`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuantileHead {
    /// Of each hidden value, of the step's logit and of the lowest so far: subtracted.
    mean: Vec<f32>,
    /// Of each, multiplied then.
    scale: Vec<f32>,
    layers: [Layer; LEVELS.len()],
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    weights: Vec<f32>,
    bias: f32,
}

/// What a head is fitted to.
#[derive(Clone, Debug)]
pub struct HeadSample {
    /// The hidden state that the score was read from.
    pub hidden: Vec<f32>,
    /// The score.
    pub score: f32,
    /// The lowest score of the chain up to this step.
    pub lowest: f32,
    /// The share of right completions.
    pub target: f64,
    /// How much it counts.
    pub weight: f64,
    /// The number of its problem.
    pub problem: usize,
}

/// The pinball loss of a quantile: its least mean is at that quantile of the targets.
#[must_use]
pub fn pinball(level: f64, value: f64, target: f64) -> f64 {
    let above = target - value;
    (level * above).max((level - 1.0) * above)
}

impl QuantileHead {
    /// Fits the three layers; one problem in eight says when to stop. `None` without samples, or
    /// if their hidden states have different lengths.
    #[must_use]
    pub fn fit(samples: &[HeadSample]) -> Option<Self> {
        let width = samples.first()?.hidden.len();
        if samples.iter().any(|sample| sample.hidden.len() != width) {
            return None;
        }
        let inputs: Vec<Vec<f32>> = samples
            .iter()
            .map(|s| inputs(&s.hidden, s.score, s.lowest))
            .collect();
        let count = samples.len() as f64;
        let mut mean = vec![0.0f64; width + LOGITS];
        let mut square = vec![0.0f64; width + LOGITS];
        for input in &inputs {
            for (at, &value) in input.iter().enumerate() {
                mean[at] += f64::from(value) / count;
                square[at] += f64::from(value) * f64::from(value) / count;
            }
        }
        let deviation = |(mean, square): (&f64, &f64)| (square - mean * mean).max(0.0).sqrt();
        let deviations: Vec<f64> = mean.iter().zip(&square).map(deviation).collect();
        let scale = deviations
            .iter()
            .map(|&d| if d > 1e-6 { (1.0 / d) as f32 } else { 0.0 });
        let mut head = Self {
            scale: scale.collect(),
            mean: mean.iter().map(|&mean| mean as f32).collect(),
            layers: Default::default(),
        };
        // Rows of standardised inputs: `[samples, width + LOGITS]`.
        let rows: Vec<f64> = inputs
            .iter()
            .flat_map(|input| head.standard(input))
            .collect();
        // All quantiles begin at the probability that the lowest score alone tells.
        let points = samples.iter().map(|sample| Sample {
            score: f64::from(sample.lowest),
            target: sample.target,
            weight: sample.weight,
        });
        let start = Logistic::fit(&points.collect::<Vec<Sample>>(), true)?;
        let (slope, offset) = start.line();
        let lowest = width + LOGITS - 1;
        let mut from = vec![0.0; width + LOGITS + 1];
        from[lowest] = slope * deviations[lowest];
        from[lowest + 1] = offset + slope * mean[lowest];
        for (at, level) in LEVELS.into_iter().enumerate() {
            head.layers[at] = fit_layer(level, samples, &rows, from.clone());
        }
        Some(head)
    }

    fn standard<'a>(&'a self, input: &'a [f32]) -> impl Iterator<Item = f64> + 'a {
        let values = input.iter().zip(&self.mean).zip(&self.scale);
        // Unseen directions of the state must not throw the sum.
        values.map(|((&x, &mean), &scale)| f64::from((x - mean) * scale).clamp(-8.0, 8.0))
    }

    /// The quantiles after a step, rising; `lowest` is the lowest score of its chain so far.
    #[must_use]
    pub fn apply(&self, hidden: &[f32], score: f32, lowest: f32) -> Quantiles {
        let input = inputs(hidden, score, lowest);
        let mut quantiles = [0.0; LEVELS.len()];
        for (quantile, layer) in quantiles.iter_mut().zip(&self.layers) {
            let products = self.standard(&input).zip(&layer.weights);
            let sum: f64 = products.map(|(x, &weight)| x * f64::from(weight)).sum();
            *quantile = sigmoid(sum + f64::from(layer.bias)) as f32;
        }
        quantiles.sort_by(f32::total_cmp);
        quantiles
    }

    /// Values of the hidden states that it reads.
    #[must_use]
    pub fn width(&self) -> usize {
        self.mean.len().saturating_sub(LOGITS)
    }

    pub(super) fn is_sound(&self) -> bool {
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        let layer = |layer: &Layer| {
            layer.weights.len() == self.mean.len()
                && finite(&layer.weights)
                && layer.bias.is_finite()
        };
        self.scale.len() == self.mean.len()
            && !self.mean.is_empty()
            && finite(&self.mean)
            && finite(&self.scale)
            && self.layers.iter().all(layer)
    }
}

/// Inputs beside the hidden state.
const LOGITS: usize = 2;

fn inputs(hidden: &[f32], score: f32, lowest: f32) -> Vec<f32> {
    let logits = [score, lowest].map(|score| logit(f64::from(score)) as f32);
    hidden.iter().copied().chain(logits).collect()
}

/// Adam over all samples at once, from these weights, the bias last.
fn fit_layer(level: f64, samples: &[HeadSample], rows: &[f64], mut weights: Vec<f64>) -> Layer {
    let inputs = weights.len() - 1;
    let (mut first, mut second) = (vec![0.0; inputs + 1], vec![0.0; inputs + 1]);
    let is_watched = |sample: &HeadSample| sample.problem.is_multiple_of(WATCHED);
    let total: f64 = {
        let fitted = samples.iter().filter(|sample| !is_watched(sample));
        fitted.map(|sample| sample.weight).sum()
    };
    let edge = logit(1.0 - EDGE);
    let log_odds = |target: f64| logit(target).clamp(-edge, edge);
    let mut best = (f64::INFINITY, weights.clone());
    let mut since = 0;
    for pass in 1..=PASSES {
        let mut gradient = vec![0.0; inputs + 1];
        let mut watched = 0.0;
        for (sample, row) in samples.iter().zip(rows.chunks_exact(inputs)) {
            let sum: f64 = row.iter().zip(&weights).map(|(x, weight)| x * weight).sum();
            let value = (sum + weights[inputs]).clamp(-edge, edge);
            let target = log_odds(sample.target);
            if is_watched(sample) {
                watched += sample.weight * pinball(level, value, target);
                continue;
            }
            let slope = match target.total_cmp(&value) {
                Ordering::Greater => -level,
                Ordering::Equal => 0.0,
                Ordering::Less => 1.0 - level,
            };
            let slope = sample.weight / total * slope;
            for (gradient, x) in gradient.iter_mut().zip(row) {
                *gradient += slope * x;
            }
            gradient[inputs] += slope;
        }
        // Without problems to watch, the last pass is the best one.
        if watched < best.0 || watched == 0.0 {
            best = (watched, weights.clone());
            since = 0;
        } else {
            since += 1;
            if since > PATIENCE {
                break;
            }
        }
        let rate = RATE * (1.0 - pass as f64 / (PASSES + 1) as f64);
        for at in 0..=inputs {
            let decay = if at + LOGITS < inputs {
                DECAY * weights[at]
            } else {
                0.0
            };
            let slope = gradient[at] + decay;
            first[at] = BETAS.0 * first[at] + (1.0 - BETAS.0) * slope;
            second[at] = BETAS.1 * second[at] + (1.0 - BETAS.1) * slope * slope;
            let (m, v) = (
                first[at] / (1.0 - BETAS.0.powi(pass as i32)),
                second[at] / (1.0 - BETAS.1.powi(pass as i32)),
            );
            weights[at] -= rate * m / (v.sqrt() + 1e-8);
        }
    }
    let weights = best.1;
    Layer {
        weights: weights[..inputs].iter().map(|&w| w as f32).collect(),
        bias: weights[inputs] as f32,
    }
}
