use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::{ROWS, floats, with_floats};

/// Root-mean-square normalisation (Zhang and Sennrich, arXiv 1910.07467): `y = x / rms(x) * w` for rows of width
/// `w.len()`.
pub struct RmsNorm {
    /// A small number, added to the mean square so that a row of zeros does not divide by 0.
    pub eps: f32,
}

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "train-rms-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        w: &CpuStorage,
        lw: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, w) = (floats(x, lx)?, floats(w, lw)?);
        let d = w.len();
        let mut y = vec![0f32; x.len()];
        y.par_chunks_mut(ROWS * d)
            .zip(x.par_chunks(ROWS * d))
            .for_each(|(y, x)| rms_forward(y, x, w, self.eps));
        Ok((CpuStorage::F32(y), lx.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        _y: &Tensor,
        gy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let gy = gy.contiguous()?;
        let (gx, gw) = with_floats(x, |xs| {
            with_floats(w, |ws| with_floats(&gy, |g| Ok(self.gradient(xs, ws, g))))
        })?;
        Ok((
            Some(Tensor::from_vec(gx, x.shape(), x.device())?),
            Some(Tensor::from_vec(gw, w.shape(), w.device())?),
        ))
    }
}

#[inline(always)]
fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    // 16 partial sums can be vectorised; a single f32 sum cannot, because reordering additions changes its value.
    let mut acc = [0f32; 16];
    let mut chunks = x.chunks_exact(16);
    for c in &mut chunks {
        for (a, v) in acc.iter_mut().zip(c) {
            *a += v * v;
        }
    }
    let rest: f32 = chunks.remainder().iter().map(|v| v * v).sum();
    ((acc.iter().sum::<f32>() + rest) / x.len() as f32 + eps)
        .sqrt()
        .recip()
}

vectorised! {
    fn rms_forward<'a>(y: &'a mut [f32], x: &'a [f32], w: &'a [f32], eps: f32) -> () {
        let d = w.len();
        for (y, x) in y.chunks_exact_mut(d).zip(x.chunks_exact(d)) {
            let r = inverse_rms(x, eps);
            for ((y, x), w) in y.iter_mut().zip(x).zip(w) {
                *y = x * r * w;
            }
        }
    }
}

vectorised! {
    fn rms_backward<'a>(
        gx: &'a mut [f32],
        gw: &'a mut [f32],
        x: &'a [f32],
        w: &'a [f32],
        g: &'a [f32],
        eps: f32,
    ) -> () {
        let d = w.len();
        let gw = &mut gw[..d];
        for ((gx, x), g) in gx
            .chunks_exact_mut(d)
            .zip(x.chunks_exact(d))
            .zip(g.chunks_exact(d))
        {
            let r = inverse_rms(x, eps);
            // 16 partial sums, because a single f32 sum is not vectorised.
            let mut lanes = [0f32; 16];
            for ((g, w), x) in g.chunks(16).zip(w.chunks(16)).zip(x.chunks(16)) {
                for (((l, g), w), x) in lanes.iter_mut().zip(g).zip(w).zip(x) {
                    *l += g * w * x;
                }
            }
            for i in 0..d {
                gw[i] += g[i] * x[i] * r;
            }
            // dL/dx_i = g_i w_i r - x_i r^3 / d * sum_j g_j w_j x_j, with r = 1 / rms.
            let c = lanes.iter().sum::<f32>() * r * r * r / d as f32;
            for i in 0..d {
                gx[i] = g[i] * w[i] * r - x[i] * c;
            }
        }
    }
}

impl RmsNorm {
    fn gradient(&self, x: &[f32], w: &[f32], g: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let d = w.len();
        let mut gx = vec![0f32; x.len()];
        let partial: Vec<Vec<f32>> = gx
            .par_chunks_mut(ROWS * d)
            .zip(x.par_chunks(ROWS * d))
            .zip(g.par_chunks(ROWS * d))
            .map(|((gx, x), g)| {
                let mut gw = vec![0f32; d];
                rms_backward(gx, &mut gw, x, w, g, self.eps);
                gw
            })
            .collect();
        let mut gw = vec![0f32; d];
        // The sums of the tasks are added in row order, so gradients do not depend on scheduling.
        for p in partial {
            for (a, b) in gw.iter_mut().zip(p) {
                *a += b;
            }
        }
        (gx, gw)
    }
}
