//! Calibration: from a reward model's scores to probabilities of success.
//!
//! A [`Calibration`] is fitted to the shares of right completions of labelled steps, for one reward
//! model and one policy (a generator and its temperature). A [`ScoreMap`] turns a score into a probability. If hidden
//! states are available, a [`QuantileHead`] adds quantiles of that probability (Park et al., arXiv 2506.09338).
//! [`HeldOut`] has the errors on problems outside the fit.

mod early;
mod isotonic;
mod logistic;
mod quantile;
mod risk;

use beamgen_search::Aggregation;
use serde::{Deserialize, Serialize};

pub use early::{Margin, Pause, pauses};
pub use isotonic::Isotonic;
pub use logistic::Logistic;
pub use quantile::{HeadSample, LEVELS, QuantileHead, Quantiles, pinball};
pub use risk::{RiskCurve, RiskPoint};

/// The version of the format, the value of the field `beamgen_calibration`.
pub const VERSION: u32 = 1;

/// A labelled step, from which a map is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The reward model's score, 0 to 1.
    pub score: f64,
    /// The share of right completions after the step, 0 to 1.
    pub target: f64,
    /// The weight in the fit, for example the number of completions. A weight of 0 or less leaves the step out.
    pub weight: f64,
}

/// The family of functions from which a map is fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The rising step function with the least squared error (pool adjacent violators), made continuous by straight
    /// lines between its steps.
    #[default]
    Isotonic,
    /// A line of the logit, with slope and offset (Platt, 1999).
    Platt,
    /// A line of the logit, without an offset (Guo et al., arXiv 1706.04599).
    Temperature,
}

impl Method {
    /// All methods, in the order of the command line's help.
    pub const ALL: [Self; 3] = [Self::Isotonic, Self::Platt, Self::Temperature];

    /// Returns the name in calibration files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Isotonic => "isotonic",
            Self::Platt => "platt",
            Self::Temperature => "temperature",
        }
    }

    /// Fits a map; `None` without samples of a positive weight.
    #[must_use]
    pub fn fit(self, samples: &[Sample]) -> Option<ScoreMap> {
        Some(match self {
            Self::Isotonic => ScoreMap::Isotonic(Isotonic::fit(samples)?),
            Self::Platt => ScoreMap::Logistic(Logistic::fit(samples, true)?),
            Self::Temperature => ScoreMap::Logistic(Logistic::fit(samples, false)?),
        })
    }
}

/// A fitted map from a score to a probability, which never falls when the score rises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreMap {
    /// The map of [`Method::Isotonic`].
    Isotonic(Isotonic),
    /// The map of [`Method::Platt`], or of [`Method::Temperature`] with an offset of 0.
    Logistic(Logistic),
}

impl ScoreMap {
    /// Returns the probability of success at `score`, 0 to 1.
    #[must_use]
    pub fn apply(&self, score: f32) -> f32 {
        let value = match self {
            Self::Isotonic(map) => map.apply(f64::from(score)),
            Self::Logistic(map) => map.apply(f64::from(score)),
        };
        value.clamp(0.0, 1.0) as f32
    }
}

/// A calibration file: fitted maps, a description of the fit, and errors on problems outside the fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The version of the format; [`Calibration::parse`] accepts only [`VERSION`].
    pub beamgen_calibration: u32,
    /// The fingerprint of the reward model.
    pub prm: String,
    /// The generator whose completions were counted; others need their own calibration.
    pub policy: PolicyName,
    /// The identity and size of the data in the fit.
    pub data: Data,
    /// The method by which `map` was fitted.
    pub method: Method,
    /// The aggregation of step scores into the score that `map` is applied to, for example the lowest step's.
    pub aggregation: Aggregation,
    /// The map, to be applied to scores that are aggregated by `aggregation`.
    pub map: ScoreMap,
    /// The map from hidden states to quantiles; `None` if the fit had no hidden states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<QuantileHead>,
    /// The errors on problems that were held out of the fit.
    pub held_out: HeldOut,
    /// The shares of wrong answers by threshold, one curve for each search that was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<RiskCurve>,
}

/// Returns the aggregated score of a chain after each of its steps, as many values as `scores`.
///
/// For the lowest, the newest and the highest score, a rising map may be applied before or after the aggregation.
#[must_use]
pub fn so_far(aggregation: Aggregation, scores: &[f32]) -> Vec<f32> {
    (1..=scores.len())
        .filter_map(|len| aggregation.fold(scores[..len].iter().copied()))
        .collect()
}

/// A generator, identified with the temperature of its samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyName {
    /// The name or fingerprint of the generator; empty if the labels do not tell.
    pub generator: String,
    /// The sampling temperature; `None` if the labels do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

impl std::fmt::Display for PolicyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.generator.as_str() {
            "" => f.write_str("unknown (the labels name none)")?,
            name => f.write_str(name)?,
        }
        match self.temperature {
            Some(temperature) => write!(f, " at temperature {temperature}"),
            None => Ok(()),
        }
    }
}

/// The labelled chains that a calibration was fitted to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The fingerprint of the chains with their labels, to recognise the data of the fit.
    pub fingerprint: String,
    /// The number of problems that the maps were fitted to.
    pub problems: usize,
    /// The number of labelled steps that the maps were fitted to.
    pub steps: usize,
}

/// The errors on held-out problems, before and after the calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOut {
    /// The number of problems with at least one labelled step.
    pub problems: usize,
    /// The number of labelled steps that the errors are means over.
    pub steps: usize,
    /// The error of the reward model's own scores, aggregated by [`Calibration::aggregation`].
    pub before: Quality,
    /// The error of the probabilities by [`Calibration::map`]; below `before` if the fit is useful.
    pub after: Quality,
    /// The error of the medians by the [`QuantileHead`]; `None` without a head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<Quality>,
    /// The shares of targets at or below the predicted quantile of each of [`LEVELS`]; `None` without a head. Few
    /// rollouts per target cause ties, which make these shares larger than the levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_or_below: Option<[f64; LEVELS.len()]>,
}

/// Two measures of the distance between predictions and targets; 0 is best for both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// The mean squared difference of prediction and target (Brier, 1950).
    pub brier: f64,
    /// The expected calibration error (Naeini et al., 2015), over bins with equal numbers of steps.
    pub ece: f64,
}

impl Calibration {
    /// Returns the fingerprint of the fitted maps and their reward model, which is part of a run's identity.
    #[must_use]
    pub fn name(&self) -> String {
        // The held-out errors and risk curves do not change a search, so they are not hashed.
        let mut hash = crate::Fingerprint::default();
        hash.field(self.prm.as_bytes());
        hash.field(&serde_json::to_vec(&(&self.map, &self.quantiles)).unwrap_or_default());
        hash.finish()
    }

    /// Parses the text of a calibration file, and checks the numbers of its maps.
    ///
    /// # Errors
    /// A message of one line if the JSON is malformed, the version is another, or the numbers are not those of a fit.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if read.beamgen_calibration != VERSION {
            let version = read.beamgen_calibration;
            return Err(format!(
                "format {version}: this build reads format {VERSION}"
            ));
        }
        // An edited map that falls or has infinite numbers would silently change the order of chains.
        let sound = match &read.map {
            ScoreMap::Isotonic(map) => map.is_sound(),
            ScoreMap::Logistic(map) => map.is_sound(),
        };
        let heads = read.quantiles.iter().all(QuantileHead::is_sound);
        if sound && heads {
            Ok(read)
        } else {
            Err("invalid numbers: fit the calibration again".to_owned())
        }
    }
}

#[cfg(test)]
mod tests;
