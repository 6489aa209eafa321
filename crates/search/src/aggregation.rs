use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// How the scores of a chain's steps become the score of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// A chain is as good as its weakest step.
    #[default]
    Min,
    /// The probability that every step is right, were they independent.
    Product,
    /// The arithmetic mean.
    Mean,
    /// The score of the newest step.
    Last,
    /// A chain is as good as its best step.
    Max,
}

impl Aggregation {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Min, Self::Product, Self::Mean, Self::Last, Self::Max];

    /// Score of a chain from its step scores, first step first; `None` if there are none.
    pub fn fold(self, scores: impl IntoIterator<Item = f32>) -> Option<f32> {
        let mut scores = scores.into_iter();
        let first = scores.next()?;
        Some(match self {
            Self::Min => scores.fold(first, f32::min),
            Self::Max => scores.fold(first, f32::max),
            Self::Last => scores.last().unwrap_or(first),
            Self::Product => {
                scores.fold(f64::from(first), |product, s| product * f64::from(s)) as f32
            }
            Self::Mean => {
                let (sum, count) = scores.fold((f64::from(first), 1u32), |(sum, count), s| {
                    (sum + f64::from(s), count + 1)
                });
                (sum / f64::from(count)) as f32
            }
        })
    }

    /// The name used in configuration, e.g. `"min"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Product => "product",
            Self::Mean => "mean",
            Self::Last => "last",
            Self::Max => "max",
        }
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Aggregation {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        Self::ALL
            .into_iter()
            .find(|a| a.name() == name)
            .ok_or_else(|| ConfigError::unknown("aggregation", name, Self::ALL.map(Self::name)))
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
