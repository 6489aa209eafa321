//! Token lists of chains that share their beginnings.

use std::sync::Arc;

/// A list of tokens that grows only at its end. A copy shares all tokens and costs no memory.
#[derive(Debug, Clone, Default)]
pub struct Prefix(Option<Arc<Segment>>);

#[derive(Debug)]
struct Segment {
    before: Prefix,
    tokens: Vec<u32>,
    len: usize,
}

impl Prefix {
    /// Returns the number of tokens, counted when tokens are appended, so without a walk over the
    /// list.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |segment| segment.len)
    }

    /// Appends tokens. Copies that were made before do not change.
    pub fn push(&mut self, tokens: Vec<u32>) {
        let len = self.len() + tokens.len();
        let before = std::mem::take(self);
        self.0 = Some(Arc::new(Segment {
            before,
            tokens,
            len,
        }));
    }

    /// Copies all tokens into a vector that has room for `more` further tokens.
    pub fn tokens(&self, more: usize) -> Vec<u32> {
        // Segments are linked from the end to the beginning, and have to be copied the other way.
        let mut parts = Vec::new();
        let mut at = &self.0;
        while let Some(segment) = at {
            parts.push(segment.tokens.as_slice());
            at = &segment.before.0;
        }
        let mut tokens = Vec::with_capacity(self.len() + more);
        parts
            .iter()
            .rev()
            .for_each(|part| tokens.extend_from_slice(part));
        tokens
    }
}

impl Drop for Segment {
    /// Drops segments in a loop: the derived recursion would overflow the stack for a long chain.
    fn drop(&mut self) {
        let mut next = self.before.0.take();
        while let Some(mut segment) = next.and_then(Arc::into_inner) {
            next = segment.before.0.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_and_grow_apart() {
        let mut one = Prefix::default();
        assert!(one.tokens(0).is_empty());
        one.push(vec![1, 2]);
        let mut two = one.clone();
        one.push(vec![3]);
        two.push(vec![]);
        two.push(vec![4, 5]);
        assert_eq!((one.tokens(0), one.len()), (vec![1, 2, 3], 3));
        assert_eq!((two.tokens(9), two.len()), (vec![1, 2, 4, 5], 4));
    }

    #[test]
    fn a_long_one_is_dropped_without_a_deep_stack() {
        let mut prefix = Prefix::default();
        for i in 0..500_000 {
            prefix.push(vec![i]);
        }
        assert_eq!(prefix.len(), 500_000);
    }
}
