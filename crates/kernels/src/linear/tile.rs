//! Register blocks of layers whose weights are float32, bfloat16 (also in pairs) or float16.

use std::mem::MaybeUninit;

use super::PANEL;
use super::format::Product;
use super::out::Out;
use crate::isa::Task;
use crate::parallel::TASK_ROWS;
use crate::simd::{LANES, Simd, prefetch};
use source::{KEEP, KEPT, LAYER};

/// Weights are prefetched this many bytes before they are used.
const AHEAD: usize = 6 << 10;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Words of inputs in a chunk. Every block of rows uses the weights of a chunk before the next chunk
/// begins: 24 KB as float32 or as pairs, which stay in the first-level cache.
const CHUNK: usize = 192;

/// The float32 weights of a chunk, for the blocks of rows after the one that widened them.
#[repr(align(64))]
struct Widened(MaybeUninit<[[f32; PANEL]; CHUNK]>);

/// The source of a block's weights.
mod source {
    /// The layer.
    pub(super) const LAYER: u8 = 0;
    /// The layer, and they are stored after they were widened.
    pub(super) const KEEP: u8 = 1;
    /// The chunk that another block has widened.
    pub(super) const KEPT: u8 = 2;
}

/// Some inputs of a panel, for a block of rows.
#[derive(Clone, Copy)]
struct Part {
    /// The first row of the block.
    first: usize,
    panel: usize,
    from: usize,
    to: usize,
    /// The number of the block of rows among the `turns` blocks that use this part. The blocks
    /// share the prefetching.
    turn: usize,
    turns: usize,
}

/// Some rows by some panels of a layer. `x` and `out` are all rows, `weights` the whole layer's.
pub(super) struct Tile<'a, W: Product> {
    /// Words of an input row: a word is an input, or a pair of them.
    pub(super) width: usize,
    pub(super) weights: &'a [W::Word],
    pub(super) x: &'a [W::Input],
    pub(super) out: Out<'a>,
    pub(super) rows: std::ops::Range<usize>,
    pub(super) panels: std::ops::Range<usize>,
}

impl<W: Product> Task for Tile<'_, W> {
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

