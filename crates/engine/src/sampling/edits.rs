//! Edits a row of logits before a token is sampled from it.

/// Changes of a row of logits for one sampled token. They come after the repetition penalty and
/// before all other settings. Log-probabilities are still those of the unchanged row.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowEdits<'a> {
    /// Pairs of a token and the number that is added to its logit. Tokens outside the row are
    /// ignored.
    pub bias: &'a [(u32, f32)],
    /// The tokens that may be sampled, one bit each: token `i` is bit `i % 32` of word `i / 32`.
    /// Tokens beyond the last word may not be sampled. `None` allows every token.
    pub allowed: Option<&'a [u32]>,
}

impl RowEdits<'_> {
    /// Whether these edits leave every row unchanged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bias.is_empty() && self.allowed.is_none()
    }

    /// Whether both are surely the same edits. A false result may be wrong and only costs time.
    pub(super) fn are_same(&self, other: &Self) -> bool {
        // The lists are compared by address, which is enough in practice: chains of one problem
        // share a list of biases, and forks share a set of allowed tokens.
        let allowed = match (self.allowed, other.allowed) {
            (Some(a), Some(b)) => std::ptr::eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        allowed && std::ptr::eq(self.bias, other.bias)
    }

    pub(super) fn apply(&self, row: &mut [f32]) {
        for &(token, bias) in self.bias {
            if let Some(logit) = row.get_mut(token as usize) {
                *logit += bias;
            }
        }
        let Some(allowed) = self.allowed else { return };
        for (word, logits) in row.chunks_mut(32).enumerate() {
            let bits = allowed.get(word).copied().unwrap_or(0);
            if bits == u32::MAX {
                continue;
            }
            for (bit, logit) in logits.iter_mut().enumerate() {
                if bits >> bit & 1 == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
    }
}
