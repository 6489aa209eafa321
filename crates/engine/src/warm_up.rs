//! The first passes on a device, before anybody depends on them.

use std::slice;

use crate::runner::Runner;
use crate::{Append, Engine, Error, Output, Rows, Want};

/// Tokens of the text: enough that a decode pass of one row is run, recorded and replayed.
const TOKENS: usize = 6;

impl Engine {
    /// If the model is on a device: a text of a few tokens in one pass, and again token by token.
    /// Loads the kernels of these passes, and finds out whether the model computes there: rows have
    /// to be finite and the same, to the last bit, in both ways.
    ///
    /// # Errors
    /// [`Error::Device`]
    pub(crate) fn warm_up(&mut self) -> Result<(), Error> {
        if matches!(self.runner, Runner::Cpu(_)) {
            return Ok(());
        }
        let config = self.model().config();
        let count = TOKENS.min(config.max_position_embeddings);
        let text: Vec<u32> = (0..count)
            .map(|i| ((7 * i + 1) % config.vocab_size) as u32)
            .collect();
        let output = match self.model().has_head() {
            true => Output::Logits,
            false => Output::Hidden,
        };
        let whole = self.rows_of_text(&text, count, Want::All, output)?;
        let last = self.rows_of_text(&text, count, Want::Last, output)?;
        let single = self.rows_of_text(&text, 1, Want::Last, output)?;
        let last = [(count - 1, &last[0])];
        for (i, rows) in last.into_iter().chain(single.iter().enumerate()) {
            same(whole[0].row(i), rows.row(0))?;
        }
        Ok(())
    }

    /// The wanted rows of a text that is read `at_once` tokens at a time.
    fn rows_of_text(
        &mut self,
        text: &[u32],
        at_once: usize,
        want: Want<'_>,
        output: Output,
    ) -> Result<Vec<Rows>, Error> {
        let seq = self.create();
        let append = |tokens| Append { seq, tokens, want };
        let passes = text.chunks(at_once).map(append);
        let rows = passes
            .map(|item| self.forward(slice::from_ref(&item), output))
            .collect();
        self.free(seq);
        rows
    }
}

/// The same row of two passes.
fn same(prefilled: &[f32], decoded: &[f32]) -> Result<(), Error> {
    let wrong = |what: String| Err(Error::Device(format!("it computes wrong numbers: {what}")));
    for (a, b) in prefilled.iter().zip(decoded) {
        if !a.is_finite() {
            return wrong(format!("a pass over a few tokens gives {a}"));
        }
        if a.to_bits() != b.to_bits() {
            return wrong(format!("two passes over the same tokens give {a} and {b}"));
        }
    }
    Ok(())
}
