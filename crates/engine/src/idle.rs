//! One budget of cache memory for two engines.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Cache memory that one engine, the *lender*, does not use now, and that another engine, the
/// *borrower*, may use meanwhile.
///
/// The lender never waits and can always use its whole budget. At each change it publishes the
/// bytes that are neither in use nor reserved. The borrower always keeps its own budget; when the
/// lender claims borrowed pages, the borrower must free [`KvStats::pages_over`] pages before the
/// lender computes again. One thread drives both engines.
///
/// [`KvStats::pages_over`]: crate::KvStats::pages_over
#[derive(Debug, Default)]
pub struct IdleKv(AtomicUsize);

impl IdleKv {
    /// Bytes that the lender neither uses nor has reserved.
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
