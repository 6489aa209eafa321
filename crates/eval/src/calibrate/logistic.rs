//! A line of the logit: Platt scaling, or temperature scaling without the offset.

use serde::{Deserialize, Serialize};

use super::Sample;

/// The map `sigmoid(slope * logit(score) + offset)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logistic {
    /// The slope, at least 0. Both fields are f32 because JSON keeps f32 values exactly.
    slope: f32,
    offset: f32,
}

/// The largest number of Newton steps. The loss is convex, and a step that would increase the loss is halved.
const STEPS: usize = 100;

/// The weight of the squared slope and offset in the loss. Without this term, separable data would give an infinite
/// slope.
const RIDGE: f64 = 1e-3;

impl Logistic {
    /// Fits the slope, and the offset if `offset` is true, by the least cross-entropy. Returns `None` if no sample
    /// has a positive weight.
    #[must_use]
    pub fn fit(samples: &[Sample], offset: bool) -> Option<Self> {
        let points: Vec<(f64, f64, f64)> = samples
            .iter()
            .filter(|sample| sample.weight > 0.0)
            .map(|sample| (logit(sample.score), sample.target, sample.weight))
            .collect();
        if points.is_empty() {
            return None;
        }
        let loss = |(slope, offset): (f64, f64)| -> f64 {
            let each = points.iter().map(|&(x, y, weight)| {
                let z = slope * x + offset;
                // ln(1 + e^z) - y z, in a form that does not overflow for large z.
                weight * (z.max(0.0) - y * z + (-z.abs()).exp().ln_1p())
            });
            each.sum::<f64>() + RIDGE * (slope * slope + offset * offset)
        };
        let mut fit = (1.0, 0.0);
        let mut least = loss(fit);
        for _ in 0..STEPS {
            let (mut gs, mut go) = (2.0 * RIDGE * fit.0, 2.0 * RIDGE * fit.1);
            let (mut hss, mut hso, mut hoo) = (2.0 * RIDGE, 0.0, 2.0 * RIDGE);
            for &(x, y, weight) in &points {
                let p = sigmoid(fit.0 * x + fit.1);
                let (error, curve) = (weight * (p - y), weight * p * (1.0 - p));
                gs += error * x;
                go += error;
                hss += curve * x * x;
                hso += curve * x;
                hoo += curve;
            }
            // The ridge is on the diagonal of the Hessian, so the determinant is not 0.
            let (ds, d_o) = if offset {
                let determinant = hss * hoo - hso * hso;
                let ds = (hoo * gs - hso * go) / determinant;
                (ds, (hss * go - hso * gs) / determinant)
            } else {
                (gs / hss, 0.0)
            };
            let mut part = 1.0;
            let next = loop {
                let next = (fit.0 - part * ds, fit.1 - part * d_o);
                // Far from the minimum the loss is nearly linear, and a full Newton step may go too far.
                if loss(next) <= least || part < 1e-6 {
                    break next;
                }
                part /= 2.0;
            };
            let after = loss(next);
            if after.is_nan() || after >= least - 1e-12 * least.abs() {
                break;
            }
            (fit, least) = (next, after);
        }
        // If higher scores mean less success, the map is flat: a falling map would reverse the search.
        Some(Self {
            slope: fit.0.max(0.0) as f32,
            offset: fit.1 as f32,
        })
    }

    pub(super) fn apply(&self, score: f64) -> f64 {
        sigmoid(f64::from(self.slope) * logit(score) + f64::from(self.offset))
    }

    pub(super) fn line(self) -> (f64, f64) {
        (f64::from(self.slope), f64::from(self.offset))
    }

    pub(super) fn is_sound(&self) -> bool {
        self.slope.is_finite() && self.offset.is_finite() && self.slope >= 0.0
    }
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Returns the log-odds of a score; the absolute value is at most about 16.6.
pub(super) fn logit(score: f64) -> f64 {
    // The limits are half the distance of f32 numbers below 1. A score that f32 rounds to 0 or 1 is not certain, and
    // an infinite logit would make sums infinite.
    let edge = f64::from(f32::EPSILON) / 2.0;
    let score = score.clamp(edge, 1.0 - edge);
    (score / (1.0 - score)).ln()
}
