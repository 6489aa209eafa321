//! The frequencies of the rotary embedding and their scaled variants. The formulas are those of
//! `modeling_rope_utils.py` in `transformers`.

use std::f64::consts::PI;

use beamgen_kernels::RopeTable;

/// The rotary position embedding of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The base of the frequencies (`rope_theta`), above 1.
    pub theta: f64,
    /// The fraction of a head's values that are rotated, from the first value on.
    pub partial_rotary_factor: f64,
    /// The lowering of the frequencies for contexts longer than in training.
    pub scaling: RopeScaling,
}

/// The way in which rotary frequencies are lowered for contexts longer than in training.
///
/// `dynamic` (NTK) scaling has no variant: up to `max_position_embeddings` it is the original
/// rotation. Beyond that, every new token would rotate all cached keys again, so the context of a
/// model with `dynamic` scaling ends there.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// The original rotation.
    None,
    /// Positions divided by `factor` (kaiokendev 2023; Chen et al. 2023, arXiv:2306.15595).
    Linear {
        /// The factor by which the context grows.
        factor: f64,
    },
    /// Llama 3.1: a pair is two values that are rotated together. The frequencies of slow pairs are
    /// divided by `factor`, those of fast pairs are unchanged, and those in between are
    /// interpolated.
    Llama3 {
        /// The factor by which the context grows.
        factor: f64,
        /// A pair that turns fewer times than this number in the original context is slow.
        low_freq_factor: f64,
        /// A pair that turns more often than this number in the original context is fast.
        high_freq_factor: f64,
        /// The number of positions of the original context.
        original: usize,
    },
    /// `YaRN` (Peng et al. 2023, arXiv:2309.00071).
    Yarn {
        /// The factor by which the context grows.
        factor: f64,
        /// A pair that turns more often than this number in the original context is unchanged.
        beta_fast: f64,
        /// A pair that turns less often than this number in the original context has its frequency
        /// divided by `factor`. Pairs between `beta_slow` and `beta_fast` are interpolated.
        beta_slow: f64,
        /// Whether the first and last interpolated pair are rounded outwards to whole pairs.
        truncate: bool,
        /// The factor on cosines and sines, which scales the attention scores by its square.
        attention_factor: f64,
        /// The number of positions of the original context.
        original: usize,
    },
}

impl Rope {
    /// Creates the original rotation of whole heads, without scaling.
    #[must_use]
    pub fn plain(theta: f64) -> Self {
        Self {
            theta,
            partial_rotary_factor: 1.0,
            scaling: RopeScaling::None,
        }
    }

    /// The number of values that are rotated in a head of `head_dim` values.
    fn dim(&self, head_dim: usize) -> usize {
        (self.partial_rotary_factor * head_dim as f64) as usize
    }

    /// The number of pairs of values that are rotated in a head of `head_dim` values.
    pub(crate) fn pairs(&self, head_dim: usize) -> usize {
        self.dim(head_dim).div_ceil(2)
    }

    /// The frequency of each rotated pair, in radians per position, for a head of `head_dim`
    /// values.
    #[must_use]
    pub fn frequencies(&self, head_dim: usize) -> Vec<f64> {
        let dim = self.dim(head_dim) as f64;
        let plain = (0..self.pairs(head_dim)).map(|i| self.theta.powf(-((2 * i) as f64) / dim));
        match self.scaling {
            RopeScaling::None => plain.collect(),
            RopeScaling::Linear { factor } => plain.map(|f| f / factor).collect(),
            RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original,
            } => plain
                .map(|f| {
                    let turns = original as f64 * f / (2.0 * PI);
                    let fast = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
                    let fast = fast.clamp(0.0, 1.0);
                    (1.0 - fast) * f / factor + fast * f
                })
                .collect(),
            RopeScaling::Yarn {
                factor,
                beta_fast,
                beta_slow,
                truncate,
                original,
                ..
            } => {
                // Returns the (fractional) index of the pair that turns `turns` times in the
                // original context.
                let pair = |turns: f64| {
                    dim * (original as f64 / (turns * 2.0 * PI)).ln() / (2.0 * self.theta.ln())
                };
                let (mut low, mut high) = (pair(beta_fast), pair(beta_slow));
                if truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                (low, high) = (low.max(0.0), high.min(dim - 1.0));
                // Avoids a division by zero below, with the constant of `transformers`.
                if low == high {
                    high += 0.001;
                }
                plain
                    .enumerate()
                    .map(|(i, f)| {
                        let slow = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                        slow * f / factor + (1.0 - slow) * f
                    })
                    .collect()
            }
        }
    }

    pub(crate) fn table(&self, head_dim: usize) -> RopeTable {
        RopeTable::new(
            head_dim,
            &self.frequencies(head_dim),
            self.attention_factor(),
        )
    }

    /// The factor on cosines and sines: 1 except for `YaRN`.
    #[must_use]
    pub fn attention_factor(&self) -> f64 {
        match self.scaling {
            RopeScaling::Yarn {
                attention_factor, ..
            } => attention_factor,
            _ => 1.0,
        }
    }

    /// The most positions of a sequence if the configuration says `max_position_embeddings`.
    /// Checkpoints with `YaRN` often leave that field at the original context.
    pub(super) fn context(&self, max_position_embeddings: usize) -> usize {
        match self.scaling {
            RopeScaling::Yarn {
                factor, original, ..
            } => max_position_embeddings.max((factor * original as f64) as usize),
            _ => max_position_embeddings,
        }
    }
}
