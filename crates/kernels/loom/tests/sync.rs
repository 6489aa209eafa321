//! Replaces the items of `crates/kernels/src/parallel/sync.rs` by loom's models of them.

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread::{Builder, JoinHandle};

use std::ops::Sub;
use std::time::Duration;

use loom::sync::atomic::fence;

/// Waiting threads look once and then sleep: that `ready` comes true between two looks is the same
/// as that it is true at the first.
pub(crate) fn comes_soon(ready: impl Fn() -> bool) -> bool {
    ready()
}

/// loom knows sequentially consistent fences, but takes such loads for acquiring ones. A fence
/// before the load is how processors without an instruction for it do it.
pub(crate) trait LoadSeqCst {
    type Value;
    fn load_seq_cst(&self) -> Self::Value;
}

macro_rules! load_seq_cst {
    ($($atomic:ty: $value:ty),*) => {$(
        impl LoadSeqCst for $atomic {
            type Value = $value;
            fn load_seq_cst(&self) -> $value {
                fence(Ordering::SeqCst);
                self.load(Ordering::Acquire)
            }
        }
    )*};
}
load_seq_cst!(AtomicBool: bool, AtomicU64: u64, AtomicUsize: usize);

/// loom lets a later read-modify-write follow an earlier one, and so pass over a store between the
/// two, which no machine does. A swap keeps them in order.
pub(crate) trait Publish {
    fn publish(&self, value: isize);
}

impl Publish for AtomicIsize {
    fn publish(&self, value: isize) {
        self.swap(value, Ordering::Release);
    }
}

/// A clock that never advances, because late threads are not modelled.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Instant;

impl Instant {
    pub(crate) fn now() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the shape of std's Instant")]
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    pub(crate) fn checked_add(self, _: Duration) -> Option<Self> {
        Some(self)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, _: Self) -> Duration {
        Duration::ZERO
    }
}
