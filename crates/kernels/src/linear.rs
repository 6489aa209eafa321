//! `y = x Wᵀ + b`, with the weights packed once for the register block.

use rayon::prelude::*;

use crate::Cpu;
use crate::buffer::AlignedBuf;
use crate::isa::Task;
use crate::parallel::SharedOut;
use crate::simd::{LANES, Simd};

/// Outputs of a panel: two AVX-512 registers.
const PANEL: usize = 32;

/// Most rows of a task: few enough that their inputs stay
/// in the second-level cache while the panels pass by.
const TASK_ROWS: usize = 96;

/// Weights `[N, K]` of a linear layer as panels `[N/32][K][32]`, the last panel filled up with
/// zeros, and an optional bias `[N]`.
///
/// Every output is a sum over `k = 0..K` in that order, one fused multiply-add after the other
/// (where the machine has it), then the bias: the same for every number of rows.
pub struct PackedLinear {
    inputs: usize,
    outputs: usize,
    panels: AlignedBuf,
    bias: Option<AlignedBuf>,
}

/// What happens to a finished output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epilogue {
    /// It replaces what was in `y`.
    Store,
    /// It is added to what was in `y` (the residual).
    Add,
}

impl std::fmt::Debug for PackedLinear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackedLinear")
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .field("bias", &self.bias.is_some())
            .finish()
    }
}

impl PackedLinear {
    /// Packs `outputs` rows of `inputs` weights; `row(n, buffer)` writes row `n`.
    /// Uses rayon's current pool when there is much to pack.
    #[must_use]
    pub fn pack(inputs: usize, outputs: usize, row: impl Fn(usize, &mut [f32]) + Sync) -> Self {
        let mut panels = AlignedBuf::zeroed(outputs.div_ceil(PANEL) * PANEL * inputs);
        let pack_panel = |buffer: &mut Vec<f32>, (p, panel): (usize, &mut [f32])| {
            buffer.resize(inputs, 0.0);
            for n in 0..PANEL.min(outputs - p * PANEL) {
                row(p * PANEL + n, buffer);
                for (k, w) in buffer.iter().enumerate() {
                    panel[k * PANEL + n] = *w;
                }
            }
        };
        if inputs * outputs > 1 << 20 {
            panels
                .par_chunks_mut((PANEL * inputs).max(1))
                .enumerate()
                .for_each_init(Vec::new, pack_panel);
        } else {
            let mut buffer = Vec::new();
            for panel in panels.chunks_mut((PANEL * inputs).max(1)).enumerate() {
                pack_panel(&mut buffer, panel);
            }
        }
        Self {
            inputs,
            outputs,
            panels,
            bias: None,
        }
    }

    /// Packs row-major `weight: [outputs, inputs]`.
    ///
    /// # Panics
    /// If the length is not `outputs * inputs`.
    #[must_use]
    pub fn from_rows(weight: &[f32], inputs: usize, outputs: usize) -> Self {
        assert_eq!(weight.len(), inputs * outputs);
        Self::pack(inputs, outputs, |n, row| {
            row.copy_from_slice(&weight[n * inputs..][..inputs])
        })
    }

    /// The same layer with a bias.
    ///
    /// # Panics
    /// If there is not one value an output.
    #[must_use]
    pub fn with_bias(mut self, bias: &[f32]) -> Self {
        assert_eq!(bias.len(), self.outputs);
        let mut padded = AlignedBuf::zeroed(self.outputs.div_ceil(PANEL) * PANEL);
        padded[..bias.len()].copy_from_slice(bias);
        self.bias = Some(padded);
        self
    }

    /// Values of an input row, `K`.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Values of an output row, `N`.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Bytes of the packed form.
    #[must_use]
    pub fn bytes(&self) -> usize {
        4 * (self.panels.len() + self.bias.as_ref().map_or(0, |b| b.len()))
    }

    /// The weights of output `n`, unpacked (an embedding row, where the head is tied to it).
    ///
    /// # Panics
    /// If `n` is not an output or `row` is not `inputs` long.
    pub fn weight_row(&self, n: usize, row: &mut [f32]) {
        assert!(n < self.outputs && row.len() == self.inputs);
        let panel = &self.panels[n / PANEL * PANEL * self.inputs..][..PANEL * self.inputs];
        for (w, k) in row.iter_mut().zip(panel.chunks_exact(PANEL)) {
            *w = k[n % PANEL];
        }
    }

