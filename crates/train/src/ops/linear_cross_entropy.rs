use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::math::exponentials;
use super::with_floats;

/// Values of the logits that are held at a time.
const LOGITS: usize = 16 << 20;

/// Weighted cross-entropy of `x W^T` (`x: [rows, hidden]`, `w: [vocab, hidden]`) against `targets`,
/// summed, without ever holding all logits: a few rows at a time, whose gradients are computed at
/// once. With `trained` those of `w` too.
pub fn linear_cross_entropy(
    x: &Tensor,
    w: &Tensor,
    targets: &[u32],
    weights: &[f32],
    trained: bool,
) -> Result<Tensor> {
    let (rows, vocab) = (x.dim(0)?, w.dim(0)?);
    let (plain, head) = (x.detach(), w.detach());
    let (mut loss, mut gx, mut gw) = (0f64, Vec::new(), None);
    let at_once = (LOGITS / vocab).max(1);
    for from in (0..rows).step_by(at_once) {
        let len = at_once.min(rows - from);
        let part = plain.narrow(0, from, len)?;
        let logits = part.matmul(&head.t()?)?;
        let g = with_floats(&logits, |z| {
            let mut g = vec![0f32; z.len()];
            let losses: Vec<f32> = g
                .par_chunks_mut(vocab)
                .zip(z.par_chunks(vocab))
                .zip(targets[from..].par_iter().zip(&weights[from..]))
                .map(|((g, z), (&target, &weight))| {
                    let (max, sum) = exponentials(g, z);
                    let scale = weight / sum;
                    g.iter_mut().for_each(|g| *g *= scale);
                    g[target as usize] -= weight;
                    weight * (sum.ln() + max - z[target as usize])
                })
                .collect();
            loss += losses.iter().map(|&l| f64::from(l)).sum::<f64>();
            Ok(g)
        })?;
        let g = Tensor::from_vec(g, (len, vocab), x.device())?;
        gx.push(g.matmul(&head)?);
        if trained {
            let own = g.t()?.matmul(&part)?;
            gw = Some(match gw {
                None => own,
                Some(sum) => (sum + own)?,
            });
        }
    }
    let gx = Tensor::cat(&gx, 0)?;
    x.apply_op2(
        w,
        Computed {
            loss: loss as f32,
            gx,
            gw,
        },
    )
}

/// A number whose gradients are known.
struct Computed {
    loss: f32,
    gx: Tensor,
    gw: Option<Tensor>,
}

impl CustomOp2 for Computed {
    fn name(&self) -> &'static str {
        "train-linear-cross-entropy"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(vec![self.loss]), Shape::from(())))
    }

    fn bwd(
        &self,
        _x: &Tensor,
        _w: &Tensor,
        _loss: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let scale = f64::from(g.to_scalar::<f32>()?);
        let gw = self.gw.as_ref().map(|gw| gw * scale).transpose()?;
        Ok((Some((&self.gx * scale)?), gw))
    }
}
