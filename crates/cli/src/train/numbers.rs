//! Numbers and names of flags, checked.

use beamgen_train::tune::Decay;

use crate::args::DecayFlag;
use crate::failure::Failure;

pub fn share(name: &str, value: f64) -> Result<f64, Failure> {
    match (0.0..1.0).contains(&value) {
        true => Ok(value),
        false => Err(Failure::Input(format!(
            "{name} {value}: a part from 0 to below 1"
        ))),
    }
}

pub fn positive(name: &str, value: f64) -> Result<f64, Failure> {
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err(Failure::Input(format!("{name} {value}: must be positive"))),
    }
}

pub fn not_negative(name: &str, value: f64) -> Result<f64, Failure> {
    match value.is_finite() && value >= 0.0 {
        true => Ok(value),
        false => Err(Failure::Input(format!(
            "{name} {value}: must not be negative"
        ))),
    }
}

pub fn decay(flag: DecayFlag) -> Decay {
    match flag {
        DecayFlag::Cosine => Decay::Cosine,
        DecayFlag::Linear => Decay::Linear,
        DecayFlag::Constant => Decay::Constant,
    }
}
