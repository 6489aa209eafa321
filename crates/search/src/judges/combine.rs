//! The rule that combines the scores of several judges.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::error::ConfigError;

/// The rule that combines the scores of several judges for a step. A judge that abstains on a step
/// does not count there.
///
/// Written as its name, with numbers after a colon: `"veto:0.1"`, `"cascade:0.2..0.8"`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, IntoStaticStr)]
#[serde(try_from = "String", into = "String")]
#[strum(serialize_all = "kebab-case")]
pub enum Combine {
    /// The lowest score of a judge.
    #[default]
    Min,
    /// The product of the scores: the probability that all judges approve, if they are independent.
    Product,
    /// The mean of the scores' logits, as a probability.
    MeanLogits,
    /// The first judge's score, or 0 if another judge scores below a bound. Other scores of those
    /// judges change nothing.
    Veto {
        /// The least score that passes, in `0.0..=1.0`.
        below: f32,
    },
    /// The score of the first judge that is decided: below `low` or above `high`. Judges are asked
    /// in order until then, so cheap judges should come first; the last judge always counts.
    Cascade {
        /// The lowest score that leaves a step undecided.
        low: f32,
        /// The highest score that leaves a step undecided.
        high: f32,
    },
}

impl Combine {
    /// All rules, with their default numbers.
    pub const ALL: [Self; 5] = [
        Self::Min,
        Self::Product,
        Self::MeanLogits,
        Self::Veto { below: Self::BELOW },
        Self::Cascade {
            low: Self::LOW,
            high: Self::HIGH,
        },
    ];

    /// The score below which a judge fails a step, by default.
    pub const BELOW: f32 = 0.5;

    /// The `low` of `"cascade"` written without numbers.
    pub const LOW: f32 = 0.2;
    /// The `high` of `"cascade"` written without numbers.
    pub const HIGH: f32 = 0.8;

    /// Returns the name used in configurations, without numbers: `"min"`, for example.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Combines the scores of the judges, in their order, into one; `None` without scores.
    pub fn fold(self, scores: &[f32]) -> Option<f32> {
        let (&last, rest) = scores.split_last()?;
        // A single score is kept to the bit: logit and back would round it.
        if rest.is_empty() {
            return Some(last);
        }
        let all = scores.iter().map(|&score| f64::from(score));
        Some(match self {
            Self::Min => scores.iter().copied().fold(last, f32::min),
            Self::Product => all.product::<f64>() as f32,
            Self::MeanLogits => {
                let mean = all.map(logit).sum::<f64>() / scores.len() as f64;
                (1.0 / (1.0 + (-mean).exp())) as f32
            }
            Self::Veto { .. } => scores[0],
            // The judges before the last one were undecided.
            Self::Cascade { .. } => last,
        })
    }

    /// Returns the score below which a vetoing judge fails a step.
    pub(super) fn below(self) -> f32 {
        match self {
            Self::Veto { below } => below,
            _ => Self::BELOW,
        }
    }

    /// Whether the next judge of a cascade is asked about a step with this score so far.
    pub(super) fn is_undecided(self, score: Option<f32>) -> bool {
        match (self, score) {
            (Self::Cascade { low, high }, Some(score)) => (low..=high).contains(&score),
            (Self::Cascade { .. }, None) => true,
            _ => false,
        }
    }

    /// Checks the numbers of the rule.
    ///
    /// # Errors
    /// A bound is not a probability, or the lower one is above the upper one.
    fn validate(self) -> Result<(), ConfigError> {
        match self {
            Self::Veto { below } => {
                let words = "a score from 0 to 1, as in veto:0.5";
                ConfigError::check_range("the bound of veto", below, 0.0..=1.0, words)
            }
            Self::Cascade { low, high } => {
                let words = "two rising scores from 0 to 1, as in cascade:0.2..0.8";
                for bound in [low, high] {
                    ConfigError::check_range("a bound of cascade", bound, 0.0..=1.0, words)?;
                }
                ConfigError::check_range("the upper bound of cascade", high, low.., words)
            }
            _ => Ok(()),
        }
    }
}

