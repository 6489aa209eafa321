//! Chooses the format in which each matrix is packed.

use beamgen_kernels::WeightFormat;

use crate::weights::View;
use crate::{Compute, ComputeType, Precision, WeightType};

impl Precision {
    /// The format of a matrix that multiplies, with `inputs` columns. Its rows come from the
    /// tensors in `views`.
    pub(crate) fn format(self, inputs: usize, views: &[View<'_>]) -> WeightFormat {
        let format = self.weights.format(inputs, views);
        match self.compute.on(&Compute::Cpu) {
            _ if format.is_blocks() => format,
            ComputeType::Bf16Pairs => WeightFormat::Bf16Pairs,
            ComputeType::Bf16Tiles => WeightFormat::Bf16Tiles,
            _ => format,
        }
    }
}

impl WeightType {
    /// The format of a matrix whose rows are only looked up. Quantised blocks are kept, because a
    /// single row is unpacked exactly.
    pub(crate) fn format_of_lookups(self, views: &[View<'_>]) -> WeightFormat {
        match self {
            Self::Auto | Self::Int8 => kept(views).unwrap_or_else(|| Self::Auto.format(0, views)),
            other => other.format(0, views),
        }
    }

    /// The format in which a matrix with `inputs` columns is stored.
    fn format(self, inputs: usize, views: &[View<'_>]) -> WeightFormat {
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

/// The format of GGUF's blocks, if all tensors have blocks of the same format.
fn kept(views: &[View<'_>]) -> Option<WeightFormat> {
    same(views, |view| view.encoding.blocks_format())
}

fn same(
    views: &[View<'_>],
    format: impl Fn(&View<'_>) -> Option<WeightFormat>,
) -> Option<WeightFormat> {
    let first = format(views.first()?)?;
    let all = views.iter().all(|view| format(view) == Some(first));
    all.then_some(first)
}
