//! The same operations from candle's own tensors, for other devices and as the reference.

use candle_core::{D, DType, Result, Tensor};

use super::Attention;

pub fn rms_norm(x: &Tensor, w: &Tensor, eps: f32) -> Result<Tensor> {
    let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
    x.broadcast_div(&(mean + f64::from(eps))?.sqrt()?)?
        .broadcast_mul(w)
}

pub fn swiglu(x: &Tensor) -> Result<Tensor> {
    let f = x.dim(D::Minus1)? / 2;
    x.narrow(D::Minus1, 0, f)?.silu()? * x.narrow(D::Minus1, f, f)?
}

pub fn cross_entropy(logits: &Tensor, targets: &[u32], weights: &[f32]) -> Result<Tensor> {
    let dev = logits.device();
    let logp = candle_nn::ops::log_softmax(logits, D::Minus1)?;
    let t = Tensor::new(targets, dev)?.unsqueeze(1)?;
    let w = Tensor::new(weights, dev)?;
    (logp.gather(&t, 1)?.squeeze(1)? * w)?.sum_all()?.neg()
}

pub fn attention(op: &Attention, x: &Tensor) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    let (n, h, hd) = (op.time, op.heads, op.head_dim);
    let dev = x.device();
    let part = |i: usize| {
        x.narrow(1, i * width / 3, width / 3)?
            .reshape((rows / n, n, h, hd))?
            .transpose(1, 2)?
            .contiguous()
    };
    let cos = Tensor::from_vec(op.cos[..n * hd / 2].to_vec(), (n, hd / 2), dev)?;
    let sin = Tensor::from_vec(op.sin[..n * hd / 2].to_vec(), (n, hd / 2), dev)?;
    let q = candle_nn::rotary_emb::rope_slow(&part(0)?, &cos, &sin)?;
    let k = candle_nn::rotary_emb::rope_slow(&part(1)?, &cos, &sin)?;
    let scores = (q.matmul(&k.t()?)? * (1.0 / (hd as f64).sqrt()))?;
    let mask: Vec<f32> = (0..n * n)
        .map(|i| {
            if i % n > i / n {
                f32::NEG_INFINITY
            } else {
                0.0
            }
        })
        .collect();
    let mask = Tensor::from_vec(mask, (n, n), dev)?.to_dtype(DType::F32)?;
    let p = candle_nn::ops::softmax(&scores.broadcast_add(&mask)?, D::Minus1)?;
    p.matmul(&part(2)?)?
        .transpose(1, 2)?
        .contiguous()?
        .reshape((rows, width / 3))
}
