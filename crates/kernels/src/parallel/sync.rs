//! All that the threads of a pool synchronise with. The models in `crates/kernels/loom` compile
//! `workers.rs` with loom's types in place of these.

use std::time::Duration;

pub(super) use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(super) use std::thread::{Builder, JoinHandle};
pub(super) use std::time::Instant;

/// The number of times that a waiting thread checks a condition before it yields its core. The
/// checks take some microseconds, so that the next region of a pass is noticed at once.
const SPINS: usize = 200;

/// The time for which a waiting thread checks and yields before it sleeps. It is longer than the
/// serial parts of a pass, and short compared with a time slice. Yielding gives the core to other
/// processes and threads that are ready to run.
const PATIENCE: Duration = Duration::from_micros(50);

/// Whether `ready` becomes true before patience ends.
pub(super) fn comes_soon(ready: impl Fn() -> bool) -> bool {
    for _ in 0..SPINS {
        if ready() {
            return true;
        }
        std::hint::spin_loop();
    }
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if ready() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// A sequentially consistent load, which loom can only imitate.
pub(super) trait LoadSeqCst {
    type Value;
    fn load_seq_cst(&self) -> Self::Value;
}

macro_rules! load_seq_cst {
    ($($atomic:ty: $value:ty),*) => {$(
        impl LoadSeqCst for $atomic {
            type Value = $value;
            #[inline(always)]
            fn load_seq_cst(&self) -> $value {
                self.load(Ordering::SeqCst)
            }
        }
    )*};
}
load_seq_cst!(AtomicBool: bool, AtomicU64: u64, AtomicUsize: usize);

/// A releasing store to a number that other threads may change meanwhile.
pub(super) trait Publish {
    fn publish(&self, value: isize);
}

impl Publish for AtomicIsize {
    #[inline(always)]
    fn publish(&self, value: isize) {
        self.store(value, Ordering::Release);
    }
}

/// [`std::cell::UnsafeCell`] with loom's methods.
#[derive(Debug)]
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `read` with the address of the value, which it may read if nobody writes meanwhile.
    #[inline(always)]
    pub(super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with the address of the value, which it may write if nobody else uses it
    /// meanwhile.
    #[inline(always)]
    pub(super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
