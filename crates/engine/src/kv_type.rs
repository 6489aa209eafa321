use std::fmt;
use std::str::FromStr;

use beamgen_kernels::KvFormat;
#[cfg(feature = "cuda")]
use beamgen_kernels::cuda::Number;
use serde::{Deserialize, Serialize};

use crate::Error;

/// How keys and values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    const ALL: [(&'static str, Self); 4] = [
        ("auto", Self::Auto),
        ("f32", Self::F32),
        ("bf16", Self::Bf16),
        ("f16", Self::F16),
    ];

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

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = Self::ALL[*self as usize];
        f.pad(name)
    }
}

impl FromStr for KvType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, kind)| *kind).ok_or_else(|| Error::Setting {
            field: "kv_dtype",
            reason: format!("`{text}` is none of auto, f32, bf16 and f16"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        for (name, kind) in KvType::ALL {
            assert_eq!(kind.to_string(), name);
            assert_eq!(name.parse::<KvType>().unwrap(), kind);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{name}\""));
        }
        let error = "int4".parse::<KvType>().unwrap_err().to_string();
        assert!(error.contains("int4") && error.contains("bf16"), "{error}");
    }
}
