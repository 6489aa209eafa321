//! Runs the first passes of an engine on a device, to test the device before a search depends on
//! it.

use std::slice;

use crate::model::{CudaDecoder, Layer, Packed};
use crate::{Append, Engine, Error, Output, Rows, Want};

/// The sizes of passes that together run every matrix kernel on tensor cores. Without tensor cores
/// there is one kernel, for which the last size suffices.
const PASSES: [usize; 4] = [33, 17, 9, 8];
/// The number of passes with one row at the end. The first runs, the second is recorded as a graph,
/// and the third is replayed.
const SINGLE: usize = 3;

impl Engine {
    /// The most rows of the text that the first passes read.
    pub(crate) const FIRST_ROWS: usize = 33 + 17 + 9 + 8 + SINGLE;

    /// Tests a model on a device: reads a text in one pass, and again in passes of other sizes,
    /// which use other kernels. All rows must be finite, and equal to the bit in both readings. The
    /// passes also load their kernels, so that later passes do not wait for that.
    ///
    /// # Errors
    /// [`Error::Device`]
    pub(crate) fn warm_up(&mut self) -> Result<(), Error> {
        let Packed::Cuda(decoder) = self.model().packed() else {
            return Ok(());
        };
        let sizes = if on_tensor_cores(decoder) {
            &PASSES[..]
        } else {
            &PASSES[3..]
        };
        let config = self.model().config();
        // The text must fit in the cache and in the context.
        let room = self.kv().pages_total * self.page_size();
        let passes = passes(sizes, config.max_position_embeddings.min(room));
        let count = passes.iter().sum();
        let text: Vec<u32> = (0..count)
            // The tokens are arbitrary, but no two neighbours are equal, so swapped rows are
            // detected.
            .map(|i| ((7 * i + 1) % config.vocab_size) as u32)
            .collect();
        let output = if self.model().has_head() {
            Output::Logits
        } else {
            Output::Hidden
        };
        let whole = &self.rows_of_text(&text, &[count], Want::All, output)?[0];
        // If only some rows are wanted, the last layer computes only these rows, and no graph is
        // recorded.
        let mut some = vec![0, count / 2, count - 1];
        // A text of one or two tokens has equal indices here, but wanted indices must rise.
        some.dedup();
        let chosen = &self.rows_of_text(&text, &[count], Want::At(&some), output)?[0];
        for (at, row) in some.into_iter().zip(chosen.iter()) {
            same(at, whole, row, format!("{count} with a few wanted"))?;
        }
        let mut all = 0..count;
        for rows in self.rows_of_text(&text, &passes, Want::All, output)? {
            for (row, at) in rows.iter().zip(all.by_ref()) {
                same(at, whole, row, rows.len().to_string())?;
            }
        }
        Ok(())
    }

    /// Reads a text in passes of the given sizes. Returns the wanted rows of each pass.
    fn rows_of_text(
        &mut self,
        text: &[u32],
        passes: &[usize],
        want: Want<'_>,
        output: Output,
    ) -> Result<Vec<Rows>, Error> {
        let seq = self.create();
        let mut rest = text;
        let rows = passes
            .iter()
            .map(|count| {
                let tokens;
                (tokens, rest) = rest.split_at(*count);
                self.forward(slice::from_ref(&Append { seq, tokens, want }), output)
            })
            .collect();
        self.free(seq);
        rows
    }
}

fn on_tensor_cores(decoder: &CudaDecoder) -> bool {
    let mut matrices = decoder.layers.iter().flat_map(Layer::matrices);
    matrices.any(|matrix| matrix.shape.on_tensor_cores())
}

/// Keeps the sizes whose sum fits in `most` rows, and adds the passes of one row.
fn passes(sizes: &[usize], most: usize) -> Vec<usize> {
    let mut left = most;
    let mut passes = sizes.to_vec();
    passes.retain(|size| {
        let fits = left >= size + SINGLE;
        left -= if fits { *size } else { 0 };
        fits
    });
    passes.extend(std::iter::repeat_n(1, left.min(SINGLE)));
    passes
}

/// Checks that row `at` of the pass over the whole text equals `row`, the result of another pass.
fn same(at: usize, whole: &Rows, row: &[f32], other: String) -> Result<(), Error> {
    let wrong = |what: String| Err(Error::Device(format!("wrong numbers: {what}")));
    let count = whole.len();
    for (i, (a, b)) in whole.row(at).iter().zip(row).enumerate() {
        if !a.is_finite() {
            return wrong(format!(
                "row {at} of a pass of {count} rows has {a} in column {i}"
            ));
        }
        if a.to_bits() != b.to_bits() {
            return wrong(format!(
                "two passes over the same tokens differ, of {count} rows at once and of {other}: \
                 row {at} of the text has {a} and {b} in column {i}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_fit_the_context() {
        for (most, expected) in [
            (1, vec![1]),
            (10, vec![1, 1, 1]),
            (11, vec![8, 1, 1, 1]),
            (40, vec![33, 1, 1, 1]),
            (48, vec![33, 9, 1, 1, 1]),
            (1000, vec![33, 17, 9, 8, 1, 1, 1]),
        ] {
            assert_eq!(passes(&PASSES, most), expected, "{most}");
        }
        let most: usize = passes(&PASSES, 1000).iter().sum();
        assert_eq!(most, Engine::FIRST_ROWS);
    }
}