    /// `x: [M, inputs]` to `y: [M, outputs]`, both row-major without gaps.
    ///
    /// # Panics
    /// If the lengths disagree.
    pub fn forward(&self, cpu: Cpu, x: &[f32], y: &mut [f32], epilogue: Epilogue) {
        if self.outputs == 0 || y.is_empty() {
            assert!(y.is_empty());
            return;
        }
        assert!(y.len().is_multiple_of(self.outputs));
        let rows = y.len() / self.outputs;
        assert_eq!(x.len(), rows * self.inputs);

        let panels = self.outputs.div_ceil(PANEL);
        let work = 2 * (rows * self.inputs * self.outputs) as u64;
        let threads = cpu.parallel.threads_for(work);
        let row_tasks = rows.div_ceil(TASK_ROWS);
        // Four tasks a thread leave room for a thread that is late.
        let panel_tasks = if threads == 1 {
            1
        } else {
            (4 * threads).div_ceil(row_tasks).min(panels)
        };
        let out = SharedOut::new(y);
        cpu.parallel
            .for_each(row_tasks * panel_tasks, work, |task| {
                let (r, p) = (task / panel_tasks, task % panel_tasks);
                let (first_row, end_row) = (r * rows / row_tasks, (r + 1) * rows / row_tasks);
                let first_panel = p * panels / panel_tasks;
                let last_panel = (p + 1) * panels / panel_tasks;
                cpu.isa.run(Tile {
                    layer: self,
                    // SAFETY: the row is inside `x`, whose length was checked.
                    x: unsafe { x.as_ptr().add(first_row * self.inputs) },
                    // SAFETY: likewise inside `y`. Tasks have different rows or different panels, so
                    // their outputs are disjoint.
                    y: unsafe { out.get().add(first_row * self.outputs) },
                    rows: end_row - first_row,
                    panels: first_panel..last_panel,
                    epilogue,
                });
            });
    }
}

struct Tile<'a> {
    layer: &'a PackedLinear,
    x: *const f32,
    y: *mut f32,
    rows: usize,
    panels: std::ops::Range<usize>,
    epilogue: Epilogue,
}

impl Task for Tile<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if S::WIDE {
            self.run_wide(s);
        } else {
            self.run_narrow(s);
        }
    }
}

