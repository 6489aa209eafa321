//! The best rising function of a score: pool adjacent violators.

use serde::{Deserialize, Serialize};

use super::Sample;

/// A rising function through knots, with lines between them and flat ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Isotonic {
    /// Rising. In f32, which JSON keeps to the bit.
    scores: Vec<f32>,
    /// As many, rising or equal.
    values: Vec<f32>,
}

/// Neighbours in score with one value.
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
    /// The rising step function with the least weighted squared distance from the targets; each
    /// step gives a knot at both its ends. `None` without samples of a positive weight.
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
            // Equal scores have one value.
            match blocks.last_mut().filter(|last| last.to == block.from) {
                Some(last) if last.from == last.to => {
                    last.weight += block.weight;
                    last.sum += block.sum;
                }
                _ => blocks.push(block),
            }
        }
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
        let value = |at: usize| f64::from(self.values[at]);
        match above {
            0 => value(0),
            at if at > last => value(last),
            at => {
                let (low, high) = (f64::from(self.scores[at - 1]), f64::from(self.scores[at]));
                let part = (score - low) / (high - low);
                value(at - 1) + part * (value(at) - value(at - 1))
            }
        }
    }

    pub(super) fn is_sound(&self) -> bool {
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        !self.scores.is_empty()
            && self.scores.len() == self.values.len()
            && finite(&self.scores)
            && finite(&self.values)
            && self.scores.windows(2).all(|pair| pair[0] < pair[1])
            && self.values.is_sorted()
    }
}
