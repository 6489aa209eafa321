//! Products with large matrices: with a matrix that is not trained, and with a language-model head
//! whose logits go straight into a loss.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Device, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::math::exponentials;
use super::{floats, with_floats};

/// The largest number of logits in memory at a time (64 MiB of f32).
const LOGITS: usize = 16 << 20;

/// The loss of a row and its derivative, as functions of the log-probability of the row's target.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The row's summand of the loss.
    pub loss: f32,
    /// The derivative of `loss` by the log-probability.
    pub slope: f32,
}

/// Returns the summed, weighted cross-entropy of the logits `x W^T` against `targets`, a scalar
/// (`x: [rows, hidden]`, `w: [vocab, hidden]`). With `trained`, the backward pass has gradients of
/// `w` too.
///
/// # Errors
/// `x` and `w` differ in `hidden`, or a shape is not a matrix.
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

/// Returns the sum of `cost(row, log_prob)` over all rows, and the log-probabilities. `log_prob` is
/// the log-probability of the row's target under `softmax(x W^T)`. The full `[rows, vocab]` logits
/// never exist: a few rows are computed at a time, together with their gradients.
///
/// # Errors
/// `x` and `w` differ in `hidden`, or a shape is not a matrix.
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
                    // d log_prob / dz_j = [j = target] - softmax_j; `g` holds the exponentials so
                    // far.
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
            // Added up group by group, in the order of rows.
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

/// Returns only the log-probability of each row's target under `softmax(x W^T)`, without gradients.
///
/// # Errors
/// `x` and `w` differ in `hidden`, or a shape is not a matrix.
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

/// Calls `body(first_row, rows, logits)` for groups of rows whose logits fit into [`LOGITS`].
fn each_part(
    x: &Tensor,
    head: &Tensor,
    mut body: impl FnMut(usize, &Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    let (rows, vocab) = (x.dim(0)?, head.dim(0)?);
    // At least one row, however large the vocabulary.
    let at_once = (LOGITS / vocab).max(1);
    for from in (0..rows).step_by(at_once) {
        let part = x.narrow(0, from, at_once.min(rows - from))?;
        let logits = part.matmul(&head.t()?)?;
        body(from, &part, &logits)?;
    }
    Ok(())
}

/// A scalar operation whose gradients were computed with its value: the backward pass only scales
/// them.
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

/// The product `x W^T` with a matrix that is not trained. Candle's own product computes the
/// gradients of both factors even if only one is used; this operation computes only the gradient of
/// `x`.
pub struct FrozenLinear {
    /// The matrix `W`, `[outputs, inputs]`.
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
