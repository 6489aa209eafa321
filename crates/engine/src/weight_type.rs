//! The number types of a model's weights in memory.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

use crate::UnknownName;

/// The number type of a model's weights in memory. The arithmetic is float32, except with `Int8`.
/// Norms and biases are always float32.
#[derive(Serialize, Deserialize, Display, EnumString, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[strum(parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<WeightType>)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightType {
    /// The narrowest type that holds the checkpoint's values exactly, chosen for each matrix: the
    /// same bits as with `F32` in less memory. GGUF's blocks are unpacked to float32, except for
    /// embeddings that are only looked up.
    #[default]
    Auto,
    /// float32.
    F32,
    /// bfloat16. Other values are rounded to the nearest, ties to even.
    Bf16,
    /// float16. Other values are rounded to the nearest, ties to even; values beyond the range are
    /// an error.
    F16,
    /// 8 bits with a float16 scale for every 32 weights, multiplied by activations that are
    /// quantised in the same way ([`WeightFormat::Int8`](beamgen_kernels::WeightFormat::Int8)).
    /// This takes about half of `Bf16`'s memory and is several times as fast, with other results.
    ///
    /// Blocks of GGUF's `Q4_0`, `Q4_1`, `Q8_0`, `Q4_K` and `Q6_K` are kept unchanged if a whole
    /// matrix has one kind of them; other values are rounded to the nearest. Two kinds of matrices
    /// stay as with `Auto`: those whose number of inputs is not a multiple of 32, and embeddings
    /// that are not the head, whose rows are only looked up.
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
        assert_eq!(
            error,
            "invalid name `int4`: use one of auto, f32, bf16, f16, int8"
        );
    }
}
