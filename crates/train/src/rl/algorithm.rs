//! The table of algorithms. Algorithms differ in how a reward becomes an advantage, in how the
//! losses of tokens are averaged, and in their clipping; everything else is the same code.

use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Average;
use crate::{Error, named};

/// The baseline that is subtracted from a reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The mean over the whole group.
    Group,
    /// The mean over the group's other chains, which makes the gradient unbiased.
    Others,
}

/// The divisor of the difference of reward and baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// 1, so differences are unchanged.
    One,
    /// The sample standard deviation of the group, plus 1e-6.
    Deviation,
}

/// A row of the table. Settings name a row by its `name`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Algorithm {
    /// The name in settings and help texts, in kebab case.
    pub name: &'static str,
    /// A description for help texts.
    pub summary: &'static str,
    /// The baseline that is subtracted from a reward.
    pub baseline: Baseline,
    /// The divisor of the difference of reward and baseline.
    pub scale: Scale,
    /// The average over the losses of tokens.
    pub average: Average,
    /// The clipping of importance ratios: to the range from `1 - clip.0` to `1 + clip.1`.
    pub clip: (f64, f64),
    /// Whether groups with equal rewards are dropped, and other groups sampled in their place.
    pub resamples: bool,
    /// Whether chains near the length limit lose up to 1 of their reward: DAPO's soft overlong
    /// penalty.
    pub overlong: bool,
}

/// Group relative policy optimisation, from `DeepSeekMath` (2402.03300).
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

/// Dr. GRPO, from "Understanding R1-Zero-like training" (2503.20783). It drops two terms of GRPO:
/// one favours long wrong chains, the other groups that are nearly all right or all wrong.
const DR_GRPO: Algorithm = Algorithm {
    name: "dr-grpo",
    summary: "group mean without deviation, all tokens weigh the same",
    scale: Scale::One,
    average: Average::Constant,
    ..GRPO
};

/// REINFORCE leave-one-out, from "Back to basics" (2402.14740).
const RLOO: Algorithm = Algorithm {
    name: "rloo",
    summary: "mean of the group's other chains, summed loss of a chain",
    baseline: Baseline::Others,
    scale: Scale::One,
    average: Average::SequenceSum,
    ..GRPO
};

/// Decoupled clip and dynamic sampling policy optimisation (DAPO, 2503.14476).
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
    /// All rows, in the order of help texts.
    pub const ALL: [Self; 4] = [GRPO, DR_GRPO, RLOO, DAPO];
    /// The row of GRPO, the default.
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