impl<W: Product> Tile<'_, W> {
    /// The words of a chunk, see [`CHUNK`].
    const CHUNK: usize = CHUNK / W::STEPS;

    /// The first weights of a panel.
    #[inline(always)]
    pub(super) fn panel(&self, panel: usize) -> *const W::Word {
        let words = PANEL * self.width;
        self.weights[panel * words..][..words].as_ptr()
    }

    /// The first row of block `b`, if the task's rows are split into `blocks` equal blocks.
    #[inline(always)]
    fn cut(&self, b: usize, blocks: usize) -> usize {
        self.rows.start + b * self.rows.len() / blocks
    }

    /// Multiplies with 32 registers: up to 12 or 8 rows by 32 outputs ([`Product::ROWS`]). With few
    /// rows, several panels are multiplied at a time, so that independent sums hide the latency of
    /// multiply-adds.
    #[inline(always)]
    fn run_wide<S: Simd>(&self, s: S) {
        match self.rows.len() {
            1 => return self.few_rows::<S, 1, 8>(s),
            2 => return self.few_rows::<S, 2, 8>(s),
            3 => return self.few_rows::<S, 3, 4>(s),
            4 => return self.few_rows::<S, 4, 4>(s),
            5 => return self.few_rows::<S, 5, 4>(s),
            _ => {}
        }
        let blocks = self.rows.len().div_ceil(W::ROWS);
        // A single block reads all weights once, so chunks would only add stores of partial sums.
        let step = if blocks == 1 { self.width } else { Self::CHUNK };
        let mut widened = Widened(MaybeUninit::uninit());
        let mut partial = [[0.0; PANEL]; TASK_ROWS];
        for panel in self.panels.clone() {
            let mut from = 0;
            loop {
                let to = self.width.min(from + step);
                for b in 0..blocks {
                    // Even blocks: 16 rows are 8 and 8, not 12 and 4.
                    let (first, end) = (self.cut(b, blocks), self.cut(b + 1, blocks));
                    let part = Part {
                        first,
                        panel,
                        from,
                        to,
                        turn: b,
                        turns: blocks,
                    };
                    let partial = &mut partial[first - self.rows.start..end - self.rows.start];
                    match (W::WIDENS && blocks > 1, b) {
                        (false, _) => self.rows::<S, LAYER>(s, part, partial, &mut widened),
                        (true, 0) => self.rows::<S, KEEP>(s, part, partial, &mut widened),
                        (true, _) => self.rows::<S, KEPT>(s, part, partial, &mut widened),
                    }
                }
                if to == self.width {
                    break;
                }
                from = to;
            }
        }
    }

    /// Multiplies a block of rows by some inputs of a panel. `partial` holds the sums over the
    /// inputs before these, and receives the sums for the inputs after them.
    #[inline(always)]
    fn rows<S: Simd, const SOURCE: u8>(
        &self,
        s: S,
        part: Part,
        partial: &mut [[f32; PANEL]],
        widened: &mut Widened,
    ) {
        // The conditions are known to the compiler, which leaves out what cannot be.
        let most = W::ROWS;
        match partial.len() {
            4 if most < 12 => self.part::<S, 4, SOURCE>(s, part, partial, widened),
            5 if most < 12 => self.part::<S, 5, SOURCE>(s, part, partial, widened),
            6 => self.part::<S, 6, SOURCE>(s, part, partial, widened),
            7 => self.part::<S, 7, SOURCE>(s, part, partial, widened),
            8 => self.part::<S, 8, SOURCE>(s, part, partial, widened),
            9 if most > 8 => self.part::<S, 9, SOURCE>(s, part, partial, widened),
            10 if most > 8 => self.part::<S, 10, SOURCE>(s, part, partial, widened),
            11 if most > 8 => self.part::<S, 11, SOURCE>(s, part, partial, widened),
            12 if most > 8 => self.part::<S, 12, SOURCE>(s, part, partial, widened),
            rows => unreachable!("blocks of {rows} rows"),
        }
    }

    /// Multiplies `MR` rows: see [`rows`](Self::rows).
    #[inline(always)]
    fn part<S: Simd, const MR: usize, const SOURCE: u8>(
        &self,
        s: S,
        part: Part,
        partial: &mut [[f32; PANEL]],
        widened: &mut Widened,
    ) {
        let (width, first) = (self.width, part.first);
        let widened = widened.0.as_mut_ptr().cast::<f32>();
        let partial: &mut [[f32; PANEL]; MR] =
            partial.try_into().expect("a row of sums for each row");
        let mut sum = [[s.splat(0.0); 2]; MR];
        if part.from > 0 {
            for (sum, partial) in sum.iter_mut().zip(partial.iter()) {
                // SAFETY: 32 floats.
                unsafe {
                    *sum = [
                        s.load(partial.as_ptr()),
                        s.load(partial.as_ptr().add(LANES)),
                    ];
                };
            }
        }
        // SAFETY: rows `first..first + MR` are rows of this task, and the panel exists; it holds
        // `width * 32` weights. The part is at most a chunk where a source of weights is one, and
        // the block that keeps a chunk comes before those that read it.
        unsafe {
            let x = self.x.as_ptr().add(first * width);
            let w = self.weights.as_ptr().add(part.panel * PANEL * width);
            let bytes = PANEL * size_of::<W::Word>();
            // Each turn prefetches its share of the next chunk. A single block, which reads
            // everything once, prefetches weights that come a little later: between two loads are
            // many sums, and the hardware prefetcher does not look far enough ahead. The shares are
            // equal because a core can wait for only 16 cache lines at a time, and every miss of
            // the first-level cache needs one of these places. A line may be asked for twice, which
            // costs less than counting.
            let share = bytes.div_ceil(part.turns);
            let ahead = if part.turns == 1 {
                AHEAD / bytes
            } else {
                Self::CHUNK
            };
            let ahead = (part.from + ahead) * bytes + part.turn * share * (part.to - part.from);
            let mut ahead = w.cast::<u8>().wrapping_add(ahead);
            for k in part.from..part.to {
                prefetch(ahead);
                if share > LINE {
                    prefetch(ahead.wrapping_add(LINE));
                }
                ahead = ahead.wrapping_add(share);
                let w = w.add(k * PANEL);
                for step in 0..W::STEPS {
                    // Beyond the chunk if the layer is the source, and then not used.
                    let kept = ((k - part.from) * W::STEPS + step) * PANEL;
                    let kept = widened.wrapping_add(kept);
                    // Not by a closure: if it is not inlined, it lacks the tier's instructions.
                    let weights = if SOURCE == KEPT {
                        [s.load(kept), s.load(kept.add(LANES))]
                    } else {
                        [W::load(s, w, 0, step), W::load(s, w, 1, step)]
                    };
                    for (r, sum) in sum.iter_mut().enumerate() {
                        let x = W::splat(s, x.add(r * width + k), step);
                        for (sum, weight) in sum.iter_mut().zip(weights) {
                            *sum = W::multiply(s, x, weight, *sum);
                        }
                    }
                    if SOURCE == KEEP {
                        s.store(kept, weights[0]);
                        s.store(kept.add(LANES), weights[1]);
                    }
                }
            }
        }
        if part.to == width {
            // SAFETY: rows and panels of this task; tasks have different rows or different panels.
            unsafe { self.out.finish(s, sum, first, part.panel * PANEL) };
        } else {
            for (sum, partial) in sum.iter().zip(partial.iter_mut()) {
                // SAFETY: 32 floats.
                unsafe {
                    s.store(partial.as_mut_ptr(), sum[0]);
                    s.store(partial.as_mut_ptr().add(LANES), sum[1]);
                }
            }
        }
    }

    #[inline(always)]
    fn few_rows<S: Simd, const MR: usize, const NV: usize>(&self, s: S) {
        let mut panel = self.panels.start;
        while panel + NV / 2 <= self.panels.end {
            self.block::<S, MR, NV, 0>(s, self.rows.start, panel);
            panel += NV / 2;
        }
        while panel < self.panels.end {
            self.block::<S, MR, 2, 0>(s, self.rows.start, panel);
            panel += 1;
        }
    }

    /// Multiplies with 16 registers of half the width: up to 6 rows by 16 outputs.
    #[inline(always)]
    fn run_narrow<S: Simd>(&self, s: S) {
        for panel in self.panels.clone() {
            if self.rows.len() == 1 {
                self.block::<S, 1, 2, 0>(s, self.rows.start, panel);
            } else {
                self.half_panel::<S, 0>(s, panel);
                self.half_panel::<S, 1>(s, panel);
            }
        }
    }

    #[inline(always)]
    fn half_panel<S: Simd, const HALF: usize>(&self, s: S, panel: usize) {
        let blocks = self.rows.len().div_ceil(6);
        for b in 0..blocks {
            let (first, end) = (self.cut(b, blocks), self.cut(b + 1, blocks));
            match end - first {
                1 => self.block::<S, 1, 1, HALF>(s, first, panel),
                2 => self.block::<S, 2, 1, HALF>(s, first, panel),
                3 => self.block::<S, 3, 1, HALF>(s, first, panel),
                4 => self.block::<S, 4, 1, HALF>(s, first, panel),
                5 => self.block::<S, 5, 1, HALF>(s, first, panel),
                _ => self.block::<S, 6, 1, HALF>(s, first, panel),
            }
        }
    }

    /// Multiplies `MR` rows from `first` on by `NV` vectors of outputs, from vector `HALF` of
    /// `panel` on.
    #[inline(always)]
    fn block<S: Simd, const MR: usize, const NV: usize, const HALF: usize>(
        &self,
        s: S,
        first: usize,
        panel: usize,
    ) {
        let width = self.width;
        let mut sum = [[s.splat(0.0); NV]; MR];
        // SAFETY: rows `first..first + MR` are rows of this task, and the vectors are in panels of
        // this task, which exist; a panel holds `width * 32` weights.
        unsafe {
            let x = self.x.as_ptr().add(first * width);
            let w = self.weights.as_ptr().add(panel * PANEL * width);
            let bytes = PANEL * size_of::<W::Word>();
            for k in 0..width {
                // With several panels, the hardware prefetcher does not look far enough ahead. After
                // the last inputs of these panels come the first of the next panels.
                if S::WIDE {
                    let k = k + AHEAD / bytes;
                    let next = if k < width { 0 } else { NV / 2 - 1 };
                    for panel in 0..NV / 2 {
                        let at = ((next + panel) * width + k) * bytes;
                        let ahead = w.cast::<u8>().wrapping_add(at);
                        for line in (0..bytes).step_by(LINE) {
                            prefetch(ahead.wrapping_add(line));
                        }
                    }
                }
                for step in 0..W::STEPS {
                    let weights: [S::V; NV] = std::array::from_fn(|v| {
                        let (panel, half) = ((HALF + v) / 2, (HALF + v) % 2);
                        W::load(s, w.add((panel * width + k) * PANEL), half, step)
                    });
                    for (r, sum) in sum.iter_mut().enumerate() {
                        let x = W::splat(s, x.add(r * width + k), step);
                        for (sum, weight) in sum.iter_mut().zip(weights) {
                            *sum = W::multiply(s, x, weight, *sum);
                        }
                    }
                }
            }
        }
        // SAFETY: rows and panels of this task; tasks have different rows or different panels.
        unsafe {
            self.out.finish(s, sum, first, panel * PANEL + HALF * LANES);
        }
    }
}
