//! How a model's weights are kept.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

use crate::UnknownName;

/// How a model's weights are kept in memory. The arithmetic is float32, but for `Int8`. Norms and
/// biases are float32 in any case.
#[derive(Serialize, Deserialize, Display, EnumString, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[strum(parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<WeightType>)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightType {
    /// The narrowest that holds the checkpoint's own values exactly, for each matrix: the same
    /// results as with `F32`, bit for bit, in less memory. GGUF's blocks are unpacked to float32,
    /// but for embeddings that are only looked up.
    #[default]
    Auto,
    /// float32.
    F32,
    /// bfloat16. Other values are rounded to the nearest, ties to even.
    Bf16,
    /// float16, likewise. Values beyond its range are an error.
    F16,
    /// 8 bits with a float16 scale for every 32, multiplied by activations that are quantised the
    /// same way ([`WeightFormat::Int8`](beamgen_kernels::WeightFormat::Int8)): about half of
    /// `Bf16`'s memory, several times its speed, other results. Blocks of GGUF's `Q4_0`, `Q4_1`, `Q8_0`,
    /// `Q4_K` and `Q6_K` are kept as they are where a matrix has one kind of them, other values are
    /// rounded to the nearest. As in `Auto` stay matrices whose inputs are no multiple of 32, and
    /// embeddings that are not the head, too: their rows are only looked up.
    Int8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        for name in WeightType::VARIANTS {
            let kind: WeightType = name.parse().unwrap();
            assert_eq!(kind.to_string(), *name);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{name}\""));
        }
        let error = "int4".parse::<WeightType>().unwrap_err().to_string();
        assert_eq!(error, "`int4` is none of auto, f32, bf16, f16, int8");
    }
}
