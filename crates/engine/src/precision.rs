//! The arithmetic of a model's matrices.

use beamgen_kernels::{Isa, IsaLevel};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

use crate::{Compute, Error, UnknownName, WeightType};

/// The arithmetic of matrices whose weights are floats. Matrices in quantised blocks multiply bytes
/// in any case, and all sums are float32.
#[derive(Serialize, Deserialize, Display, EnumString, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[strum(parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<ComputeType>)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ComputeType {
    /// float32 on the processor; on a CUDA device, the number type of the weights.
    #[default]
    Auto,
    /// float32: weights are widened before they are multiplied.
    F32,
    /// bfloat16: weights and inputs are rounded to bfloat16, as `transformers` and vLLM do, and
    /// their products are summed in float32. The order of the sums is that of the processor's
    /// instructions: `Bf16Tiles` if it has AMX, otherwise `Bf16Pairs`. Any processor gives the bits
    /// of both.
    Bf16,
    /// bfloat16 in the order of AVX512-BF16
    /// ([`WeightFormat::Bf16Pairs`](beamgen_kernels::WeightFormat::Bf16Pairs)). AMD's processors
    /// multiply with it twice as fast as in float32. All others, and Intel's, whose instruction is
    /// slow, use multiply-adds of float32.
    Bf16Pairs,
    /// bfloat16 in the order of AMX
    /// ([`WeightFormat::Bf16Tiles`](beamgen_kernels::WeightFormat::Bf16Tiles)). Processors without
    /// it use multiply-adds of float32.
    Bf16Tiles,
}

impl ComputeType {
    /// Whether weights and inputs are rounded to bfloat16.
    #[must_use]
    pub fn is_bf16(self) -> bool {
        matches!(self, Self::Bf16 | Self::Bf16Pairs | Self::Bf16Tiles)
    }

    /// Returns the type with which `device` multiplies: on the CPU, the order of sums that this
    /// processor uses for `Bf16`. All other types stay as they are.
    #[must_use]
    pub fn on(self, device: &Compute) -> Self {
        match self {
            other if !device.is_cpu() => other,
            Self::Bf16 if Isa::detect().level() == IsaLevel::Amx => Self::Bf16Tiles,
            Self::Bf16 => Self::Bf16Pairs,
            other => other,
        }
    }
}

/// The number types of a model's matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precision {
    /// The weights in memory.
    pub weights: WeightType,
    /// The products of weights and inputs.
    pub compute: ComputeType,
}

impl From<WeightType> for Precision {
    fn from(weights: WeightType) -> Self {
        Self {
            weights,
            compute: ComputeType::Auto,
        }
    }
}

impl Precision {
    /// Refuses pairs of types that contradict each other.
    ///
    /// # Errors
    /// [`Error::Setting`]
    pub fn check(self) -> Result<(), Error> {
        match (self.compute, self.weights) {
            (compute, WeightType::F32 | WeightType::F16) if compute.is_bf16() => {
                let reason = format!(
                    "{compute} rounds weights to bfloat16, and dtype {} would keep them: use dtype bf16 or auto, or \
                     compute f32",
                    self.weights
                );
                Err(Error::setting("compute", reason))
            }
            (compute, WeightType::Int8) if compute.is_bf16() => {
                let reason = format!(
                    "{compute} would change nothing, because dtype int8 multiplies bytes: use dtype bf16 or auto, or \
                     leave compute out"
                );
                Err(Error::setting("compute", reason))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        for name in ComputeType::VARIANTS {
            let kind: ComputeType = name.parse().unwrap();
            assert_eq!(kind.to_string(), *name);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{name}\""));
        }
        let error = "int8".parse::<ComputeType>().unwrap_err().to_string();
        assert_eq!(
            error,
            "invalid name `int8`: use one of auto, f32, bf16, bf16-pairs, bf16-tiles"
        );
    }

    #[test]
    fn bf16_arithmetic_needs_weights_in_bf16() {
        for (weights, allowed) in [
            (WeightType::Auto, true),
            (WeightType::Bf16, true),
            (WeightType::Int8, false),
            (WeightType::F32, false),
            (WeightType::F16, false),
        ] {
            for compute in [
                ComputeType::Bf16,
                ComputeType::Bf16Pairs,
                ComputeType::Bf16Tiles,
            ] {
                let checked = Precision { weights, compute }.check();
                assert_eq!(checked.is_ok(), allowed, "{weights} {compute}");
            }
            assert!(Precision::from(weights).check().is_ok());
        }
    }
}
