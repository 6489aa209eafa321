//! Quantiles of the probability of success: a linear layer of the reward model's hidden state, the
//! step's score and the lowest score so far, under the pinball loss.
//!
//! The loss compares log-odds, not probabilities. A rising function maps quantiles to quantiles, so the fit is the
//! same, but gradients do not vanish at probabilities near 0 or 1, where most are. Shares within [`EDGE`] of 0 or 1
//! are censored: a prediction beyond the edge has no loss (Powell, "Censored regression quantiles", 1986).

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::Sample;
use super::logistic::{Logistic, logit, sigmoid};

/// The levels of the predicted quantiles: an 80 % interval around the median.
pub const LEVELS: [f64; 3] = [0.1, 0.5, 0.9];

/// The low quantile, the median and the high quantile of a step's probability of success.
pub type Quantiles = [f32; LEVELS.len()];

/// The largest number of passes over all samples. A pass takes one step of Adam.
const PASSES: usize = 400;
/// Adam's learning rate in the first pass; below, the decay rates of the two moments.
const RATE: f64 = 0.02;
const BETAS: (f64, f64) = (0.9, 0.999);
/// The weight decay for weights of the hidden state. The other weights and the bias do not decay.
const DECAY: f64 = 1e-3;
/// The smallest share that is distinguished from 0, because few rollouts cannot show a smaller one.
const EDGE: f64 = 1.0 / 32.0;
/// Problems whose number is divisible by 8 are not fitted to. Their loss decides when to stop.
const WATCHED: usize = 8;
/// The number of passes without a lower loss on the watched problems after which fitting stops.
const PATIENCE: usize = 40;

/// A linear layer for each of [`LEVELS`]. The inputs are the hidden state, the step's logit and the lowest logit, all
/// standardised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuantileHead {
    /// The means of the inputs in the fit: the hidden values, the step's logit, the lowest logit.
    mean: Vec<f32>,
    /// The reciprocals of the inputs' standard deviations; 0 for a constant input.
    scale: Vec<f32>,
    layers: [Layer; LEVELS.len()],
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    weights: Vec<f32>,
    bias: f32,
}

/// A labelled step with its hidden state, from which a head is fitted.
#[derive(Clone, Debug)]
pub struct HeadSample {
    /// The hidden state from which the reward model computed the score; all samples have one length.
    pub hidden: Vec<f32>,
    /// The reward model's score of the step, 0 to 1.
    pub score: f32,
    /// The lowest score of the chain up to this step.
    pub lowest: f32,
    /// The share of right completions after the step, 0 to 1.
    pub target: f64,
    /// The weight in the loss, for example the number of completions.
    pub weight: f64,
    /// The number of the problem. All samples of a problem are either fitted to or watched.
    pub problem: usize,
}

/// Returns the pinball loss of the prediction `value` (Koenker and Bassett, 1978). The mean loss over targets is
/// least if `value` is their quantile of `level`.
#[must_use]
pub fn pinball(level: f64, value: f64, target: f64) -> f64 {
    let above = target - value;
    (level * above).max((level - 1.0) * above)
}

impl QuantileHead {
    /// Fits a layer for each level; the loss on every 8th problem decides when to stop. Returns `None` without
    /// samples, or if the hidden states have different lengths.
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
        // Rounding can make the variance of a constant input negative.
        let variances = mean
            .iter()
            .zip(&square)
            .map(|(mean, square)| (square - mean * mean).max(0.0));
        let deviations: Vec<f64> = variances.map(f64::sqrt).collect();
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
        // The fit of each quantile starts at the probability by a logistic map of the lowest score. If the hidden
        // state is useless, the head is thus no worse than this map.
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
        // A hidden value far outside the data of the fit must not dominate the sum.
        values.map(|((&x, &mean), &scale)| f64::from((x - mean) * scale).clamp(-8.0, 8.0))
    }

    /// Returns the quantiles after a step in rising order. `lowest` is the lowest score of the chain up to this step.
    #[must_use]
    pub fn apply(&self, hidden: &[f32], score: f32, lowest: f32) -> Quantiles {
        let input = inputs(hidden, score, lowest);
        let mut quantiles = [0.0; LEVELS.len()];
        for (quantile, layer) in quantiles.iter_mut().zip(&self.layers) {
            let products = self.standard(&input).zip(&layer.weights);
            let sum: f64 = products.map(|(x, &weight)| x * f64::from(weight)).sum();
            *quantile = sigmoid(sum + f64::from(layer.bias)) as f32;
        }
        // The layers are fitted separately, so their quantiles may cross. Sorting them never increases the pinball
        // loss (Chernozhukov et al., 2010).
        quantiles.sort_by(f32::total_cmp);
        quantiles
    }

    /// Returns the length of a hidden state that [`apply`](Self::apply) accepts.
    #[must_use]
    pub fn width(&self) -> usize {
        self.mean.len().saturating_sub(LOGITS)
    }

    pub(super) fn is_sound(&self) -> bool {
        self.scale.len() == self.mean.len()
            && !self.mean.is_empty()
            && is_finite(&self.mean)
            && is_finite(&self.scale)
            && self.layers.iter().all(|layer| {
                layer.weights.len() == self.mean.len()
                    && is_finite(&layer.weights)
                    && layer.bias.is_finite()
            })
    }
}

fn is_finite(values: &[f32]) -> bool {
    values.iter().all(|value| value.is_finite())
}

/// The number of inputs after the hidden state: the step's logit and the lowest logit.
const LOGITS: usize = 2;

fn inputs(hidden: &[f32], score: f32, lowest: f32) -> Vec<f32> {
    let logits = [score, lowest].map(|score| logit(f64::from(score)) as f32);
    hidden.iter().copied().chain(logits).collect()
}

/// Fits a layer by Adam, with all samples in each step. `weights` are the start, with the bias at the end. `rows` are
/// the standardised inputs, `[samples, inputs]`.
fn fit_layer(level: f64, samples: &[HeadSample], rows: &[f64], mut weights: Vec<f64>) -> Layer {
    let inputs = weights.len() - 1;
    let (mut first, mut second) = (vec![0.0; inputs + 1], vec![0.0; inputs + 1]);
    let is_watched = |sample: &HeadSample| sample.problem.is_multiple_of(WATCHED);
    // The gradient is a mean over the samples that are not watched.
    let total: f64 = {
        let fitted = samples.iter().filter(|sample| !is_watched(sample));
        fitted.map(|sample| sample.weight).sum()
    };
    let edge = logit(1.0 - EDGE);
    let mut best = (f64::INFINITY, weights.clone());
    let mut since = 0;
    for pass in 1..=PASSES {
        let mut gradient = vec![0.0; inputs + 1];
        let mut watched = 0.0;
        for (sample, row) in samples.iter().zip(rows.chunks_exact(inputs)) {
            let sum: f64 = row.iter().zip(&weights).map(|(x, weight)| x * weight).sum();
            let value = (sum + weights[inputs]).clamp(-edge, edge);
            let target = logit(sample.target).clamp(-edge, edge);
            if is_watched(sample) {
                watched += sample.weight * pinball(level, value, target);
                continue;
            }
            // Target and value are clamped to the edges. If both are beyond the same edge, they are equal, and the
            // prediction has no gradient.
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
        // Without watched problems `watched` is 0, and the last pass is taken as the best.
        if watched < best.0 || watched == 0.0 {
            best = (watched, weights.clone());
            since = 0;
        } else {
            since += 1;
            if since > PATIENCE {
                break;
            }
        }
        // The rate falls to 0, because a constant rate would oscillate around the kink of the pinball loss.
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
