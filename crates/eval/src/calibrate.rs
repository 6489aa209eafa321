//! Calibration: from a reward model's scores to probabilities of success.
//!
//! A [`Calibration`] is fitted to the shares of right completions of labelled steps, for one reward
//! model and one policy (a generator and its temperature). A [`ScoreMap`] turns a score into a
//! probability. Where hidden states were available, a [`QuantileHead`] adds quantiles of that
//! probability (Park et al., arXiv 2506.09338). [`HeldOut`] has the errors on other problems.

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

/// A labelled step that a map is fitted to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The reward model's score, 0 to 1.
    pub score: f64,
    /// The share of right completions, 0 to 1.
    pub target: f64,
    /// The weight in the fit, such as the number of completions; not above 0 to leave the step out.
    pub weight: f64,
}

/// The kind of map from a score to a probability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The rising step function of least squared error (pool adjacent violators), with straight
    /// lines between the steps.
    #[default]
    Isotonic,
    /// A slope and an offset on the logit (Platt, 1999).
    Platt,
    /// A slope on the logit without an offset (Guo et al., arXiv 1706.04599).
    Temperature,
}

impl Method {
    /// All methods, in the order of the command line's help.
    pub const ALL: [Self; 3] = [Self::Isotonic, Self::Platt, Self::Temperature];

    /// Returns the name in files and on the command line.
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

/// A fitted map from a score to a probability. A higher score never gets a lower probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreMap {
    /// Fitted by [`Method::Isotonic`].
    Isotonic(Isotonic),
    /// Fitted by [`Method::Platt`] or [`Method::Temperature`].
    Logistic(Logistic),
}

impl ScoreMap {
    /// Returns the probability, 0 to 1, of a score.
    #[must_use]
    pub fn apply(&self, score: f32) -> f32 {
        let value = match self {
            Self::Isotonic(map) => map.apply(f64::from(score)),
            Self::Logistic(map) => map.apply(f64::from(score)),
        };
        value.clamp(0.0, 1.0) as f32
    }
}

/// A calibration file: the fitted maps, the data and models of the fit, and the errors on other
/// problems.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The version of the format, [`VERSION`].
    pub beamgen_calibration: u32,
    /// The fingerprint of the reward model.
    pub prm: String,
    /// The generator whose success the probabilities predict.
    pub policy: PolicyName,
    /// The labelled chains of the fit.
    pub data: Data,
    /// The method of the fit.
    pub method: Method,
    /// The score of a chain that the map takes: the lowest or the newest step's, for example.
    pub aggregation: Aggregation,
    /// The map from scores to probabilities.
    pub map: ScoreMap,
    /// The map from hidden states to quantiles; `None` if no hidden states were available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<QuantileHead>,
    /// The errors on the problems that were held out.
    pub held_out: HeldOut,
    /// The shares of wrong answers by the score of the chosen chain, one curve for each search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<RiskCurve>,
}

/// Returns the aggregated score of a chain after each step: as many values as `scores`.
///
/// A rising map may also be applied to the steps' scores before the aggregation: the lowest, the
/// newest and the highest of them stay the same steps.
#[must_use]
pub fn so_far(aggregation: Aggregation, scores: &[f32]) -> Vec<f32> {
    (1..=scores.len())
        .filter_map(|len| aggregation.fold(scores[..len].iter().copied()))
        .collect()
}

/// A generator and the temperature of its samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyName {
    /// The generator's name or fingerprint; empty if the labels do not name the generator.
    pub generator: String,
    /// The sampling temperature; `None` if the labels do not name it.
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
    /// The fingerprint of the chains and their labels.
    pub fingerprint: String,
    /// The number of problems in the fit, without the held-out problems.
    pub problems: usize,
    /// The number of labelled steps in the fit.
    pub steps: usize,
}

/// Errors on problems that nothing was fitted to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOut {
    /// The number of held-out problems.
    pub problems: usize,
    /// The number of labelled steps of these problems.
    pub steps: usize,
    /// The error of the reward model's scores, aggregated by [`Calibration::aggregation`].
    pub before: Quality,
    /// The error of the calibrated probabilities.
    pub after: Quality,
    /// The error of the [`QuantileHead`]'s medians; `None` without a head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<Quality>,
    /// The shares of targets at or below the predicted quantiles, in the order of [`LEVELS`]. With
    /// few rollouts a target, ties make these shares larger than the levels. `None` without a head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_or_below: Option<[f64; LEVELS.len()]>,
}

/// The distance of scores from probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// The mean squared distance of score and target (Brier, 1950).
    pub brier: f64,
    /// The expected calibration error (Naeini et al., 2015) over bins with equally many steps.
    pub ece: f64,
}

impl Calibration {
    /// Returns the fingerprint of the fitted maps and their reward model, a part of a run's
    /// identity.
    #[must_use]
    pub fn name(&self) -> String {
        // Only what changes a search: the held-out errors and the curves are left out.
        let mut hash = crate::Fingerprint::default();
        hash.field(self.prm.as_bytes());
        hash.field(&serde_json::to_vec(&(&self.map, &self.quantiles)).unwrap_or_default());
        hash.finish()
    }

    /// Parses the text of a calibration file.
    ///
    /// # Errors
    /// A line of text for malformed JSON, another version, and numbers that no fit gives.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if read.beamgen_calibration != VERSION {
            let version = read.beamgen_calibration;
            return Err(format!(
                "format {version}: this build reads format {VERSION}"
            ));
        }
        // A hand-made map that falls or has infinite numbers would silently reorder chains.
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
