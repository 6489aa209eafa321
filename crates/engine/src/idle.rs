//! One budget of cache memory for two engines.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Cache memory of one engine, the *lender*, that it has no use for now, and that another may take
/// meanwhile, the *borrower*.
///
/// The lender never waits and never has less than its own: what it can hold does not depend on the
/// borrower. It says at each change what it has neither in use nor reserved. The borrower always has its own
/// part, which nobody takes; of what it borrowed it must give back pages ([`KvStats::pages_over`])
/// before the lender next computes. One thread drives both.
///
/// [`KvStats::pages_over`]: crate::KvStats::pages_over
#[derive(Debug, Default)]
pub struct IdleKv(AtomicUsize);

impl IdleKv {
    /// Bytes that the lender has no use for now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// What an engine may borrow.
#[derive(Debug)]
pub(crate) struct Loan {
    pub(crate) from: std::sync::Arc<IdleKv>,
    /// Of the lender's bytes, this engine's share: `share.0 / share.1`.
    pub(crate) share: (usize, usize),
}

impl Loan {
    /// Pages that may be borrowed now.
    pub(crate) fn pages(&self, page_bytes: usize) -> usize {
        let (part, whole) = self.share;
        let bytes = self.from.bytes() as u128 * part as u128 / whole.max(1) as u128;
        usize::try_from(bytes).unwrap_or(usize::MAX) / page_bytes
    }
}
