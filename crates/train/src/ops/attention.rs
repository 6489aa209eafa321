use candle_core::{CpuStorage, CustomOp1, Error, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::math::{exp, lanes, larger};
use super::{floats, with_floats};

/// Causal self-attention with rotary embedding. An input row holds the queries, keys and values of one token before
/// rotation: `[batch * time, (heads + 2 * kv_heads) * head_dim]`. The output is `[batch * time, heads * head_dim]`.
/// Each key-value head serves `heads / kv_heads` query heads.
#[derive(Clone)]
pub struct Attention {
    /// The number of tokens of a sequence; all sequences of a batch have the same number.
    pub time: usize,
    /// The number of query heads, a multiple of `kv_heads`.
    pub heads: usize,
    /// The number of key-value heads, a divisor of `heads`.
    pub kv_heads: usize,
    /// The width of a query, key or value vector of a head.
    pub head_dim: usize,
    /// The number of pairs that are rotated: element `j` of a head with element `j + pairs`. The elements from `2 *
    /// pairs` on are not rotated.
    pub pairs: usize,
    /// The number of positions that a row attends to, including its own (sliding window). `None` means all earlier
    /// positions.
    pub window: Option<usize>,
    /// The cosines of the rotary angles, in rows of time: `[time, pairs]`.
    pub cos: std::sync::Arc<Vec<f32>>,
    /// The sines of the rotary angles, in rows of time: `[time, pairs]`.
    pub sin: std::sync::Arc<Vec<f32>>,
}

/// Calls the method that is compiled for the head size, since a constant width lets the compiler unroll loops.
macro_rules! by_head_size {
    ($self:ident . $method:ident ( $($arg:expr),* )) => {
        match $self.head_dim {
            16 => $self.$method::<16>($($arg),*),
            32 => $self.$method::<32>($($arg),*),
            64 => $self.$method::<64>($($arg),*),
            80 => $self.$method::<80>($($arg),*),
            96 => $self.$method::<96>($($arg),*),
            128 => $self.$method::<128>($($arg),*),
            other => return Err(Error::Msg(format!("unsupported head size {other} in fused attention"))),
        }
    };
}

impl Attention {
    /// Returns whether `head_dim` is one of the sizes that the fused operation is compiled for.
    pub fn is_fused(&self) -> bool {
        [16, 32, 64, 80, 96, 128].contains(&self.head_dim)
    }

    fn width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// The first position that row `i` attends to.
    #[inline(always)]
    fn from(&self, i: usize) -> usize {
        self.window
            .map_or(0, |window| (i + 1).saturating_sub(window))
    }
}

impl CustomOp1 for Attention {
    fn name(&self) -> &'static str {
        "train-attention"
    }

    fn cpu_fwd(&self, x: &CpuStorage, l: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = floats(x, l)?;
        let rows = l.shape().dims2()?.0;
        let d = self.heads * self.head_dim;
        let mut y = vec![0f32; rows * d];
        by_head_size!(self.forward(x, &mut y));
        Ok((CpuStorage::F32(y), (rows, d).into()))
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let g = g.contiguous()?;
        let gx = with_floats(x, |x| {
            with_floats(&g, |g| {
                let mut gx = vec![0f32; x.len()];
                by_head_size!(self.backward(x, g, &mut gx));
                Ok(gx)
            })
        })?;
        Ok(Some(Tensor::from_vec(gx, x.shape(), x.device())?))
    }
}

