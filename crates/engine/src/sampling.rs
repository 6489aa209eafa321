//! Samples a token from a row of logits.

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

/// The settings of sampling. Filters apply to the tempered distribution in the order top-k, top-p,
/// min-p, each to the tokens that the previous one kept. At least one token always stays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingParams {
    /// The divisor of the logits. At 0 the most likely token is taken, of equals the lowest id.
    pub temperature: f32,
    /// Keeps the `top_k` most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the fewest most likely tokens whose probabilities sum to at least this; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this fraction as likely as the most likely token; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens in the sequence so far, before all
    /// other settings (Keskar et al. 2019, arXiv:1909.05858); 1 changes nothing.
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
    /// Checks that every setting is in its range.
    ///
    /// # Errors
    /// [`Error::Sampling`] with the first setting that is not.
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
        // Written so that NaN is refused, too.
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

    /// Creates the request for a token of row `row` on a CUDA device. `history` is the range, in
    /// the batch's history buffer, of the tokens that the repetition penalty applies to.
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
            // No vocabulary has as many tokens: 0 keeps all.
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
    /// The index of the row.
    pub row: usize,
    /// Tokens that the repetition penalty applies to.
    pub history: &'a [u32],
    /// The settings of sampling.
    pub params: SamplingParams,
    /// Changes of the row for this token only.
    pub edits: RowEdits<'a>,
    /// The random numbers of the token's position.
    pub draw: Draw,
}

impl<'a> SampleRow<'a> {
    /// Creates the request for a token from `logits`, the row of this choice.
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
    /// The token's id.
    pub token: u32,
    /// The natural log of the token's probability under the model's own distribution: temperature
    /// 1 and no filters, whatever the settings are. Never NaN.
    pub logprob: f32,
}

impl Sampled {
    /// Refuses tokens of rows without any logit above minus infinity: such tokens mean nothing.
    ///
    /// # Errors
    /// [`Error::NotNumbers`] if there is such a token.
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

/// Samples a token like [`Sampler::sample`]. Keeping a [`Sampler`] avoids an allocation per token.
pub fn sample(logits: &[f32], params: &SamplingParams, draw: &mut Draw) -> Sampled {
    Sampler::new().sample(logits, params, draw)
}

/// The natural log of a token's probability under `logits`. NaN logits count as minus infinity.
///
/// # Panics
/// If `token` is not below the number of logits.
#[must_use]
pub fn log_prob(logits: &[f32], token: u32) -> f32 {
    relative_to(log_sum_exp(Isa::detect(), logits), logits[token as usize])
}

/// Computes `logit - total`, in float64 and without making NaN of infinities.
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
