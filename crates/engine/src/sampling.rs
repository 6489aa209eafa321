//! A token from a row of logits.

mod distribution;
mod sampler;

#[cfg(feature = "cuda")]
use std::ops::Range;

use beamgen_kernels::{Isa, log_sum_exp};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::rng::Draw;
pub use sampler::{SampleRequest, Sampler};

/// How tokens are sampled. Filters apply to the tempered distribution, in the order top-k, top-p,
/// min-p, each to what the one before has left; at least one token always stays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingParams {
    /// Divides the logits. 0 takes the most likely token, the lowest id of equals.
    pub temperature: f32,
    /// Keeps that many most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the fewest most likely tokens that have this probability together; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Before all others: divides the positive and multiplies the negative logits of tokens that
    /// were read or said before (Keskar et al. 2019, arXiv:1909.05858); 1 changes nothing.
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
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`Error::Sampling`] names the setting.
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

    /// Returns the request for a token of row `row` on a CUDA device, where `said` are the places of
    /// the tokens that the repetition penalty is for.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn on_device(
        &self,
        row: usize,
        said: Range<usize>,
        draw: &Draw,
    ) -> beamgen_kernels::cuda::SampleRequest {
        let (key, counter) = draw.key_and_counter();
        beamgen_kernels::cuda::SampleRequest {
            row: row as u32,
            said_first: said.start as u32,
            said_count: said.len() as u32,
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
    /// The row.
    pub row: usize,
    /// Tokens that the repetition penalty is for.
    pub history: &'a [u32],
    /// How it is sampled.
    pub params: SamplingParams,
    /// The random numbers.
    pub draw: Draw,
}

impl<'a> SampleRow<'a> {
    /// Returns the request for a token from this row of logits.
    #[must_use]
    pub fn of(self, logits: &'a [f32]) -> SampleRequest<'a> {
        SampleRequest {
            logits,
            history: self.history,
            params: self.params,
            draw: self.draw,
        }
    }
}

/// A sampled token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// The token.
    pub token: u32,
    /// Natural log of its probability under the model's own distribution: temperature 1, no
    /// filters, whatever the settings. Never NaN.
    pub logprob: f32,
}

impl Sampled {
    /// Refuses tokens of rows in which no logit is above minus infinity: they stand for nothing.
    ///
    /// # Errors
    /// [`Error::NotNumbers`]
    pub fn check(all: &[Self]) -> Result<(), Error> {
        let sane = |sampled: &Self| sampled.logprob > f32::NEG_INFINITY;
        all.iter().all(sane).then_some(()).ok_or(Error::NotNumbers)
    }
}

/// Samples a token. See [`Sampler::sample`]; a [`Sampler`] that is kept saves the working memory.
pub fn sample(logits: &[f32], params: &SamplingParams, draw: &mut Draw) -> Sampled {
    Sampler::new().sample(logits, params, draw)
}

/// Natural log of a token's probability under `logits`. NaN logits count as minus infinity.
///
/// # Panics
/// If the token is outside.
#[must_use]
pub fn log_prob(logits: &[f32], token: u32) -> f32 {
    relative_to(log_sum_exp(Isa::detect(), logits), logits[token as usize])
}

/// `logit - total`, where neither infinities nor NaN make a NaN.
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
