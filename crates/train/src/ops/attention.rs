use candle_core::{CpuStorage, CustomOp1, Error, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::math::{exp, lanes, larger};
use super::{floats, with_floats};

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
