//! Accounts for cache memory that one engine lends to another.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Cache memory that one engine, the *lender*, does not use now, and that another engine, the
/// *borrower*, may use in the meantime.
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
        // Relaxed order suffices, because one thread drives both engines. The atomic makes sharing
        // safe.
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// An engine's right to borrow the idle memory of a lender.
#[derive(Debug)]
pub(crate) struct Loan {
    pub(crate) from: std::sync::Arc<IdleKv>,
    /// The fraction of the lender's idle bytes that may be borrowed, `share.0 / share.1`.
    pub(crate) share: (usize, usize),
}

impl Loan {
    /// Returns the number of pages of `page_bytes` bytes that may be borrowed now.
    pub(crate) fn pages(&self, page_bytes: usize) -> usize {
        let (part, whole) = self.share;
        // The product of bytes and a share may exceed 64 bits.
        let bytes = self.from.bytes() as u128 * part as u128 / whole.max(1) as u128;
        usize::try_from(bytes).unwrap_or(usize::MAX) / page_bytes
    }
}
