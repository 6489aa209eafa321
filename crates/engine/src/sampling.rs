//! Samples tokens from rows of logits.

mod distribution;
mod edits;
mod sampler;

#[cfg(feature = "cuda")]
use std::ops::Range;

use beamgen_kernels::{Isa, log_sum_exp};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::rng::Draw;
pub use edits::RowEdits;
pub use sampler::{SampleRequest, Sampler};

/// The settings of sampling. Temperature comes first, then the filters top-k, top-p and min-p, each
/// on the tokens that the previous filter has kept. At least one token always remains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingParams {
    /// The divisor of the logits. 0 means greedy: the most likely token is taken, and among equals
    /// the lowest id.
    pub temperature: f32,
    /// The number of most likely tokens to keep; 0 keeps all.
    pub top_k: usize,
    /// The least total probability of the kept tokens: the fewest most likely tokens that reach it
    /// are kept. 1 keeps all.
    pub top_p: f32,
    /// The least probability of a kept token, as a fraction of the most likely token's; 0 keeps
    /// all.
    pub min_p: f32,
    /// The divisor of positive logits, and factor of negative logits, of tokens that are in the
    /// sequence already (Keskar et al. 2019, arXiv:1909.05858). It comes before all other settings;
    /// 1 changes nothing.
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
    /// Checks that every setting is in its range, NaN included.
    ///
    /// # Errors
    /// [`Error::Sampling`], which names the first setting out of range.
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
        // A NaN fails every comparison, so the valid range is tested and not the invalid one.
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

    /// Creates the request for a token of row `row` on a CUDA device. `history` is a range of the
    /// batch's history buffer, with the tokens that are penalised.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn on_device(
        &self,
        row: usize,
        history: Range<usize>,
        draw: &Draw,
    ) -> beamgen_kernels::cuda::SampleRequest {
        let (key, counter) = draw.key_and_counter();
        beamgen_kernels::cuda::SampleRequest {
            row: row as u32,
            said_first: history.start as u32,
            said_count: history.len() as u32,
            // A `top_k` beyond 32 bits exceeds every vocabulary, so it keeps all tokens like 0
            // does.
            top_k: u32::try_from(self.top_k).unwrap_or(0),
            penalty: self.repetition_penalty,
            temperature: self.temperature,
            top_p: self.top_p,
            min_p: self.min_p,
            key,
            counter,
        }
    }
}

/// A token to sample from one row of [`Logits`](crate::Logits).
#[derive(Clone, Debug)]
pub struct SampleRow<'a> {
    /// The index of the row among the wanted rows of the call.
    pub row: usize,
    /// The tokens of the sequence so far, for the repetition penalty. Repeated ones count once.
    pub history: &'a [u32],
    /// The settings, checked by [`SamplingParams::validate`] or acting like the nearest valid ones.
    pub params: SamplingParams,
    /// Changes of the row that apply to this token only.
    pub edits: RowEdits<'a>,
    /// The random numbers of the token's position in its chain.
    pub draw: Draw,
}

impl<'a> SampleRow<'a> {
    /// Creates the request for a [`Sampler`]; `logits` must be the row with the index `row`.
    #[must_use]
    pub fn of(self, logits: &'a [f32]) -> SampleRequest<'a> {
        SampleRequest {
            logits,
            history: self.history,
            params: self.params,
            edits: self.edits,
            draw: self.draw,
        }
    }
}

/// A sampled token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// The token's id, which is its index in the row of logits.
    pub token: u32,
    /// The natural logarithm of the token's probability in the model's own distribution: at
    /// temperature 1 and without filters, whatever the settings. Never NaN.
    pub logprob: f32,
}

impl Sampled {
    /// Refuses tokens from rows without a logit above minus infinity. Such tokens are arbitrary.
    ///
    /// # Errors
    /// [`Error::NotNumbers`] if a log-probability is minus infinity.
    pub fn check(all: &[Self]) -> Result<(), Error> {
        if all
            .iter()
            .all(|sampled| sampled.logprob > f32::NEG_INFINITY)
        {
            Ok(())
        } else {
            Err(Error::NotNumbers)
        }
    }
}

/// Samples a token like [`Sampler::sample`]. A [`Sampler`] that is kept saves the allocation per
/// token.
pub fn sample(logits: &[f32], params: &SamplingParams, draw: &mut Draw) -> Sampled {
    Sampler::new().sample(logits, params, draw)
}

/// The natural logarithm of a token's probability in the row `logits`. A NaN logit counts as minus
/// infinity.
///
/// # Panics
/// If `token` is not less than the number of logits.
#[must_use]
pub fn log_prob(logits: &[f32], token: u32) -> f32 {
    relative_to(log_sum_exp(Isa::detect(), logits), logits[token as usize])
}

/// Computes `logit - total` in float64, so that infinities do not make NaN.
fn relative_to(total: f64, logit: f32) -> f32 {
    if logit.is_nan() || logit == f32::NEG_INFINITY {
        f32::NEG_INFINITY
    } else if logit == f32::INFINITY {
        0.0
    } else {
        (f64::from(logit) - total).min(0.0) as f32
    }
}

#[cfg(test)]
mod tests;
