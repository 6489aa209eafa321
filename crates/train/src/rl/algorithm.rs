//! The table of algorithms. A row has the baseline and scale that make a reward an advantage, the average over the
//! losses of tokens, and the clipping. All other code is common.

use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Average;
use crate::{Error, named};

/// The number that is subtracted from a reward, to reduce the variance of the gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The mean over all chains of the group, the rewarded one included.
    Group,
    /// The mean over the other chains of the group, which leaves the gradient unbiased.
    Others,
}

/// The divisor of a reward after the baseline is subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The number 1, so that rewards keep their size.
    One,
    /// The sample standard deviation of the group, plus 1e-6.
    Deviation,
}

/// A row of the table of algorithms; settings contain its `name` only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Algorithm {
    /// The name in settings and on the command line, in kebab case.
    pub name: &'static str,
    /// The differences from other rows in a few words, for help texts.
    pub summary: &'static str,
    /// The baseline of a reward, computed from its group.
    pub baseline: Baseline,
    /// The divisor of rewards after the baseline is subtracted.
    pub scale: Scale,
    /// The average that turns the losses of tokens into one loss.
    pub average: Average,
    /// The allowed range of importance ratios, `1 - clip.0` to `1 + clip.1`.
    pub clip: (f64, f64),
    /// If true, groups whose chains have equal rewards are dropped, and more groups are sampled instead.
    pub resamples: bool,
    /// If true, chains near the length limit lose up to 1 of their reward (the soft overlong penalty of DAPO).
    pub overlong: bool,
}

/// Group relative policy optimisation, from `DeepSeekMath` (arXiv 2402.03300).
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

/// Dr. GRPO, from "Understanding R1-Zero-like training" (arXiv 2503.20783). GRPO divides by the chain's length, which
/// favours long wrong chains, and by the deviation, which favours groups that are nearly all right or wrong. Dr. GRPO
/// drops both divisions.
const DR_GRPO: Algorithm = Algorithm {
    name: "dr-grpo",
    summary: "group mean without deviation, all tokens weigh the same",
    scale: Scale::One,
    average: Average::Constant,
    ..GRPO
};

/// REINFORCE leave-one-out, from "Back to basics" (arXiv 2402.14740).
const RLOO: Algorithm = Algorithm {
    name: "rloo",
    summary: "mean of the group's other chains, summed loss of a chain",
    baseline: Baseline::Others,
    scale: Scale::One,
    average: Average::SequenceSum,
    ..GRPO
};

/// Decoupled clip and dynamic sampling policy optimisation (arXiv 2503.14476).
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
    /// All algorithms, in the order of help texts and error messages.
    pub const ALL: [Self; 4] = [GRPO, DR_GRPO, RLOO, DAPO];
    /// The first row, the default of [`Recipe`](super::Recipe).
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
