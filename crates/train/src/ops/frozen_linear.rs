use candle_core::{CpuStorage, CustomOp1, Device, Layout, Result, Shape, Tensor};

use super::floats;

/// `x W^T` of a matrix `[outputs, inputs]` that is not trained. Candle's product computes the
/// gradient of both sides whether it is wanted or not; here that of `x` alone.
pub struct FrozenLinear {
    /// `[outputs, inputs]`.
    pub weight: Tensor,
}

impl CustomOp1 for FrozenLinear {
    fn name(&self) -> &'static str {
        "train-frozen-linear"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = Tensor::from_slice(floats(x, layout)?, layout.shape(), &Device::Cpu)?;
        let y = x.matmul(&self.weight.t()?)?;
        let shape = y.shape().clone();
        Ok((CpuStorage::F32(y.flatten_all()?.to_vec1()?), shape))
    }

    fn bwd(&self, _x: &Tensor, _y: &Tensor, gy: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(gy.matmul(&self.weight)?))
    }
}
