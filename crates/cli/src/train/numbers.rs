//! Checks numbers in flags, and converts flags to a training recipe.

use beamgen_train::tune::{Decay, Recipe};

use crate::args::{DecayFlag, RunFlags};
use crate::failure::{Failure, refuse};

pub(super) fn share(name: &str, value: f64) -> Result<f64, Failure> {
    // NaN is outside of the range, too.
    if (0.0..1.0).contains(&value) {
        Ok(value)
    } else {
        refuse(format!(
            "{name} {value}: not a share: use a number from 0 to below 1"
        ))
    }
}

pub(super) fn positive(name: &str, value: f64) -> Result<f64, Failure> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        refuse(format!(
            "{name} {value}: not positive: use a number above 0"
        ))
    }
}

pub(super) fn not_negative(name: &str, value: f64) -> Result<f64, Failure> {
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        refuse(format!("{name} {value}: negative: use 0 or more"))
    }
}

/// Returns the recipe that the flags describe, for a training that starts from a checkpoint.
pub(super) fn recipe_of(flags: &RunFlags) -> Result<Recipe, Failure> {
    Ok(Recipe {
        train: flags.train,
        micro_tokens: flags.micro_tokens,
        learning_rate: positive("--learning-rate", flags.learning_rate)?,
        warmup: share("--warmup", flags.warmup)?,
        decay: match flags.schedule {
            DecayFlag::Cosine => Decay::Cosine,
            DecayFlag::Linear => Decay::Linear,
            DecayFlag::Constant => Decay::Constant,
        },
        weight_decay: not_negative("--weight-decay", flags.weight_decay)?,
        seed: flags.seed,
        ..Recipe::default()
    })
}
