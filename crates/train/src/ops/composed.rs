//! The operations of [`ops`](super), composed from candle's tensors. Devices other than the CPU use these versions,
//! and tests compare the fused ones with them.

use candle_core::{D, DType, Result, Tensor};

use super::Attention;

/// Divides the rows of `x: [rows, width]` by their root mean square and multiplies them by `w: [width]`.
///
/// # Errors
/// `x` and `w` have different widths.
pub fn rms_norm(x: &Tensor, w: &Tensor, eps: f32) -> Result<Tensor> {
    let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
    x.broadcast_div(&(mean + f64::from(eps))?.sqrt()?)?
        .broadcast_mul(w)
}

/// Returns `silu(a) * b` for rows `[a, b]` of two halves.
///
/// # Errors
/// The rows have an odd width.
pub fn swiglu(x: &Tensor) -> Result<Tensor> {
    let f = x.dim(D::Minus1)? / 2;
    x.narrow(D::Minus1, 0, f)?.silu()? * x.narrow(D::Minus1, f, f)?
}

/// Returns the sum of `weights[i] * -log softmax(logits[i])[targets[i]]` over the rows of `logits: [rows, vocab]`.
///
/// # Errors
/// `logits`, `targets` and `weights` differ in their number of rows.
pub fn cross_entropy(logits: &Tensor, targets: &[u32], weights: &[f32]) -> Result<Tensor> {
    let dev = logits.device();
    let logp = candle_nn::ops::log_softmax(logits, D::Minus1)?;
    let t = Tensor::new(targets, dev)?.unsqueeze(1)?;
    let w = Tensor::new(weights, dev)?;
    (logp.gather(&t, 1)?.squeeze(1)? * w)?.sum_all()?.neg()
}

/// Computes causal attention with rotary embedding, on the input layout of [`Attention`].
///
/// # Errors
/// `x` has another width than `op` describes.
pub fn attention(op: &Attention, x: &Tensor) -> Result<Tensor> {
    let rows = x.dim(0)?;
    let (n, hd, pairs) = (op.time, op.head_dim, op.pairs);
    let dev = x.device();
    // The shape is [batch, heads, time, head_dim]. Key-value heads are repeated, once for each of their query heads.
    let part = |from: usize, heads: usize| {
        let part = x
            .narrow(1, from * hd, heads * hd)?
            .reshape((rows / n, n, heads, hd))?
            .transpose(1, 2)?;
        let copies = op.heads / heads;
        part.unsqueeze(2)?
            .broadcast_as((rows / n, heads, copies, n, hd))?
            .reshape((rows / n, op.heads, n, hd))?
            .contiguous()
    };
    let cos = Tensor::from_vec(op.cos[..n * pairs].to_vec(), (n, pairs), dev)?;
    let sin = Tensor::from_vec(op.sin[..n * pairs].to_vec(), (n, pairs), dev)?;
    let turned = |x: Tensor| {
        let rope = candle_nn::rotary_emb::rope_slow;
        if 2 * pairs == hd {
            return rope(&x, &cos, &sin);
        }
        // In a partial rotary embedding only the first `2 * pairs` elements of a head are rotated.
        let turning = x.narrow(3, 0, 2 * pairs)?.contiguous()?;
        let rest = x.narrow(3, 2 * pairs, hd - 2 * pairs)?;
        Tensor::cat(&[&rope(&turning, &cos, &sin)?, &rest], 3)
    };
    let q = turned(part(0, op.heads)?)?;
    let k = turned(part(op.heads, op.kv_heads)?)?;
    let scores = (q.matmul(&k.t()?)? * (1.0 / (hd as f64).sqrt()))?;
    let mask: Vec<f32> = (0..n * n)
        .map(|entry| {
            let (i, j) = (entry / n, entry % n);
            if j <= i && op.window.is_none_or(|window| i < j + window) {
                0.0
            } else {
                f32::NEG_INFINITY
            }
        })
        .collect();
    let mask = Tensor::from_vec(mask, (n, n), dev)?.to_dtype(DType::F32)?;
    // The mask adds minus infinity, so masked probabilities are exactly 0.
    let p = candle_nn::ops::softmax(&scores.broadcast_add(&mask)?, D::Minus1)?;
    p.matmul(&part(op.heads + op.kv_heads, op.kv_heads)?)?
        .transpose(1, 2)?
        .contiguous()?
        .reshape((rows, op.heads * hd))
}
