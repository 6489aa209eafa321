use std::fmt;
use std::str::FromStr;

use beamgen_kernels::WeightFormat;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::weights::View;

/// How a model's weights are kept in memory. The arithmetic is float32, but for `Int8`. Norms and
/// biases are float32 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightType {
    /// The narrowest that holds the checkpoint's own values exactly, for each matrix: the same
    /// results as with `F32`, bit for bit, in less memory. GGUF's blocks are unpacked to float32, but for
    /// embeddings that are only looked up.
    #[default]
    Auto,
    /// float32.
    F32,
    /// bfloat16. Other values are rounded to the nearest, ties to even.
    Bf16,
    /// float16, likewise. Values beyond its range are an error.
    F16,
    /// 8 bits with a float16 scale for every 32, multiplied by activations that are quantised the same
    /// way ([`WeightFormat::Int8`]): about half of `Bf16`'s memory, several times its speed, other results. Blocks of GGUF's
    /// Q4_0, Q4_1, Q8_0, Q4_K and Q6_K are kept as they are where a matrix has one kind of them, other values are rounded to the nearest. As in `Auto` stay matrices
    /// whose inputs are no multiple of 32, and embeddings that are not the head, too: their rows are
    /// only looked up.
    Int8,
}

impl WeightType {
    const ALL: [(&'static str, Self); 5] = [
        ("auto", Self::Auto),
        ("f32", Self::F32),
        ("bf16", Self::Bf16),
        ("f16", Self::F16),
        ("int8", Self::Int8),
    ];

    /// The format of a matrix whose rows are only looked up: blocks give back their values exactly.
    pub(crate) fn format_of_lookups(self, views: &[View<'_>]) -> WeightFormat {
        match self {
            Self::Auto | Self::Int8 => kept(views).unwrap_or_else(|| Self::Auto.format(0, views)),
            other => other.format(0, views),
        }
    }

    /// The format of a matrix of so many inputs made of these tensors.
    pub(crate) fn format(self, inputs: usize, views: &[View<'_>]) -> WeightFormat {
        match self {
            Self::Int8 if inputs.is_multiple_of(32) => kept(views).unwrap_or(WeightFormat::Int8),
            Self::F32 => WeightFormat::F32,
            Self::Bf16 => WeightFormat::Bf16,
            Self::F16 => WeightFormat::F16,
            Self::Auto | Self::Int8 => {
                same(views, |view| Some(view.format())).unwrap_or(WeightFormat::F32)
            }
        }
    }
}

/// The blocks that all of these tensors are made of.
fn kept(views: &[View<'_>]) -> Option<WeightFormat> {
    same(views, |view| view.blocks_format())
}

/// What all of these tensors have in common.
fn same(
    views: &[View<'_>],
    format: impl Fn(&View<'_>) -> Option<WeightFormat>,
) -> Option<WeightFormat> {
    let first = format(views.first()?)?;
    let all = views.iter().all(|view| format(view) == Some(first));
    all.then_some(first)
}

impl fmt::Display for WeightType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = Self::ALL[*self as usize];
        f.pad(name)
    }
}

impl FromStr for WeightType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, kind)| *kind).ok_or_else(|| Error::Setting {
            field: "dtype",
            reason: format!("`{text}` is none of auto, f32, bf16, f16 and int8"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        for (name, kind) in WeightType::ALL {
            assert_eq!(kind.to_string(), name);
            assert_eq!(name.parse::<WeightType>().unwrap(), kind);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{name}\""));
        }
        let error = "int4".parse::<WeightType>().unwrap_err().to_string();
        assert!(error.contains("int4") && error.contains("bf16"), "{error}");
    }
}
