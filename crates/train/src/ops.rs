//! Fused training operations for the CPU, with gradients: candle's own compose the same things
//! from many full-size intermediates, and its fused inference ops have no backward pass. Every
//! operation has a composed twin (see [`composed`]), which other devices use and which the tests
//! hold these against.

// Index loops over fixed-size rows are what the compiler vectorises here.
#![allow(clippy::needless_range_loop)]

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, Error, Layout, Result, Shape, Storage, Tensor,
};
use rayon::prelude::*;

/// Defines a function whose body is compiled for, and run on, the best vector unit at hand. (A
/// closure handed to `pulp` would not be inlined into the vectorised caller.)
macro_rules! vectorised {
    ($(#[$doc:meta])* fn $name:ident<$a:lifetime $(, const $hd:ident: usize)?>($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block) => {
        $(#[$doc])*
        fn $name<$a $(, const $hd: usize)?>($($arg: $ty),*) -> $ret {
            struct Job<$a $(, const $hd: usize)?> { $($arg: $ty),* }
            impl<$a $(, const $hd: usize)?> pulp::WithSimd for Job<$a $(, $hd)?> {
                type Output = $ret;
                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, _: S) -> $ret {
                    let Self { $($arg),* } = self;
                    $body
                }
            }
            pulp::Arch::new().dispatch(Job { $($arg),* })
        }
    };
}

fn floats<'a>(s: &'a CpuStorage, l: &Layout) -> Result<&'a [f32]> {
    let (a, b) = l
        .contiguous_offsets()
        .ok_or_else(|| Error::Msg("a fused training op needs contiguous input".into()))?;
    Ok(&s.as_slice::<f32>()?[a..b])
}

/// Runs `f` on the tensor's values without copying them.
fn with_floats<R>(t: &Tensor, f: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    let (storage, layout) = t.storage_and_layout();
    match &*storage {
        Storage::Cpu(s) => f(floats(s, layout)?),
        _ => Err(Error::Msg("a fused training op runs on the CPU".into())),
    }
}

/// Rows handed to one task; fixed, so that sums over rows do not depend on the thread count.
const ROWS: usize = 64;

/// `y = x / rms(x) * w` over rows of width `w.len()`.
pub struct RmsNorm {
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
            let mut lanes = [0f32; 16];
            for ((g, w), x) in g.chunks(16).zip(w.chunks(16)).zip(x.chunks(16)) {
                for (((l, g), w), x) in lanes.iter_mut().zip(g).zip(w).zip(x) {
                    *l += g * w * x;
                }
            }
            for i in 0..d {
                gw[i] += g[i] * x[i] * r;
            }
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
        for p in partial {
            for (a, b) in gw.iter_mut().zip(p) {
                *a += b;
            }
        }
        (gx, gw)
    }
}

/// `silu(gate) * up` over rows `[gate | up]` of width `2 f`; result rows of width `f`.
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
                let s = sigmoid(gate[i]);
                gup[i] = g[i] * gate[i] * s;
                ggate[i] = g[i] * up[i] * (s + gate[i] * s * (1.0 - s));
            }
        }
    }
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Cephes-style polynomial `exp`, relative error below 3e-7; unlike the libm call it vectorises.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.0, 87.0);
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4_f32;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_6e-1;
    let p = p * r + 0.5;
    let e = p * r * r + r + 1.0;
    e * f32::from_bits(((n as i32 + 127) << 23) as u32)
}

/// Sixteen running values, so that a sum or a maximum over a row is taken by whole vectors.
#[inline(always)]
fn lanes(row: &[f32], start: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut acc = [start; 16];
    for c in row.chunks(16) {
        for (a, v) in acc.iter_mut().zip(c) {
            *a = f(*a, *v);
        }
    }
    acc.iter().copied().fold(start, &f)
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

vectorised! {
    /// `out = exp(row - max)`; returns the maximum and the sum.
    fn exponentials<'a>(out: &'a mut [f32], row: &'a [f32]) -> (f32, f32) {
        let max = lanes(row, f32::MIN, larger);
        for (o, z) in out.iter_mut().zip(row) {
            *o = exp(z - max);
        }
        (max, lanes(out, 0.0, |a, b| a + b))
    }
}

