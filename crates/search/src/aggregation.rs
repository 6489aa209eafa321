use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::error::ConfigError;

/// The rule that turns the scores of a chain's steps into the score of the chain.
///
/// Written as its name: `"min"`. A number follows a colon: `"soft-min:0.05"` is
/// [`SoftMin`](Self::SoftMin) with a temperature of 0.05, `"likely-min:1"` is
/// [`LikelyMin`](Self::LikelyMin) with a weight of 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, IntoStaticStr)]
#[serde(try_from = "String", into = "String")]
#[strum(serialize_all = "kebab-case")]
pub enum Aggregation {
    /// The lowest step score: a chain is as good as its worst step.
    #[default]
    Min,
    /// The product of the scores: the probability that every step is right, if steps are
    /// independent.
    Product,
    /// The arithmetic mean of the step scores; a single bad step of many changes it little.
    Mean,
    /// The score of the newest step.
    Last,
    /// The highest step score: one good step outweighs all bad ones.
    Max,
    /// The mean weighted by exp(-score / temperature): near the minimum for small temperatures,
    /// near the mean for large ones (PURE, <https://arxiv.org/abs/2504.15275>).
    SoftMin {
        /// A positive number; the smaller, the closer to the minimum.
        temperature: f32,
    },
    /// The minimum, after the log-odds of each score are lowered by the weight times the negative
    /// log-probability of the step (regularised best-of-N, <https://arxiv.org/abs/2404.01054>).
    ///
    /// A search over many chains finds steps that the scorer rates too high, which the generator
    /// rarely writes. An improbable step therefore has to score higher to count as much. A step of
    /// unknown log-probability counts as certain.
    LikelyMin {
        /// A positive number; with 1 the odds of a step are multiplied by its probability.
        weight: f32,
    },
}

impl Aggregation {
    /// All rules, with their default numbers.
    pub const ALL: [Self; 7] = [
        Self::Min,
        Self::Product,
        Self::Mean,
        Self::Last,
        Self::Max,
        Self::SoftMin {
            temperature: Self::SOFT_MIN_TEMPERATURE,
        },
        Self::LikelyMin {
            weight: Self::LIKELY_MIN_WEIGHT,
        },
    ];

    /// The temperature of `"soft-min"` written without a number.
    pub const SOFT_MIN_TEMPERATURE: f32 = 0.1;

    /// The weight of `"likely-min"` written without a number.
    pub const LIKELY_MIN_WEIGHT: f32 = 1.0;

    /// Returns the value that [`fold`](Self::fold) takes for a step: the score itself or, for
    /// [`LikelyMin`](Self::LikelyMin), the lowered score. `logprob` is the sum of the
    /// log-probabilities (natural logarithm) of the step's tokens.
    #[must_use]
    pub fn weighed(self, score: f32, logprob: f32) -> f32 {
        match self {
            Self::LikelyMin { weight } => lowered(score, f64::from(weight) * f64::from(logprob)),
            _ => score,
        }
    }

    /// Returns the score of a chain from its step scores, first step first; `None` without scores.
    pub fn fold(self, scores: impl IntoIterator<Item = f32>) -> Option<f32> {
        let mut scores = scores.into_iter();
        let first = scores.next()?;
        Some(match self {
            Self::Min | Self::LikelyMin { .. } => scores.fold(first, f32::min),
            Self::Max => scores.fold(first, f32::max),
            Self::Last => scores.last().unwrap_or(first),
            Self::Product => {
                // In f64, so that long chains of small scores do not underflow to equal zeros.
                scores.fold(f64::from(first), |product, s| product * f64::from(s)) as f32
            }
            Self::Mean => {
                let (sum, count) = scores.fold((f64::from(first), 1u32), |(sum, count), s| {
                    (sum + f64::from(s), count + 1)
                });
                (sum / f64::from(count)) as f32
            }
            Self::SoftMin { temperature } => {
                let scores: Vec<f32> = std::iter::once(first).chain(scores).collect();
                soft_min(&scores, f64::from(temperature))
            }
        })
    }

    /// Returns the name used in configurations, without a number: `"min"`, for example.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Checks the number that the rule was written with.
    ///
    /// # Errors
    /// The temperature or the weight is not a positive number.
    pub(crate) fn validate(self) -> Result<(), ConfigError> {
        match self {
            Self::SoftMin { temperature } => {
                ConfigError::check_positive("the temperature of soft-min", temperature)
            }
            Self::LikelyMin { weight } => {
                ConfigError::check_positive("the weight of likely-min", weight)
            }
            _ => Ok(()),
        }
    }
}

/// Returns `score` after `by`, which is at most 0, was added to its log-odds.
fn lowered(score: f32, by: f64) -> f32 {
    let score = f64::from(score);
    let (right, wrong) = (score * by.exp(), 1.0 - score);
    // A score that f32 rounds to 1 need not be certain. Without a floor on `wrong`, no `by` could
    // lower it.
    (right / (right + wrong.max(f64::from(f32::EPSILON) / 2.0))) as f32
}

