//! The table of algorithms. They differ in how a reward becomes an advantage, in how the losses of
//! tokens are averaged, and in what they clip; all else is the same code.

use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Average;
use crate::{Error, named};

/// What is subtracted from a reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The mean of its group.
    Group,
    /// The mean of the group's other chains, which makes the gradient unbiased.
    Others,
}

/// What the difference is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Nothing.
    One,
    /// The sample standard deviation of the group, plus 1e-6.
    Deviation,
}

/// A row of the table. In settings it is its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Algorithm {
    /// As it is written in settings.
    pub name: &'static str,
    /// What it is, for help.
    pub summary: &'static str,
    /// What is subtracted from a reward.
    pub baseline: Baseline,
    /// What the difference is divided by.
    pub scale: Scale,
    /// How the losses of tokens are averaged.
    pub average: Average,
    /// An importance ratio counts up to `1 - clip.0` and `1 + clip.1`.
    pub clip: (f64, f64),
    /// Groups whose rewards are all the same are dropped, and others sampled in their place.
    pub resamples: bool,
    /// Chains near the length limit lose up to 1: DAPO's soft penalty.
    pub overlong: bool,
}

/// `DeepSeekMath` (2402.03300).
const GRPO: Algorithm = Algorithm {
    name: "grpo",
    summary: "group mean and deviation, mean loss of a chain",
    baseline: Baseline::Group,
    scale: Scale::Deviation,
    average: Average::Sequence,
    clip: (0.2, 0.2),
    resamples: false,
    overlong: false,
};

/// Understanding R1-Zero-like training (2503.20783): without the two terms of GRPO that favour long
/// wrong chains and groups that are nearly all right or wrong.
const DR_GRPO: Algorithm = Algorithm {
    name: "dr-grpo",
    summary: "group mean alone, all tokens weigh the same",
    scale: Scale::One,
    average: Average::Constant,
    ..GRPO
};

/// Back to basics (2402.14740).
const RLOO: Algorithm = Algorithm {
    name: "rloo",
    summary: "mean of the group's other chains, summed loss of a chain",
    baseline: Baseline::Others,
    scale: Scale::One,
    average: Average::SequenceSum,
    ..GRPO
};

/// DAPO (2503.14476).
const DAPO: Algorithm = Algorithm {
    name: "dapo",
    summary: "as grpo; clips higher, mean loss of tokens, groups all right or all wrong are resampled, long chains lose",
    average: Average::Token,
    clip: (0.2, 0.28),
    resamples: true,
    overlong: true,
    ..GRPO
};

impl Algorithm {
    /// The table.
    pub const ALL: [Self; 4] = [GRPO, DR_GRPO, RLOO, DAPO];
    /// The first row.
    pub const GRPO: Self = GRPO;
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        named("algorithm", name, Self::ALL.map(|row| (row.name, row)))
    }
}

impl Serialize for Algorithm {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for Algorithm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        name.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_name_and_another_name_is_refused() {
        for row in Algorithm::ALL {
            assert_eq!(row.name.parse::<Algorithm>().unwrap(), row);
            let json = serde_json::to_string(&row).unwrap();
            assert_eq!(serde_json::from_str::<Algorithm>(&json).unwrap(), row);
        }
        let error = "ppo".parse::<Algorithm>().unwrap_err().to_string();
        assert!(error.contains("grpo, dr-grpo, rloo, dapo"), "{error}");
    }
}