/// Weighted cross-entropy of logits `[rows, vocab]`: `sum_i weights[i] * -log softmax(row_i)[targets[i]]`.
pub struct CrossEntropy {
    pub targets: Vec<u32>,
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

/// Causal self-attention with rotary embedding: `[batch * time, 3 * heads * HD]` (q, k, v side by
/// side, before rotation) to `[batch * time, heads * HD]`.
#[derive(Clone)]
pub struct Attention {
    pub time: usize,
    pub heads: usize,
    pub head_dim: usize,
    /// `[time, head_dim / 2]` each.
    pub cos: std::sync::Arc<Vec<f32>>,
    pub sin: std::sync::Arc<Vec<f32>>,
}

impl Attention {
    fn unsupported(&self) -> Error {
        Error::Msg(format!(
            "fused attention has head sizes 16, 32 and 64, not {}",
            self.head_dim
        ))
    }
}

impl CustomOp1 for Attention {
    fn name(&self) -> &'static str {
        "train-attention"
    }

    fn cpu_fwd(&self, x: &CpuStorage, l: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = floats(x, l)?;
        let (rows, width) = l.shape().dims2()?;
        let d = width / 3;
        let mut y = vec![0f32; rows * d];
        match self.head_dim {
            16 => self.forward::<16>(x, &mut y),
            32 => self.forward::<32>(x, &mut y),
            64 => self.forward::<64>(x, &mut y),
            _ => return Err(self.unsupported()),
        }
        Ok((CpuStorage::F32(y), (rows, d).into()))
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let g = g.contiguous()?;
        let gx = with_floats(x, |x| {
            with_floats(&g, |g| {
                let mut gx = vec![0f32; x.len()];
                match self.head_dim {
                    16 => self.backward::<16>(x, g, &mut gx),
                    32 => self.backward::<32>(x, g, &mut gx),
                    64 => self.backward::<64>(x, g, &mut gx),
                    _ => return Err(self.unsupported()),
                }
                Ok(gx)
            })
        })?;
        Ok(Some(Tensor::from_vec(gx, x.shape(), x.device())?))
    }
}

/// One head's rotated q and k, its v, and the causal softmax `p` (`[time, time]`).
struct Head<const HD: usize> {
    q: Vec<[f32; HD]>,
    k: Vec<[f32; HD]>,
    v: Vec<[f32; HD]>,
    p: Vec<f32>,
    /// Scratch `[HD, time]`: k or v transposed, so that inner loops run along time.
    t: Vec<f32>,
}

impl<const HD: usize> Head<HD> {
    fn new(time: usize) -> Self {
        Self {
            q: vec![[0.0; HD]; time],
            k: vec![[0.0; HD]; time],
            v: vec![[0.0; HD]; time],
            p: vec![0.0; time * time],
            t: vec![0.0; time * HD],
        }
    }

    #[inline(always)]
    fn transpose(t: &mut [f32], rows: &[[f32; HD]]) {
        let n = rows.len();
        for (j, row) in rows.iter().enumerate() {
            for d in 0..HD {
                t[d * n + j] = row[d];
            }
        }
    }

    #[inline(always)]
    fn load(&mut self, op: &Attention, x: &[f32], head: usize) {
        let d = op.heads * HD;
        let half = HD / 2;
        for (i, row) in x.chunks_exact(3 * d).enumerate() {
            let at = head * HD;
            let (q, k, v) = (&row[at..], &row[d + at..], &row[2 * d + at..]);
            self.v[i].copy_from_slice(&v[..HD]);
            for j in 0..half {
                let (c, s) = (op.cos[i * half + j], op.sin[i * half + j]);
                self.q[i][j] = q[j] * c - q[j + half] * s;
                self.q[i][j + half] = q[j + half] * c + q[j] * s;
                self.k[i][j] = k[j] * c - k[j + half] * s;
                self.k[i][j + half] = k[j + half] * c + k[j] * s;
            }
        }
    }

    #[inline(always)]
    fn softmax(&mut self) {
        let n = self.q.len();
        let scale = 1.0 / (HD as f32).sqrt();
        Self::transpose(&mut self.t, &self.k);
        for i in 0..n {
            let row = &mut self.p[i * n..i * n + i + 1];
            row.fill(0.0);
            for d in 0..HD {
                let q = self.q[i][d] * scale;
                for (s, k) in row.iter_mut().zip(&self.t[d * n..]) {
                    *s += q * k;
                }
            }
            let max = lanes(row, f32::MIN, larger);
            for s in row.iter_mut() {
                *s = exp(*s - max);
            }
            let r = 1.0 / lanes(row, 0.0, |a, b| a + b);
            for s in row.iter_mut() {
                *s *= r;
            }
        }
    }
}