impl Tile<'_> {
    /// 32 registers: up to 12 rows by 32 outputs. With few rows more panels at a time, so that
    /// enough independent sums hide the latency of the multiply-add.
    #[inline(always)]
    fn run_wide<S: Simd>(&self, s: S) {
        match self.rows {
            1 => return self.few_rows::<S, 1, 8>(s),
            2 => return self.few_rows::<S, 2, 8>(s),
            3 => return self.few_rows::<S, 3, 4>(s),
            4 => return self.few_rows::<S, 4, 4>(s),
            5 => return self.few_rows::<S, 5, 4>(s),
            _ => {}
        }
        let blocks = self.rows.div_ceil(12);
        for panel in self.panels.clone() {
            for b in 0..blocks {
                // Even blocks: 16 rows are 8 and 8, not 12 and 4.
                let (first, end) = (b * self.rows / blocks, (b + 1) * self.rows / blocks);
                match end - first {
                    6 => self.block::<S, 6, 2>(s, first, panel, 0),
                    7 => self.block::<S, 7, 2>(s, first, panel, 0),
                    8 => self.block::<S, 8, 2>(s, first, panel, 0),
                    9 => self.block::<S, 9, 2>(s, first, panel, 0),
                    10 => self.block::<S, 10, 2>(s, first, panel, 0),
                    11 => self.block::<S, 11, 2>(s, first, panel, 0),
                    _ => self.block::<S, 12, 2>(s, first, panel, 0),
                }
            }
        }
    }

    #[inline(always)]
    fn few_rows<S: Simd, const MR: usize, const NV: usize>(&self, s: S) {
        let mut panel = self.panels.start;
        while panel + NV / 2 <= self.panels.end {
            self.block::<S, MR, NV>(s, 0, panel, 0);
            panel += NV / 2;
        }
        while panel < self.panels.end {
            self.block::<S, MR, 2>(s, 0, panel, 0);
            panel += 1;
        }
    }

    /// 16 registers of half the width: up to 6 rows by 16 outputs.
    #[inline(always)]
    fn run_narrow<S: Simd>(&self, s: S) {
        let blocks = self.rows.div_ceil(6);
        for panel in self.panels.clone() {
            if self.rows == 1 {
                self.block::<S, 1, 2>(s, 0, panel, 0);
                continue;
            }
            for half in 0..2 {
                for b in 0..blocks {
                    let (first, end) = (b * self.rows / blocks, (b + 1) * self.rows / blocks);
                    match end - first {
                        1 => self.block::<S, 1, 1>(s, first, panel, half),
                        2 => self.block::<S, 2, 1>(s, first, panel, half),
                        3 => self.block::<S, 3, 1>(s, first, panel, half),
                        4 => self.block::<S, 4, 1>(s, first, panel, half),
                        5 => self.block::<S, 5, 1>(s, first, panel, half),
                        _ => self.block::<S, 6, 1>(s, first, panel, half),
                    }
                }
            }
        }
    }

    /// `MR` rows from `first` by `NV` vectors of outputs from vector `half` of `panel` on.
    #[inline(always)]
    fn block<S: Simd, const MR: usize, const NV: usize>(
        &self,
        s: S,
        first: usize,
        panel: usize,
        half: usize,
    ) {
        let (inputs, outputs) = (self.layer.inputs, self.layer.outputs);
        let mut sum = [[s.splat(0.0); NV]; MR];
        // SAFETY: rows `first..first + MR` are rows of this task, and the vectors lie in panels
        // of this task, which exist; a panel holds `inputs * 32` floats.
        unsafe {
            let x = self.x.add(first * inputs);
            let w = self
                .layer
                .panels
                .as_ptr()
                .add(panel * PANEL * inputs + half * LANES);
            for k in 0..inputs {
                let mut weights = [s.splat(0.0); NV];
                for (v, weight) in weights.iter_mut().enumerate() {
                    let column = v / 2 * PANEL * inputs + v % 2 * LANES;
                    *weight = s.load(w.add(column + k * PANEL));
                }
                for (r, sum) in sum.iter_mut().enumerate() {
                    let x = s.splat(*x.add(r * inputs + k));
                    for (sum, weight) in sum.iter_mut().zip(weights) {
                        *sum = s.fma(x, weight, *sum);
                    }
                }
            }
        }
        // The sums leave the registers here, by constant indices only: an array that is indexed
        // by a variable is kept in memory, and stored to in every turn of the loop above.
        let mut done = [[[0.0f32; LANES]; NV]; MR];
        for (done, sum) in done.iter_mut().zip(sum) {
            for (done, sum) in done.iter_mut().zip(sum) {
                *done = s.to_array(sum);
            }
        }
        for (r, done) in done.iter().enumerate() {
            for (v, done) in done.iter().enumerate() {
                let n = panel * PANEL + (half + v) * LANES;
                if n < outputs {
                    // SAFETY: the row is a row of this task.
                    unsafe { self.finish(s, s.vector(*done), first + r, n) };
                }
            }
        }
    }

    /// Bias and epilogue of outputs `n..n + 16` of a row, or of fewer at the end.
    ///
    /// # Safety
    /// `row` must be a row of this task and `n` less than the outputs.
    #[inline(always)]
    unsafe fn finish<S: Simd>(&self, s: S, mut value: S::V, row: usize, n: usize) {
        let outputs = self.layer.outputs;
        let width = LANES.min(outputs - n);
        // SAFETY: outputs `n..n + width` of a row of this task; the bias is padded to whole
        // panels.
        unsafe {
            if let Some(bias) = &self.layer.bias {
                value = s.add(value, s.load(bias.as_ptr().add(n)));
            }
            let y = self.y.add(row * outputs + n);
            if width == LANES {
                if self.epilogue == Epilogue::Add {
                    value = s.add(s.load(y), value);
                }
                s.store(y, value);
            } else {
                if self.epilogue == Epilogue::Add {
                    value = s.add(s.load_part(y, width, 0.0), value);
                }
                s.store_part(y, value, width);
            }
        }
    }
}

