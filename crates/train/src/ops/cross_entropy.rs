use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::math::exponentials;
use super::{floats, with_floats};

/// The weighted cross-entropy of logits `[rows, vocab]`: `sum_i weights[i] * -log
/// softmax(row_i)[targets[i]]`.
pub struct CrossEntropy {
    /// The target token of each row, below the width of the logits.
    pub targets: Vec<u32>,
    /// The factor of each row's loss; rows with factor 0 have no gradient.
    pub weights: Vec<f32>,
}

impl CustomOp1 for CrossEntropy {
    fn name(&self) -> &'static str {
        "train-cross-entropy"
    }

    fn cpu_fwd(&self, x: &CpuStorage, l: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = floats(x, l)?;
        let (_, v) = l.shape().dims2()?;
        let losses: Vec<f32> = x
            .par_chunks(v)
            .zip(self.targets.par_iter().zip(&self.weights))
            .map_init(
                || vec![0f32; v],
                |e, (row, (&t, &w))| {
                    let (max, sum) = exponentials(e, row);
                    w * (sum.ln() + max - row[t as usize])
                },
            )
            .collect();
        // The sum does not depend on how rayon splits the rows, because the losses are first collected in row order.
        // f64 keeps the rounding error small.
        let total = losses.iter().map(|&l| f64::from(l)).sum::<f64>() as f32;
        Ok((CpuStorage::F32(vec![total]), Shape::from(())))
    }

    fn bwd(&self, x: &Tensor, _loss: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let g = g.to_scalar::<f32>()?;
        let (_, v) = x.dims2()?;
        let gx = with_floats(x, |x| {
            let mut gx = vec![0f32; x.len()];
            gx.par_chunks_mut(v)
                .zip(x.par_chunks(v))
                .zip(self.targets.par_iter().zip(&self.weights))
                .for_each(|((gx, row), (&t, &w))| {
                    // The exponentials are computed again here. Keeping them from the forward pass would hold a
                    // second `[rows, vocab]` tensor.
                    let (_, sum) = exponentials(gx, row);
                    let c = g * w / sum;
                    for o in gx.iter_mut() {
                        *o *= c;
                    }
                    gx[t as usize] -= g * w;
                });
            Ok(gx)
        })?;
        Ok(Some(Tensor::from_vec(gx, x.shape(), x.device())?))
    }
}
