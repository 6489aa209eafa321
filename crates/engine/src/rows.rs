//! The input of a forward pass (tokens to append, rows to return) and its output.

use crate::{Error, ModelConfig, SeqId};

/// Tokens to append to one sequence, and the rows wanted back.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// The sequence to extend. A call may have only one item per sequence.
    pub seq: SeqId,
    /// The tokens to append. An empty slice is allowed and changes nothing.
    pub tokens: &'a [u32],
    /// The rows that the caller needs of these tokens. Fewer rows make a pass cheaper.
    pub want: Want<'a>,
}

/// The rows to return for an [`Append`]. Indices count from its first token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want<'a> {
    /// No rows: the tokens only fill the cache.
    None,
    /// The last token's row; no row if there are no tokens.
    Last,
    /// The rows of all tokens, in order.
    All,
    /// The rows at these indices, which must rise strictly.
    At(&'a [usize]),
}

/// The kind of row that a pass returns for each wanted token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Logits `[vocab]`.
    Logits,
    /// Hidden state after the final norm, `[hidden]`.
    Hidden,
    /// Hidden state before the final norm, `[hidden]`, which a further layer would read. Available
    /// on the processor only.
    Residual,
}

impl Output {
    pub(crate) fn width(self, config: &ModelConfig) -> usize {
        match self {
            Self::Logits => config.vocab_size,
            Self::Hidden | Self::Residual => config.hidden_size,
        }
    }
}

impl Want<'_> {
    pub(crate) fn count(&self, tokens: usize) -> usize {
        match self {
            Self::None => 0,
            // An item without tokens has no last row.
            Self::Last => tokens.min(1),
            Self::All => tokens,
            Self::At(indices) => indices.len(),
        }
    }

    /// Returns the index of the first wanted row of `tokens`; `tokens` if there is none.
    pub(crate) fn first(&self, tokens: usize) -> usize {
        match self {
            Self::None => tokens,
            Self::Last => tokens.saturating_sub(1),
            Self::All => 0,
            Self::At(indices) => indices.first().copied().unwrap_or(tokens),
        }
    }

    pub(crate) fn check(&self, tokens: usize) -> Result<(), Error> {
        let Self::At(indices) = self else {
            return Ok(());
        };
        // Rising indices allow a pass to move the wanted rows to the front in place.
        let mut least = 0;
        for &index in *indices {
            if index < least || index >= tokens {
                return Err(Error::BadWant { index, tokens });
            }
            least = index + 1;
        }
        Ok(())
    }

    /// Calls `body` with each wanted index in `from..to`. The item has `tokens` tokens in total.
    pub(crate) fn for_each_in(
        &self,
        from: usize,
        to: usize,
        tokens: usize,
        mut body: impl FnMut(usize),
    ) {
        match self {
            Self::None => {}
            Self::Last => {
                // Only the chunk with the last token has the wanted row.
                if from < to && to == tokens {
                    body(tokens - 1);
                }
            }
            Self::All => (from..to).for_each(body),
            Self::At(indices) => {
                // A long call is split into chunks and each chunk searches the list, so the search
                // is binary.
                let first = indices.partition_point(|i| *i < from);
                indices[first..]
                    .iter()
                    .take_while(|i| **i < to)
                    .for_each(|i| body(*i));
            }
        }
    }
}

/// Float32 rows `[len, width]`, in the order of the items and of their tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    pub(crate) width: usize,
    pub(crate) data: Vec<f32>,
}

impl Rows {
    /// Returns the values of row `i`, in the order of [`iter`](Self::iter).
    ///
    /// # Panics
    /// If `i` is not less than [`len`](Self::len).
    #[must_use]
    pub fn row(&self, i: usize) -> &[f32] {
        &self.data[i * self.width..][..self.width]
    }

    /// Iterates over the rows, in the order of the items and of their tokens.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, f32> {
        // An empty value has a width of 0, at which `chunks_exact` would panic.
        self.data.chunks_exact(self.width.max(1))
    }

    /// The number of rows: all wanted rows of the call.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len() / self.width.max(1)
    }

    /// Whether the call wanted no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The number of values in a row: the size of the vocabulary or of the hidden state.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }
}

impl<'a> IntoIterator for &'a Rows {
    type Item = &'a [f32];
    type IntoIter = std::slice::ChunksExact<'a, f32>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(want: Want<'_>, from: usize, to: usize, tokens: usize) -> Vec<usize> {
        let mut all = Vec::new();
        want.for_each_in(from, to, tokens, |i| all.push(i));
        all
    }

    #[test]
    fn pieces_give_every_wanted_row_once() {
        let at = [0, 3, 4, 9];
        for want in [Want::None, Want::Last, Want::All, Want::At(&at)] {
            let whole = picked(want, 0, 10, 10);
            assert_eq!(whole.len(), want.count(10));
            for cut in 0..=10 {
                let mut parts = picked(want, 0, cut, 10);
                parts.extend(picked(want, cut, 10, 10));
                assert_eq!(parts, whole, "{want:?} cut at {cut}");
            }
        }
        assert!(picked(Want::Last, 0, 0, 0).is_empty());
        assert_eq!(Want::Last.count(0), 0);
    }

    #[test]
    fn wants_outside_or_falling_are_refused() {
        assert!(Want::At(&[0, 2]).check(3).is_ok());
        assert!(Want::At(&[]).check(0).is_ok());
        assert!(matches!(
            Want::At(&[3]).check(3),
            Err(Error::BadWant {
                index: 3,
                tokens: 3
            })
        ));
        assert!(Want::At(&[1, 1]).check(3).is_err());
        assert!(Want::At(&[2, 1]).check(3).is_err());
    }
}