/// Returns the mean of `scores`, weighted by exp(-score / temperature).
fn soft_min(scores: &[f32], temperature: f64) -> f32 {
    // Exponents relative to the minimum, whose weight is 1: the sum of the weights cannot be 0.
    let min = f64::from(scores.iter().copied().fold(f32::INFINITY, f32::min));
    let (mut sum, mut weights) = (0.0, 0.0);
    for score in scores.iter().copied().map(f64::from) {
        let weight = ((min - score) / temperature).exp();
        sum += weight * score;
        weights += weight;
    }
    (sum / weights) as f32
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            // The default number is left out: run files compare texts, so equal rules need equal
            // texts.
            Self::SoftMin { temperature } if *temperature != Self::SOFT_MIN_TEMPERATURE => {
                write!(f, ":{temperature}")
            }
            Self::LikelyMin { weight } if *weight != Self::LIKELY_MIN_WEIGHT => {
                write!(f, ":{weight}")
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Aggregation {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        // A text that is not a number becomes NaN, which `validate` refuses with advice.
        fn number(text: &str) -> f32 {
            text.parse().unwrap_or(f32::NAN)
        }
        let read = match text.split_once(':') {
            Some(("soft-min", temperature)) => Some(Self::SoftMin {
                temperature: number(temperature),
            }),
            Some(("likely-min", weight)) => Some(Self::LikelyMin {
                weight: number(weight),
            }),
            _ => Self::ALL.into_iter().find(|a| a.name() == text),
        };
        let Some(aggregation) = read else {
            let known = Self::ALL.map(Self::name);
            return Err(ConfigError::unknown("aggregation", text, known));
        };
        aggregation.validate().map(|()| aggregation)
    }
}

impl TryFrom<String> for Aggregation {
    type Error = ConfigError;

    fn try_from(text: String) -> Result<Self, ConfigError> {
        text.parse()
    }
}

impl From<Aggregation> for String {
    fn from(aggregation: Aggregation) -> Self {
        aggregation.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds() {
        let scores = [0.5f32, 0.25, 1.0];
        let fold = |a: Aggregation| a.fold(scores).unwrap();
        assert_eq!(fold(Aggregation::Min), 0.25);
        assert_eq!(fold(Aggregation::Max), 1.0);
        assert_eq!(fold(Aggregation::Last), 1.0);
        assert_eq!(fold(Aggregation::Product), 0.125);
        assert_eq!(fold(Aggregation::Mean), 1.75 / 3.0);
    }

    #[test]
    fn the_soft_minimum_lies_between_minimum_and_mean() {
        let scores = [0.5f32, 0.25, 1.0];
        let fold = |temperature| Aggregation::SoftMin { temperature }.fold(scores).unwrap();
        let weights = [0.5f64, 0.25, 1.0].map(|s| (s, (-s / 0.2).exp()));
        let sum: f64 = weights.iter().map(|(s, w)| s * w).sum();
        let expected = sum / weights.iter().map(|(_, w)| w).sum::<f64>();
        assert!((f64::from(fold(0.2)) - expected).abs() < 1e-6);
        assert_eq!(fold(1e-4), 0.25);
        assert!((fold(1e4) - 1.75 / 3.0).abs() < 1e-4);
        assert!(fold(0.1) < fold(0.2) && fold(0.2) < fold(0.4));
    }

    #[test]
    fn an_improbable_step_must_score_higher_to_count_as_much() {
        let weight = 0.5;
        let likely_min = Aggregation::LikelyMin { weight };
        // Odds of 4 times exp(0.5 * ln 0.25) = 1/2.
        assert!((likely_min.weighed(0.8, 0.25f32.ln()) - 2.0 / 3.0).abs() < 1e-6);
        assert!(likely_min.weighed(0.8, -1.0) > likely_min.weighed(0.9, -6.0));
        assert!((likely_min.weighed(0.8, 0.0) - 0.8).abs() < 1e-6);
        assert!(likely_min.weighed(1.0, -20.0) < 1.0, "1 is a rounded score");
        for logprob in [0.0, -1.0, -1e4, f32::NEG_INFINITY] {
            assert_eq!(likely_min.weighed(0.0, logprob), 0.0);
            assert!((0.0..=1.0).contains(&likely_min.weighed(1.0, logprob)));
            assert_eq!(Aggregation::Min.weighed(0.3, logprob), 0.3);
        }
        assert_eq!(likely_min.fold([0.5, 0.25, 1.0]), Some(0.25));
    }

    #[test]
    fn a_number_is_written_after_a_colon() {
        fn written(text: &str) -> Result<Aggregation, ConfigError> {
            text.parse()
        }
        let temperature = 0.05;
        assert_eq!(
            written("soft-min:0.05"),
            Ok(Aggregation::SoftMin { temperature })
        );
        assert_eq!(written("soft-min:0.1").unwrap().to_string(), "soft-min");
        assert_eq!(
            written("soft-min:0.05").unwrap().to_string(),
            "soft-min:0.05"
        );
        assert_eq!(
            written("likely-min:2"),
            Ok(Aggregation::LikelyMin { weight: 2.0 })
        );
        assert_eq!(written("likely-min:2").unwrap().to_string(), "likely-min:2");
        for bad in [
            "likely-min:0",
            "likely-min:x",
            "soft-min:",
            "soft-min:0",
            "soft-min:-1",
            "soft-min:inf",
            "soft-min:x",
        ] {
            let error = written(bad).unwrap_err().to_string();
            assert!(error.contains("positive"), "{bad}: {error}");
        }
        assert!(written("min:0.1").is_err());
    }

    #[test]
    fn no_scores_is_no_score_and_one_score_is_itself() {
        for a in Aggregation::ALL {
            assert_eq!(a.fold([]), None);
            assert_eq!(a.fold([0.3]), Some(0.3));
        }
    }

    #[test]
    fn names_round_trip() {
        for a in Aggregation::ALL {
            assert_eq!(a.name().parse::<Aggregation>(), Ok(a));
            assert_eq!(
                serde_json::to_string(&a).unwrap(),
                format!("\"{}\"", a.name())
            );
        }
        let error = "sum".parse::<Aggregation>().unwrap_err().to_string();
        assert!(
            error.contains("sum") && error.contains("product"),
            "{error}"
        );
    }
}