vectorised! {
    /// One sequence: `x` is `[time, 3 * heads * HD]`, `y` `[time, heads * HD]`.
    fn attend<'a, const HD: usize>(
        op: &'a Attention,
        head: &'a mut Head<HD>,
        x: &'a [f32],
        y: &'a mut [f32],
    ) -> () {
        let (n, d) = (op.time, op.heads * HD);
        for h in 0..op.heads {
            head.load(op, x, h);
            head.softmax();
            for i in 0..n {
                let mut acc = [0f32; HD];
                for (p, v) in head.p[i * n..=i * n + i].iter().zip(&head.v) {
                    for e in 0..HD {
                        acc[e] += p * v[e];
                    }
                }
                y[i * d + h * HD..][..HD].copy_from_slice(&acc);
            }
        }
    }
}

vectorised! {
    /// Gradient of [`attend`] for one sequence; `go` and `ds` are scratch of `time` entries.
    fn attend_backward<'a, const HD: usize>(
        op: &'a Attention,
        head: &'a mut Head<HD>,
        go: &'a mut [[f32; HD]],
        ds: &'a mut [f32],
        x: &'a [f32],
        g: &'a [f32],
        gx: &'a mut [f32],
    ) -> () {
        let (n, d) = (op.time, op.heads * HD);
        let scale = 1.0 / (HD as f32).sqrt();
        for h in 0..op.heads {
            head.load(op, x, h);
            head.softmax();
            for i in 0..n {
                go[i].copy_from_slice(&g[i * d + h * HD..][..HD]);
            }
            // gv[j] = sum_i p[i, j] go[i]
            for j in 0..n {
                let mut acc = [0f32; HD];
                for i in j..n {
                    let p = head.p[i * n + j];
                    for e in 0..HD {
                        acc[e] += p * go[i][e];
                    }
                }
                gx[j * 3 * d + 2 * d + h * HD..][..HD].copy_from_slice(&acc);
            }
            // p becomes the gradient of the scaled scores
            Head::<HD>::transpose(&mut head.t, &head.v);
            for i in 0..n {
                let ds = &mut ds[..=i];
                ds.fill(0.0);
                for e in 0..HD {
                    let o = go[i][e];
                    for (s, v) in ds.iter_mut().zip(&head.t[e * n..]) {
                        *s += o * v;
                    }
                }
                let p = &mut head.p[i * n..=i * n + i];
                let mut acc = [0f32; 16];
                for (p, s) in p.chunks(16).zip(ds.chunks(16)) {
                    for ((a, p), s) in acc.iter_mut().zip(p).zip(s) {
                        *a += p * s;
                    }
                }
                let dot: f32 = acc.iter().sum();
                for (p, s) in p.iter_mut().zip(ds.iter()) {
                    *p *= (s - dot) * scale;
                }
            }
            for i in 0..n {
                let mut acc = [0f32; HD];
                for (p, k) in head.p[i * n..=i * n + i].iter().zip(&head.k) {
                    for e in 0..HD {
                        acc[e] += p * k[e];
                    }
                }
                op.unrotate::<HD>(i, &acc, &mut gx[i * 3 * d + h * HD..][..HD]);
                let mut acc = [0f32; HD];
                for j in i..n {
                    let p = head.p[j * n + i];
                    for e in 0..HD {
                        acc[e] += p * head.q[j][e];
                    }
                }
                op.unrotate::<HD>(i, &acc, &mut gx[i * 3 * d + d + h * HD..][..HD]);
            }
        }
    }
}

impl Attention {
    fn forward<const HD: usize>(&self, x: &[f32], y: &mut [f32]) {
        let (n, d) = (self.time, self.heads * HD);
        y.par_chunks_mut(n * d)
            .zip(x.par_chunks(n * 3 * d))
            .for_each_init(
                || Head::<HD>::new(n),
                |head, (y, x)| attend(self, head, x, y),
            );
    }

    fn backward<const HD: usize>(&self, x: &[f32], g: &[f32], gx: &mut [f32]) {
        let (n, d) = (self.time, self.heads * HD);
        gx.par_chunks_mut(n * 3 * d)
            .zip(x.par_chunks(n * 3 * d))
            .zip(g.par_chunks(n * d))
            .for_each_init(
                || (Head::<HD>::new(n), vec![[0f32; HD]; n], vec![0f32; n]),
                |(head, go, ds), ((gx, x), g)| attend_backward(self, head, go, ds, x, g, gx),
            );
    }