/// Working memory for one head of one sequence: rotated queries and keys, values, and the causal softmax `p` of shape
/// `[time, time]`.
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
        let (d, kv) = (op.heads * HD, op.kv_heads * HD);
        let half = op.pairs;
        let shared = head / (op.heads / op.kv_heads);
        for (i, row) in x.chunks_exact(d + 2 * kv).enumerate() {
            let at = d + shared * HD;
            // A row is [q heads | k heads | v heads].
            let (q, k, v) = (&row[head * HD..], &row[at..], &row[at + kv..]);
            self.v[i].copy_from_slice(&v[..HD]);
            self.q[i][2 * half..].copy_from_slice(&q[2 * half..HD]);
            self.k[i][2 * half..].copy_from_slice(&k[2 * half..HD]);
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
    fn softmax(&mut self, op: &Attention) {
        let n = self.q.len();
        let scale = 1.0 / (HD as f32).sqrt();
        Self::transpose(&mut self.t, &self.k);
        for i in 0..n {
            let from = op.from(i);
            // Only entries inside the causal window are used; all other entries of `p` are from earlier heads.
            let row = &mut self.p[i * n + from..i * n + i + 1];
            row.fill(0.0);
            for d in 0..HD {
                let q = self.q[i][d] * scale;
                for (s, k) in row.iter_mut().zip(&self.t[d * n + from..]) {
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
    /// Computes attention within one sequence, from `x: [time, (heads + 2 * kv_heads) * HD]` to `y: [time, heads *
    /// HD]`.
    fn attend<'a, const HD: usize>(
        op: &'a Attention,
        head: &'a mut Head<HD>,
        x: &'a [f32],
        y: &'a mut [f32],
    ) -> () {
        let (n, d) = (op.time, op.heads * HD);
        for h in 0..op.heads {
            head.load(op, x, h);
            head.softmax(op);
            for i in 0..n {
                let from = op.from(i);
                let mut acc = [0f32; HD];
                for (p, v) in head.p[i * n + from..=i * n + i].iter().zip(&head.v[from..]) {
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
    /// Adds the gradient of [`attend`] for one sequence to `gx`, given the gradient `g` of the output. `go` and `ds`
    /// are scratch memory of `time` entries.
    fn attend_backward<'a, const HD: usize>(
        op: &'a Attention,
        head: &'a mut Head<HD>,
        go: &'a mut [[f32; HD]],
        ds: &'a mut [f32],
        x: &'a [f32],
        g: &'a [f32],
        gx: &'a mut [f32],
    ) -> () {
        let (n, d, kv) = (op.time, op.heads * HD, op.kv_heads * HD);
        let width = d + 2 * kv;
        let scale = 1.0 / (HD as f32).sqrt();
        for h in 0..op.heads {
            // Rotation and softmax are computed again here. Saving them in the forward pass would take `heads *
            // time^2` floats per sequence.
            head.load(op, x, h);
            head.softmax(op);
            let shared = d + h / (op.heads / op.kv_heads) * HD;
            for i in 0..n {
                go[i].copy_from_slice(&g[i * d + h * HD..][..HD]);
            }
            // gv[j] = sum_i p[i, j] go[i]
            for j in 0..n {
                let end = op.window.map_or(n, |window| n.min(j + window));
                let mut acc = [0f32; HD];
                for i in j..end {
                    let p = head.p[i * n + j];
                    for e in 0..HD {
                        acc[e] += p * go[i][e];
                    }
                }
                add(&mut gx[j * width + shared + kv..], &acc);
            }
            // p becomes the gradient of the scaled scores
            Head::<HD>::transpose(&mut head.t, &head.v);
            for i in 0..n {
                let from = op.from(i);
                let ds = &mut ds[..=i - from];
                ds.fill(0.0);
                for e in 0..HD {
                    let o = go[i][e];
                    for (s, v) in ds.iter_mut().zip(&head.t[e * n + from..]) {
                        *s += o * v;
                    }
                }
                // The gradient of a softmax: dscore = p * (dp - sum(p * dp)).
                let p = &mut head.p[i * n + from..=i * n + i];
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
                let from = op.from(i);
                let mut acc = [0f32; HD];
                for (p, k) in head.p[i * n + from..=i * n + i].iter().zip(&head.k[from..]) {
                    for e in 0..HD {
                        acc[e] += p * k[e];
                    }
                }
                op.unrotate::<HD>(i, &mut acc);
                add(&mut gx[i * width + h * HD..], &acc);
                // The queries from `i` to the end of the window read key `i`.
                let end = op.window.map_or(n, |window| n.min(i + window));
                let mut acc = [0f32; HD];
                for j in i..end {
                    let p = head.p[j * n + i];
                    for e in 0..HD {
                        acc[e] += p * head.q[j][e];
                    }
                }
                op.unrotate::<HD>(i, &mut acc);
                add(&mut gx[i * width + shared..], &acc);
            }
        }
    }
}

/// Adds `what` to the start of `to`, since the query heads of a key-value head each contribute a gradient.
#[inline(always)]
fn add<const HD: usize>(to: &mut [f32], what: &[f32; HD]) {
    for (to, what) in to.iter_mut().zip(what) {
        *to += what;
    }
}

impl Attention {
    fn forward<const HD: usize>(&self, x: &[f32], y: &mut [f32]) {
        let (n, d) = (self.time, self.heads * HD);
        y.par_chunks_mut(n * d)
            .zip(x.par_chunks(n * self.width()))
            .for_each_init(
                || Head::<HD>::new(n),
                |head, (y, x)| attend(self, head, x, y),
            );
    }

    fn backward<const HD: usize>(&self, x: &[f32], g: &[f32], gx: &mut [f32]) {
        let (n, d) = (self.time, self.heads * HD);
        gx.par_chunks_mut(n * self.width())
            .zip(x.par_chunks(n * self.width()))
            .zip(g.par_chunks(n * d))
            .for_each_init(
                || (Head::<HD>::new(n), vec![[0f32; HD]; n], vec![0f32; n]),
                |(head, go, ds), ((gx, x), g)| attend_backward(self, head, go, ds, x, g, gx),
            );
    }

    /// Turns the gradient of a rotated vector into that of the unrotated one, by the opposite rotation (the
    /// transpose).
    #[inline(always)]
    fn unrotate<const HD: usize>(&self, i: usize, g: &mut [f32; HD]) {
        let half = self.pairs;
        for j in 0..half {
            let (c, s) = (self.cos[i * half + j], self.sin[i * half + j]);
            let (a, b) = (g[j], g[j + half]);
            g[j] = a * c + b * s;
            g[j + half] = b * c - a * s;
        }
    }
}
