use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::math::sigmoid;
use super::{ROWS, floats, with_floats};

/// The gated activation `silu(gate) * up` (Shazeer, arXiv 2002.05202). An input row is `[gate | up]` of width `2 f`;
/// an output row has width `f`.
pub struct SwiGlu;

impl CustomOp1 for SwiGlu {
    fn name(&self) -> &'static str {
        "train-swiglu"
    }

    fn cpu_fwd(&self, x: &CpuStorage, l: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = floats(x, l)?;
        let (rows, width) = l.shape().dims2()?;
        let f = width / 2;
        let mut y = vec![0f32; rows * f];
        y.par_chunks_mut(ROWS * f)
            .zip(x.par_chunks(ROWS * width))
            .for_each(|(y, x)| swiglu_forward(y, x, f));
        Ok((CpuStorage::F32(y), (rows, f).into()))
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let (_, width) = x.dims2()?;
        let f = width / 2;
        let g = g.contiguous()?;
        let gx = with_floats(x, |x| {
            with_floats(&g, |g| {
                let mut gx = vec![0f32; x.len()];
                gx.par_chunks_mut(ROWS * width)
                    .zip(x.par_chunks(ROWS * width))
                    .zip(g.par_chunks(ROWS * f))
                    .for_each(|((gx, x), g)| swiglu_backward(gx, x, g, f));
                Ok(gx)
            })
        })?;
        Ok(Some(Tensor::from_vec(gx, x.shape(), x.device())?))
    }
}

vectorised! {
    fn swiglu_forward<'a>(y: &'a mut [f32], x: &'a [f32], f: usize) -> () {
        for (y, x) in y.chunks_exact_mut(f).zip(x.chunks_exact(2 * f)) {
            // The fused projection writes all gates of a row before all ups.
            let (gate, up) = x.split_at(f);
            for ((y, g), u) in y.iter_mut().zip(gate).zip(up) {
                *y = g * sigmoid(*g) * u;
            }
        }
    }
}

vectorised! {
    fn swiglu_backward<'a>(gx: &'a mut [f32], x: &'a [f32], g: &'a [f32], f: usize) -> () {
        for ((gx, x), g) in gx
            .chunks_exact_mut(2 * f)
            .zip(x.chunks_exact(2 * f))
            .zip(g.chunks_exact(f))
        {
            let (gate, up) = x.split_at(f);
            let (ggate, gup) = gx.split_at_mut(f);
            for i in 0..f {
                // silu(z) = z s with s = sigmoid(z), so silu'(z) = s + z s (1 - s).
                let s = sigmoid(gate[i]);
                gup[i] = g[i] * gate[i] * s;
                ggate[i] = g[i] * up[i] * (s + gate[i] * s * (1.0 - s));
            }
        }
    }
}
