//! The clock behind a trait, so that tests of waits and retries take no time.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, SystemTime};

/// The time between two requests. The time limits within a request use the system's clock.
pub trait Clock: Debug + Send + Sync {
    /// Returns the current time, from which a `Retry-After` date is counted if the answer has no
    /// date.
    fn now(&self) -> SystemTime;

    /// Blocks the calling thread before a request is repeated.
    fn sleep(&self, time: Duration);
}

#[derive(Debug)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }
}