    /// A rotation's gradient is the opposite rotation.
    #[inline(always)]
    fn unrotate<const HD: usize>(&self, i: usize, g: &[f32; HD], out: &mut [f32]) {
        let half = HD / 2;
        for j in 0..half {
            let (c, s) = (self.cos[i * half + j], self.sin[i * half + j]);
            out[j] = g[j] * c + g[j + half] * s;
            out[j + half] = g[j + half] * c - g[j] * s;
        }
    }
}

/// The same operations from candle's own tensors, for other devices and as the reference.
pub mod composed {
    use candle_core::{D, DType, Result, Tensor};

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

    pub fn attention(op: &super::Attention, x: &Tensor) -> Result<Tensor> {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};
    use rand::Rng;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    fn random(dims: &[usize], seed: u64) -> Var {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let n: usize = dims.iter().product();
        let data: Vec<f32> = (0..n).map(|_| rng.random_range(-1.5..1.5)).collect();
        Var::from_vec(data, dims, &Device::Cpu).unwrap()
    }

    fn close(a: &Tensor, b: &Tensor, what: &str) {
        let a: Vec<f32> = a.flatten_all().unwrap().to_vec1().unwrap();
        let b: Vec<f32> = b.flatten_all().unwrap().to_vec1().unwrap();
        let scale = b.iter().fold(1e-3f32, |m, x| m.max(x.abs()));
        for (i, (x, y)) in a.iter().zip(&b).enumerate() {
            assert!(
                (x - y).abs() <= 2e-5 * scale.max(1.0),
                "{what}[{i}]: {x} against {y}"
            );
        }
    }

    /// Values and gradients of the fused operation against the composed one, under a random
    /// linear functional of the result.
    fn same(vars: &[Var], fused: impl Fn() -> Result<Tensor>, plain: impl Fn() -> Result<Tensor>) {
        let (a, b) = (fused().unwrap(), plain().unwrap());
        close(&a, &b, "value");
        let dims = a.dims().to_vec();
        let probe = random(&dims, 99);
        let grads = |t: Tensor| {
            (t * probe.as_tensor())
                .unwrap()
                .sum_all()
                .unwrap()
                .backward()
                .unwrap()
        };
        let (ga, gb) = (grads(a), grads(b));
        for (i, v) in vars.iter().enumerate() {
            close(
                ga.get(v).unwrap(),
                gb.get(v).unwrap(),
                &format!("gradient {i}"),
            );
        }
    }

    #[test]
    fn rms_norm_equals_composed() {
        for (rows, d) in [(1, 1), (3, 7), (65, 33), (130, 64)] {
            let (x, w) = (random(&[rows, d], 1), random(&[d], 2));
            same(
                &[x.clone(), w.clone()],
                || x.apply_op2(&w, RmsNorm { eps: 1e-5 }),
                || composed::rms_norm(&x, &w, 1e-5),
            );
        }
    }

    #[test]
    fn swiglu_equals_composed() {
        for (rows, f) in [(1, 1), (3, 7), (65, 33)] {
            let x = random(&[rows, 2 * f], 3);
            same(
                std::slice::from_ref(&x),
                || x.apply_op1(SwiGlu),
                || composed::swiglu(&x),
            );
        }
    }

    #[test]
    fn cross_entropy_equals_composed() {
        let x = random(&[9, 37], 4);
        let targets: Vec<u32> = (0..9).map(|i| i * 4).collect();
        let weights: Vec<f32> = (0..9).map(|i| i as f32 * 0.25).collect();
        same(
            std::slice::from_ref(&x),
            || {
                x.apply_op1(CrossEntropy {
                    targets: targets.clone(),
                    weights: weights.clone(),
                })
            },
            || composed::cross_entropy(&x, &targets, &weights),
        );
    }

    #[test]
    fn attention_equals_composed() {
        for (batch, time, heads, head_dim) in
            [(1, 1, 1, 16), (2, 7, 3, 16), (3, 33, 2, 32), (1, 20, 1, 64)]
        {
            let half = head_dim / 2;
            let angle = |i: usize| (i / half) as f32 / 10f32.powf((i % half) as f32 / half as f32);
            let table = |f: fn(f32) -> f32| {
                std::sync::Arc::new((0..time * half).map(|i| f(angle(i))).collect())
            };
            let op = Attention {
                time,
                heads,
                head_dim,
                cos: table(f32::cos),
                sin: table(f32::sin),
            };
            let x = random(&[batch * time, 3 * heads * head_dim], 5);
            same(
                std::slice::from_ref(&x),
                || x.apply_op1(op.clone()),
                || composed::attention(&op, &x),
            );
        }
    }
}
