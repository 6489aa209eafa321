use beamgen_kernels::KvFormat;
#[cfg(feature = "cuda")]
use beamgen_kernels::cuda::Number;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

use crate::UnknownName;

/// The number type of cached keys and values. A smaller type costs precision.
#[derive(Serialize, Deserialize, Display, EnumString, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[strum(parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<KvType>)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvType {
    /// float32 on the processor; on a CUDA device, the number type of the weights.
    #[default]
    Auto,
    /// float32.
    F32,
    /// bfloat16: half the memory, and the fastest attention on machines with AMX. Queries and
    /// attention weights are rounded to about three digits, too ([`KvFormat::Bf16`]).
    Bf16,
    /// float16: half the memory. The arithmetic is still float32.
    F16,
}

impl KvType {
    /// The format of pages on the processor.
    pub(crate) fn format(self) -> KvFormat {
        match self {
            Self::Auto | Self::F32 => KvFormat::F32,
            Self::Bf16 => KvFormat::Bf16,
            Self::F16 => KvFormat::F16,
        }
    }

    /// The number type on a CUDA device, for a model whose last layer has the type `weights`.
    #[cfg(feature = "cuda")]
    pub(crate) fn number(self, weights: Number) -> Number {
        match self {
            Self::Auto => weights,
            Self::F32 => Number::F32,
            Self::Bf16 => Number::Bf16,
            Self::F16 => Number::F16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        for name in KvType::VARIANTS {
            let kind: KvType = name.parse().unwrap();
            assert_eq!(kind.to_string(), *name);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{name}\""));
        }
        let error = "int4".parse::<KvType>().unwrap_err().to_string();
        assert_eq!(
            error,
            "invalid name `int4`: use one of auto, f32, bf16, f16"
        );
    }
}
