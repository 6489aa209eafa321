//! Isotonic regression of probabilities on scores, by pool adjacent violators.

use serde::{Deserialize, Serialize};

use super::Sample;

/// A rising piecewise linear function, which is constant outside its knots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Isotonic {
    /// The scores of the knots, strictly rising; f32, because JSON keeps f32 values exactly.
    scores: Vec<f32>,
    /// The probabilities at the knots, which never fall from one knot to the next.
    values: Vec<f32>,
}

/// Samples of neighbouring scores that are fitted with a single value.
#[derive(Clone, Copy)]
struct Block {
    from: f64,
    to: f64,
    weight: f64,
    sum: f64,
}

impl Block {
    fn value(self) -> f64 {
        self.sum / self.weight
    }
}

impl Isotonic {
    /// Fits the rising step function with the least weighted squared distance from the targets. Each step has a knot
    /// at both ends. Returns `None` if no sample has a positive weight.
    #[must_use]
    pub fn fit(samples: &[Sample]) -> Option<Self> {
        let mut sorted: Vec<Sample> = samples.iter().copied().filter(|s| s.weight > 0.0).collect();
        sorted.sort_by(|a, b| a.score.total_cmp(&b.score));
        let mut blocks: Vec<Block> = Vec::new();
        for sample in sorted {
            let block = Block {
                from: sample.score,
                to: sample.score,
                weight: sample.weight,
                sum: sample.weight * sample.target,
            };
            // Equal scores are merged first, because the function has one value at each score.
            match blocks.last_mut().filter(|last| last.to == block.from) {
                Some(last) if last.from == last.to => {
                    last.weight += block.weight;
                    last.sum += block.sum;
                }
                _ => blocks.push(block),
            }
        }
        // The values of `pooled` rise. If a new block breaks this order, it is merged with its predecessors until the
        // order holds. Each block is pushed and popped at most once, so the loop is linear.
        let mut pooled: Vec<Block> = Vec::with_capacity(blocks.len());
        for mut block in blocks {
            while let Some(last) = pooled.last().filter(|last| last.value() >= block.value()) {
                block = Block {
                    from: last.from,
                    to: block.to,
                    weight: last.weight + block.weight,
                    sum: last.sum + block.sum,
                };
                pooled.pop();
            }
            pooled.push(block);
        }
        let (mut scores, mut values) = (Vec::new(), Vec::new());
        for block in &pooled {
            for at in [block.from, block.to] {
                let at = at as f32;
                // Two scores may be equal in f32. As two knots, their distance of 0 would be a divisor in `apply`.
                if scores.last() != Some(&at) {
                    scores.push(at);
                    values.push(block.value() as f32);
                }
            }
        }
        (!scores.is_empty()).then_some(Self { scores, values })
    }

    pub(super) fn apply(&self, score: f64) -> f64 {
        let above = self.scores.partition_point(|&knot| f64::from(knot) < score);
        let last = self.scores.len() - 1;
        match above {
            0 => f64::from(self.values[0]),
            at if at > last => f64::from(self.values[last]),
            at => {
                let (low, high) = (f64::from(self.scores[at - 1]), f64::from(self.scores[at]));
                let part = (score - low) / (high - low);
                let (below, above) = (f64::from(self.values[at - 1]), f64::from(self.values[at]));
                below + part * (above - below)
            }
        }
    }

    pub(super) fn is_sound(&self) -> bool {
        !self.scores.is_empty()
            && self.scores.len() == self.values.len()
            && self
                .scores
                .iter()
                .chain(&self.values)
                .all(|value| value.is_finite())
            && self.scores.windows(2).all(|pair| pair[0] < pair[1])
            && self.values.is_sorted()
    }
}