/// One row in float64 with row-major weights. Tolerance of the fast one: 1e-6 times the root of
/// `inputs`.
#[must_use]
pub fn linear_reference(x: &[f32], weight: &[f32], bias: Option<&[f32]>) -> Vec<f64> {
    weight
        .chunks_exact(x.len())
        .enumerate()
        .map(|(n, w)| {
            let dot: f64 = x
                .iter()
                .zip(w)
                .map(|(x, w)| f64::from(*x) * f64::from(*w))
                .sum();
            dot + bias.map_or(0.0, |b| f64::from(b[n]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SIZES, assert_close, assert_same_bits, cpus, noise};
    use crate::{Isa, IsaLevel, ThreadPool};

    #[test]
    fn equals_the_reference() {
        for cpu in cpus() {
            for inputs in [1, 2, 7, 33, 129] {
                for outputs in SIZES {
                    let weight = noise(inputs * outputs, 9);
                    let bias = noise(outputs, 10);
                    let layer = PackedLinear::from_rows(&weight, inputs, outputs).with_bias(&bias);
                    for rows in [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 37, 97] {
                        let x = noise(rows * inputs, 11);
                        let mut y = vec![f32::NAN; rows * outputs];
                        layer.forward(cpu, &x, &mut y, Epilogue::Store);
                        for r in 0..rows {
                            let want =
                                linear_reference(&x[r * inputs..][..inputs], &weight, Some(&bias));
                            let tolerance = 1e-6 * (inputs as f64).sqrt();
                            assert_close(&y[r * outputs..][..outputs], &want, tolerance);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_in_any_company() {
        let (inputs, outputs) = (137, 203);
        let layer = PackedLinear::from_rows(&noise(inputs * outputs, 12), inputs, outputs);
        let x = noise(230 * inputs, 13);
        for cpu in cpus() {
            let mut alone = vec![0.0; 230 * outputs];
            for r in 0..230 {
                let y = &mut alone[r * outputs..][..outputs];
                layer.forward(cpu, &x[r * inputs..][..inputs], y, Epilogue::Store);
            }
            for rows in (1..40).chain([96, 97, 108, 230]) {
                let mut y = vec![0.0; rows * outputs];
                layer.forward(cpu, &x[..rows * inputs], &mut y, Epilogue::Store);
                assert_same_bits(&y, &alone[..rows * outputs]);
            }
        }
    }

    #[test]
    fn threads_change_nothing() {
        let (inputs, outputs, rows) = (192, 515, 200);
        let layer = PackedLinear::from_rows(&noise(inputs * outputs, 14), inputs, outputs);
        let x = noise(rows * inputs, 15);
        let isa = Isa::detect();
        let mut serial = vec![0.0; rows * outputs];
        layer.forward(Cpu::serial(), &x, &mut serial, Epilogue::Store);
        for threads in [2, 3, 8] {
            let mut y = vec![0.0; rows * outputs];
            ThreadPool::new(threads).run(u64::MAX, |parallel| {
                layer.forward(Cpu { isa, parallel }, &x, &mut y, Epilogue::Store);
            });
            assert_same_bits(&y, &serial);
        }
    }

    #[test]
    fn tiers_with_fma_agree_bitwise() {
        let fused = |c: &Cpu| c.isa.level() != IsaLevel::Portable || cfg!(target_arch = "aarch64");
        let layer = PackedLinear::from_rows(&noise(71 * 45, 16), 71, 45);
        let x = noise(7 * 71, 17);
        let results: Vec<Vec<f32>> = cpus()
            .into_iter()
            .filter(fused)
            .map(|cpu| {
                let mut y = vec![0.0; 7 * 45];
                layer.forward(cpu, &x, &mut y, Epilogue::Store);
                y
            })
            .collect();
        for pair in results.windows(2) {
            assert_same_bits(&pair[0], &pair[1]);
        }
    }

    #[test]
    fn adds_to_the_residual() {
        for cpu in cpus() {
            for outputs in [5, 32, 40] {
                let layer = PackedLinear::from_rows(&noise(9 * outputs, 18), 9, outputs)
                    .with_bias(&noise(outputs, 20));
                let x = noise(4 * 9, 19);
                let mut plain = vec![0.0; 4 * outputs];
                layer.forward(cpu, &x, &mut plain, Epilogue::Store);
                let residual = noise(4 * outputs, 21);
                let mut y = residual.clone();
                layer.forward(cpu, &x, &mut y, Epilogue::Add);
                let want: Vec<f32> = residual.iter().zip(&plain).map(|(a, b)| a + b).collect();
                assert_same_bits(&y, &want);
            }
        }
    }

    #[test]
    fn gives_its_weights_back() {
        for (inputs, outputs) in [(1, 1), (7, 33), (1100, 1000)] {
            let weight = noise(inputs * outputs, 22);
            let layer = PackedLinear::from_rows(&weight, inputs, outputs);
            let mut row = vec![0.0; inputs];
            for n in 0..outputs {
                layer.weight_row(n, &mut row);
                assert_same_bits(&row, &weight[n * inputs..][..inputs]);
            }
        }
    }

    #[test]
    fn no_rows_and_no_outputs_are_fine() {
        let layer = PackedLinear::from_rows(&[1.0, 2.0], 1, 2);
        layer.forward(Cpu::serial(), &[], &mut [], Epilogue::Store);
        let none = PackedLinear::from_rows(&[], 3, 0);
        none.forward(Cpu::serial(), &[1.0; 3], &mut [], Epilogue::Store);
    }
}
