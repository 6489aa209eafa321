use beamgen_kernels::KvFormat;
#[cfg(feature = "cuda")]
use beamgen_kernels::cuda::Number;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

use crate::UnknownName;

/// How keys and values are kept.
#[derive(Serialize, Deserialize, Display, EnumString, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[strum(parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<KvType>)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvType {
    /// float32 on the processor, on a CUDA device what the weights are.
    #[default]
    Auto,
    /// float32.
    F32,
    /// bfloat16: half the memory, and the fastest attention where the machine has AMX. Queries and
    /// attention's weights are rounded, too ([`KvFormat::Bf16`]): about three digits.
    Bf16,
    /// float16: half the memory; computed with in float32.
    F16,
}

impl KvType {
    /// What it is on the processor.
    pub(crate) fn format(self) -> KvFormat {
        match self {
            Self::Auto | Self::F32 => KvFormat::F32,
            Self::Bf16 => KvFormat::Bf16,
            Self::F16 => KvFormat::F16,
        }
    }

    /// What it is on a CUDA device, where weights are `weights`.
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
        assert_eq!(error, "`int4` is none of auto, f32, bf16, f16");
    }
}
