//! How far each pair of a head turns with the position: the original rotation and its scaled
//! variants, as `transformers` computes them (`modeling_rope_utils.py`).

use std::f64::consts::PI;

use beamgen_kernels::RopeTable;

/// The rotary position embedding of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f64,
    /// The share of a head's elements that turn, from its first on.
    pub partial_rotary_factor: f64,
    /// How the frequencies are stretched for longer contexts.
    pub scaling: RopeScaling,
}

/// How rotary frequencies are stretched for contexts longer than those first trained on.
///
/// `dynamic` (NTK) scaling has no variant: up to `max_position_embeddings` it is the original
/// rotation, and beyond it would turn all cached keys anew with every token, so a model with it
/// ends there.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// The original rotation.
    None,
    /// Positions divided by `factor` (kaiokendev 2023; Chen et al. 2023, arXiv:2306.15595).
    Linear {
        /// How much longer the context becomes.
        factor: f64,
    },
    /// Llama 3.1: slow pairs are divided by `factor`, fast ones are left, those between are
    /// mixed.
    Llama3 {
        /// How much longer the context becomes.
        factor: f64,
        /// Turns in the original context below which a pair is slow.
        low_freq_factor: f64,
        /// Turns in the original context above which a pair is fast.
        high_freq_factor: f64,
        /// Context first trained on.
        original: usize,
    },
    /// `YaRN` (Peng et al. 2023, arXiv:2309.00071).
    Yarn {
        /// How much longer the context becomes.
        factor: f64,
        /// Turns in the original context above which a pair is left as it is.
        beta_fast: f64,
        /// Turns in the original context below which a pair is divided by `factor`.
        beta_slow: f64,
        /// The ends of the ramp between are rounded outwards to whole pairs.
        truncate: bool,
        /// Factor of cosines and sines.
        attention_factor: f64,
        /// Context first trained on.
        original: usize,
    },
}

impl Rope {
    /// The original rotation of whole heads.
    #[must_use]
    pub fn plain(theta: f64) -> Self {
        Self {
            theta,
            partial_rotary_factor: 1.0,
            scaling: RopeScaling::None,
        }
    }

    /// Elements of a head of `head_dim` that turn.
    fn dim(&self, head_dim: usize) -> usize {
        (self.partial_rotary_factor * head_dim as f64) as usize
    }

    /// Pairs of a head of `head_dim` that turn.
    pub(crate) fn pairs(&self, head_dim: usize) -> usize {
        self.dim(head_dim).div_ceil(2)
    }

    /// Radians per position of each pair of a head of `head_dim`.
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
                // The pair (not a whole number) that turns so often in the original context.
                let pair = |turns: f64| {
                    dim * (original as f64 / (turns * 2.0 * PI)).ln() / (2.0 * self.theta.ln())
                };
                let (mut low, mut high) = (pair(beta_fast), pair(beta_slow));
                if truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                (low, high) = (low.max(0.0), high.min(dim - 1.0));
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

    /// The table of heads of `head_dim`.
    pub(crate) fn table(&self, head_dim: usize) -> RopeTable {
        RopeTable::new(
            head_dim,
            &self.frequencies(head_dim),
            self.attention_factor(),
        )
    }

    /// What cosines and sines are multiplied by.
    #[must_use]
    pub fn attention_factor(&self) -> f64 {
        match self.scaling {
            RopeScaling::Yarn {
                attention_factor, ..
            } => attention_factor,
            _ => 1.0,
        }
    }

    /// The longest sequence, where the configuration says `max_position_embeddings`. Checkpoints
    /// with `YaRN` often leave that at the original context.
    pub(super) fn context(&self, max_position_embeddings: usize) -> usize {
        match self.scaling {
            RopeScaling::Yarn {
                factor, original, ..
            } => max_position_embeddings.max((factor * original as f64) as usize),
            _ => max_position_embeddings,
        }
    }
}
