//! Products with large weight matrices, in two cases where candle's own product wastes time or memory: a matrix that
//! is not trained, and a language-model head with a loss on its logits.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Device, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::math::exponentials;
use super::{floats, with_floats};

/// The largest number of logits in memory at a time: 64 MiB of f32, more only if a single row has more.
const LOGITS: usize = 16 << 20;

/// The loss of a row as a function of its target's log-probability, evaluated at one point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The summand of the row in the total loss.
    pub loss: f32,
    /// The derivative of `loss` by the log-probability, from which all gradients follow.
    pub slope: f32,
}

/// Returns the sum of `weights[i] * -log softmax(x_i W^T)[targets[i]]` over all rows, for `x: [rows, hidden]` and `w:
/// [vocab, hidden]`. The backward pass gives a gradient of `w` only if `trained` is true.
///
/// # Errors
/// `x` and `w` have different widths, or one of them is not a matrix.
pub fn linear_cross_entropy(
    x: &Tensor,
    w: &Tensor,
    targets: &[u32],
    weights: &[f32],
    trained: bool,
) -> Result<Tensor> {
    let (loss, _) = linear_objective(x, w, targets, trained, |row, log_prob| Cost {
        loss: -weights[row] * log_prob,
        slope: -weights[row],
    })?;
    Ok(loss)
}

/// Returns the sum of `cost(row, log_prob)` over all rows, and each row's `log_prob`: the log-probability of the
/// target under `softmax(x W^T)`. The logits of all rows are never in memory together: groups of rows are processed
/// one after the other, each with its gradients.
///
/// # Errors
/// `x` and `w` have different widths, or one of them is not a matrix.
pub fn linear_objective(
    x: &Tensor,
    w: &Tensor,
    targets: &[u32],
    trained: bool,
    cost: impl Fn(usize, f32) -> Cost + Sync,
) -> Result<(Tensor, Vec<f32>)> {
    let vocab = w.dim(0)?;
    let (plain, head) = (x.detach(), w.detach());
    let (mut loss, mut gx, mut gw) = (0f64, Vec::new(), None);
    let mut log_probs = Vec::with_capacity(targets.len());
    each_part(&plain, &head, |from, part, logits| {
        let len = part.dim(0)?;
        let g = with_floats(logits, |z| {
            let mut g = vec![0f32; z.len()];
            let costs: Vec<(f32, f32)> = g
                .par_chunks_mut(vocab)
                .zip(z.par_chunks(vocab))
                .zip(&targets[from..from + len])
                .enumerate()
                .map(|(i, ((g, z), &target))| {
                    let (max, sum) = exponentials(g, z);
                    let log_prob = z[target as usize] - max - sum.ln();
                    let Cost { loss, slope } = cost(from + i, log_prob);
                    // d log_prob / dz_j = [j = target] - softmax_j. Before the loop, `g` holds exp(z - max).
                    let scale = -slope / sum;
                    for g in g.iter_mut() {
                        *g *= scale;
                    }
                    g[target as usize] += slope;
                    (loss, log_prob)
                })
                .collect();
            loss += costs.iter().map(|&(loss, _)| f64::from(loss)).sum::<f64>();
            log_probs.extend(costs.iter().map(|&(_, log_prob)| log_prob));
            Ok(g)
        })?;
        let g = Tensor::from_vec(g, (len, vocab), x.device())?;
        gx.push(g.matmul(&head)?);
        if trained {
            // The groups are added in row order, so the sum is the same in every run.
            let own = g.t()?.matmul(part)?;
            gw = Some(match gw.take() {
                None => own,
                Some(sum) => (sum + own)?,
            });
        }
        Ok(())
    })?;
    let gx = Tensor::cat(&gx, 0)?;
    let sum = x.apply_op2(
        w,
        Computed {
            loss: loss as f32,
            gx,
            gw,
        },
    )?;
    Ok((sum, log_probs))
}

/// Returns the log-probability of each row's target under `softmax(x W^T)`. No gradients are computed.
///
/// # Errors
/// `x` and `w` have different widths, or one of them is not a matrix.
pub fn linear_log_probs(x: &Tensor, w: &Tensor, targets: &[u32]) -> Result<Vec<f32>> {
    let vocab = w.dim(0)?;
    let mut log_probs = Vec::with_capacity(targets.len());
    each_part(&x.detach(), &w.detach(), |from, part, logits| {
        let targets = &targets[from..from + part.dim(0)?];
        with_floats(logits, |z| {
            log_probs.par_extend(z.par_chunks(vocab).zip(targets).map_init(
                || vec![0f32; vocab],
                |e, (z, &target)| {
                    let (max, sum) = exponentials(e, z);
                    z[target as usize] - max - sum.ln()
                },
            ));
            Ok(())
        })
    })?;
    Ok(log_probs)
}

/// Calls `body(first_row, rows, logits)` for consecutive groups of rows with at most [`LOGITS`] logits each.
fn each_part(
    x: &Tensor,
    head: &Tensor,
    mut body: impl FnMut(usize, &Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    let (rows, vocab) = (x.dim(0)?, head.dim(0)?);
    // With a vocabulary above `LOGITS`, a group is one row.
    let at_once = (LOGITS / vocab).max(1);
    for from in (0..rows).step_by(at_once) {
        let part = x.narrow(0, from, at_once.min(rows - from))?;
        let logits = part.matmul(&head.t()?)?;
        body(from, &part, &logits)?;
    }
    Ok(())
}

/// A scalar whose gradients were computed together with its value. The backward pass only multiplies them by the
/// incoming gradient.
struct Computed {
    loss: f32,
    gx: Tensor,
    gw: Option<Tensor>,
}

impl CustomOp2 for Computed {
    fn name(&self) -> &'static str {
        "train-linear-objective"
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

/// The product `x W^T` with a matrix that is not trained. Only the gradient of `x` is computed; candle's own product
/// would compute the gradient of `W` too.
pub struct FrozenLinear {
    /// The frozen matrix `W`, `[outputs, inputs]`.
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
