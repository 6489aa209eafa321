//! The number types in which a model's weights are kept in memory.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

use crate::UnknownName;

/// The number type of a model's weights in memory. The arithmetic is float32, unless
/// [`ComputeType`](crate::ComputeType) says otherwise, and except with `Int8`. Norms and biases are
/// always float32.
#[derive(Serialize, Deserialize, Display, EnumString, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[strum(parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<WeightType>)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightType {
    /// The narrowest type that holds the checkpoint's values exactly, chosen for each matrix.
    /// Results have the same bits as with `F32`, in less memory. GGUF's quantised blocks become
    /// float32, except in embeddings whose rows are only looked up.
    #[default]
    Auto,
    /// float32.
    F32,
    /// bfloat16. Other values are rounded to the nearest, ties to even.
    Bf16,
    /// float16. Other values are rounded to the nearest, ties to even. A value beyond the range is
    /// an error.
    F16,
    /// 8 bits, with a float16 scale for every 32 weights. Activations are quantised in the same way
    /// ([`WeightFormat::Int8`](beamgen_kernels::WeightFormat::Int8)). The memory is about half of
    /// `Bf16`'s, and passes are several times as fast, but results differ.
    ///
    /// GGUF's blocks of `Q4_0`, `Q4_1`, `Q8_0`, `Q4_K` and `Q6_K` are kept unchanged if all tensors
    /// of a matrix have the same kind of block. Other values are rounded to the nearest. Two kinds
    /// of matrices are kept as with `Auto`: those whose number of inputs is not a multiple of 32,
    /// and separate embeddings, whose rows are only looked up.
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
