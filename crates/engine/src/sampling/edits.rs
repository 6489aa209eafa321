//! Changes of a row of logits before a token is sampled from it.

/// Changes of a row of logits for one token to sample, after the repetition penalty and before all
/// other settings. Log-probabilities stay those of the row before its changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowEdits<'a> {
    /// Numbers that are added to the logits of tokens.
    pub bias: &'a [(u32, f32)],
    /// The tokens that may be sampled, one bit each: token `i` is bit `i % 32` of word `i / 32`.
    /// Tokens after the last word may not be sampled. `None` allows every token.
    pub allowed: Option<&'a [u32]>,
}

impl RowEdits<'_> {
    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bias.is_empty() && self.allowed.is_none()
    }

    /// Whether both are surely the same changes.
    pub(super) fn are_same(&self, other: &Self) -> bool {
        // By address, as rows are compared: chains of one problem share a list of biases, and forks
        // a set of allowed tokens.
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
