//! Writes finished sums: adds the bias, applies the epilogue, and stops at the last output.

use super::Epilogue;
use crate::parallel::SharedOut;
use crate::simd::{LANES, Simd};

/// The outputs of some rows of a layer.
#[derive(Clone, Copy)]
pub(super) struct Out<'a> {
    /// `[rows, outputs]`. Tasks write different rows or different panels of it.
    pub(super) y: SharedOut,
    pub(super) rows: usize,
    pub(super) outputs: usize,
    /// The layer's bias, padded to whole panels.
    pub(super) bias: Option<&'a [f32]>,
    pub(super) epilogue: Epilogue,
}

impl Out<'_> {
    /// Finishes a block of `MR` rows from `row` on, by `NV` vectors of outputs from output `n` on:
    /// adds the bias and applies the epilogue. Sums beyond the last output are dropped.
    ///
    /// # Safety
    /// The rows must be rows of `y`, and nothing else may use these outputs at the same time. The
    /// vectors must be in the layer's panels.
    #[inline(always)]
    pub(super) unsafe fn finish<S: Simd, const MR: usize, const NV: usize>(
        &self,
        s: S,
        sum: [[S::V; NV]; MR],
        row: usize,
        n: usize,
    ) {
        // The sums leave the registers here, with constant indices only. An array with a variable
        // index would be in memory, and the caller's loop would write to it in every turn.
        let mut done = [[[0.0f32; LANES]; NV]; MR];
        for (done, sum) in done.iter_mut().zip(sum) {
            for (done, sum) in done.iter_mut().zip(sum) {
                *done = s.to_array(sum);
            }
        }
        for (r, done) in done.iter().enumerate() {
            for (v, done) in done.iter().enumerate() {
                let n = n + v * LANES;
                if n < self.outputs {
                    // SAFETY: the caller's promise.
                    unsafe { self.vector(s, s.vector(*done), row + r, n) };
                }
            }
        }
    }

    /// Finishes the outputs `n..n + 16` of a row, or fewer at the end of the row.
    ///
    /// # Safety
    /// The conditions of `finish` must hold, and `n` must be less than the number of outputs.
    #[inline(always)]
    unsafe fn vector<S: Simd>(&self, s: S, mut value: S::V, row: usize, n: usize) {
        let outputs = self.outputs;
        let width = LANES.min(outputs - n);
        // SAFETY: outputs `n..n + width` of a row of the caller's; the bias is padded to whole
        // panels.
        unsafe {
            if let Some(bias) = self.bias {
                value = s.add(value, s.load(bias.as_ptr().add(n)));
            }
            let y = self.y.get().add(row * outputs + n);
            if self.epilogue == Epilogue::Add {
                value = s.add(s.load_first(y, width, 0.0), value);
            }
            s.store_first(y, value, width);
        }
    }
}