/// Returns the log-odds of a score. A score that f32 rounds to 0 or 1 is not certain, so the result
/// is finite.
fn logit(score: f64) -> f64 {
    let edge = f64::from(f32::EPSILON) / 2.0;
    let score = score.clamp(edge, 1.0 - edge);
    (score / (1.0 - score)).ln()
}

impl fmt::Display for Combine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            // Default numbers are left out: run files compare texts, so equal rules need equal
            // texts.
            Self::Veto { below } if *below != Self::BELOW => write!(f, ":{below}"),
            Self::Cascade { low, high } if (*low, *high) != (Self::LOW, Self::HIGH) => {
                write!(f, ":{low}..{high}")
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Combine {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        // A text that is not a number becomes NaN, which `validate` refuses with advice.
        fn number(text: &str) -> f32 {
            text.trim().parse().unwrap_or(f32::NAN)
        }
        let read = match text.split_once(':') {
            Some(("veto", below)) => Some(Self::Veto {
                below: number(below),
            }),
            Some(("cascade", bounds)) => {
                let (low, high) = bounds.split_once("..").unwrap_or((bounds, ""));
                let (low, high) = (number(low), number(high));
                Some(Self::Cascade { low, high })
            }
            _ => Self::ALL.into_iter().find(|rule| rule.name() == text),
        };
        let Some(rule) = read else {
            let known = Self::ALL.map(Self::name);
            return Err(ConfigError::unknown("combine", text, known));
        };
        rule.validate().map(|()| rule)
    }
}

impl TryFrom<String> for Combine {
    type Error = ConfigError;

    fn try_from(text: String) -> Result<Self, ConfigError> {
        text.parse()
    }
}

impl From<Combine> for String {
    fn from(rule: Combine) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_fold_scores() {
        fn fold(rule: &str, scores: &[f32]) -> Option<f32> {
            rule.parse::<Combine>().unwrap().fold(scores)
        }
        assert_eq!(fold("min", &[0.5, 0.25, 1.0]), Some(0.25));
        assert_eq!(fold("product", &[0.5, 0.25]), Some(0.125));
        // Equal evidence for and against.
        assert_eq!(fold("mean-logits", &[0.8, 0.2]), Some(0.5));
        assert!(fold("mean-logits", &[1.0, 0.9]).unwrap() < 1.0);
        assert_eq!(fold("veto", &[0.7, 0.1]), Some(0.7));
        assert_eq!(fold("cascade", &[0.5, 0.1]), Some(0.1));
        for rule in Combine::ALL {
            assert_eq!(rule.fold(&[]), None);
            assert_eq!(rule.fold(&[0.3]), Some(0.3));
        }
    }

    #[test]
    fn names_round_trip_and_mistakes_are_told() {
        for rule in Combine::ALL {
            assert_eq!(rule.to_string(), rule.name());
            assert_eq!(rule.to_string().parse::<Combine>(), Ok(rule));
        }
        for text in ["veto:0.1", "cascade:0.1..0.95"] {
            assert_eq!(text.parse::<Combine>().unwrap().to_string(), text);
        }
        for (text, word) in [
            ("mean", "mean-logits"),
            ("veto:2", "from 0 to 1"),
            ("veto:", "from 0 to 1"),
            ("cascade:0.8..0.2", "rising"),
            ("cascade:0.8", "rising"),
        ] {
            let error = text.parse::<Combine>().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_cascade_goes_on_where_a_score_is_undecided() {
        let rule = Combine::Cascade {
            low: 0.2,
            high: 0.8,
        };
        for (score, undecided) in [
            (Some(0.1), false),
            (Some(0.2), true),
            (Some(0.8), true),
            (Some(0.9), false),
            (None, true),
        ] {
            assert_eq!(rule.is_undecided(score), undecided, "{score:?}");
        }
        assert!(!Combine::Min.is_undecided(None));
    }
}
