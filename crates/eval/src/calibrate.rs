//! Calibration: from a reward model's scores to probabilities of success.
//!
//! A [`Calibration`] is fitted to the shares of right completions of labelled steps, for one reward
//! model and one policy (a generator and its temperature), and says what it reached on problems
//! that it was not fitted to. It has a [`ScoreMap`] from a score to a probability and, where hidden
//! states were at hand, a [`QuantileHead`] for how sure that is (Park et al., 2506.09338).

mod isotonic;
mod logistic;
mod quantile;
mod risk;

use beamgen_search::Aggregation;
use serde::{Deserialize, Serialize};

pub use isotonic::Isotonic;
pub use logistic::Logistic;
pub use quantile::{HeadSample, LEVELS, QuantileHead, Quantiles, pinball};
pub use risk::{RiskCurve, RiskPoint};

/// The version of the format, the value of the field `beamgen_calibration`.
pub const VERSION: u32 = 1;

/// A labelled step, for a map to be fitted to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The reward model's score.
    pub score: f64,
    /// The share of right completions, or 0 or 1.
    pub target: f64,
    /// How much it counts, such as the number of completions.
    pub weight: f64,
}

/// How a score becomes a probability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The best rising step function (pool adjacent violators), with lines between its steps.
    #[default]
    Isotonic,
    /// A slope and an offset on the logit (Platt).
    Platt,
    /// A slope on the logit alone.
    Temperature,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Isotonic, Self::Platt, Self::Temperature];

    /// The name in files and on the command line.
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

/// A fitted map from a score to a probability. It never falls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreMap {
    /// Of [`Method::Isotonic`].
    Isotonic(Isotonic),
    /// Of the other two.
    Logistic(Logistic),
}

impl ScoreMap {
    /// The probability that belongs to a score.
    #[must_use]
    pub fn apply(&self, score: f32) -> f32 {
        let value = match self {
            Self::Isotonic(map) => map.apply(f64::from(score)),
            Self::Logistic(map) => map.apply(f64::from(score)),
        };
        value.clamp(0.0, 1.0) as f32
    }
}

/// What was fitted, and to what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The version of the format, 1.
    pub beamgen_calibration: u32,
    /// The fingerprint of the reward model.
    pub prm: String,
    /// Whose success it speaks of.
    pub policy: PolicyName,
    /// What it was fitted to.
    pub data: Data,
    /// How the map was fitted.
    pub method: Method,
    /// Which score of the chain so far the map takes: the lowest, or the newest.
    pub aggregation: Aggregation,
    /// From scores to probabilities.
    pub map: ScoreMap,
    /// From hidden states to quantiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<QuantileHead>,
    /// What it reached on the problems that were held out.
    pub held_out: HeldOut,
    /// How often the answers of a search are wrong, by the score of the chosen chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<RiskCurve>,
}

/// The score of a chain after each of its steps.
///
/// A rising map may as well be applied to the steps' scores: the lowest, the newest and the highest
/// of them stay what they are.
#[must_use]
pub fn so_far(aggregation: Aggregation, scores: &[f32]) -> Vec<f32> {
    (1..=scores.len())
        .filter_map(|len| aggregation.fold(scores[..len].iter().copied()))
        .collect()
}

/// A generator and how it is sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyName {
    /// Its name or fingerprint.
    pub generator: String,
    /// The temperature sampled at.
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
    /// Of the chains and their labels.
    pub fingerprint: String,
    /// Problems fitted to.
    pub problems: usize,
    /// Steps fitted to.
    pub steps: usize,
}

/// Figures on problems that nothing was fitted to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOut {
    /// Problems.
    pub problems: usize,
    /// Labelled steps.
    pub steps: usize,
    /// Of the reward model's scores, as [`Calibration::aggregation`] takes them.
    pub before: Quality,
    /// Of the probabilities.
    pub after: Quality,
    /// Of the medians.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<Quality>,
    /// The shares of targets at or below the quantiles of [`LEVELS`]; where targets are few shares,
    /// ties make them larger than the level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_or_below: Option<[f64; LEVELS.len()]>,
}

/// How far scores are from probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// Mean squared distance of score and target.
    pub brier: f64,
    /// Expected calibration error over bins with equally many steps.
    pub ece: f64,
}

impl Calibration {
    /// What stands for what was fitted, in the identity of runs.
    #[must_use]
    pub fn name(&self) -> String {
        let mut hash = crate::Fingerprint::default();
        hash.field(self.prm.as_bytes());
        hash.field(&serde_json::to_vec(&(&self.map, &self.quantiles)).unwrap_or_default());
        hash.finish()
    }

    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with the text, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if read.beamgen_calibration != VERSION {
            let version = read.beamgen_calibration;
            return Err(format!("format {version}, this build knows {VERSION}"));
        }
        let sound = match &read.map {
            ScoreMap::Isotonic(map) => map.is_sound(),
            ScoreMap::Logistic(map) => map.is_sound(),
        };
        let heads = read.quantiles.iter().all(QuantileHead::is_sound);
        if sound && heads {
            Ok(read)
        } else {
            Err("its numbers are no calibration".to_owned())
        }
    }
}

#[cfg(test)]
mod tests;
