//! A replaceable clock, so that tests of waits and retries need no real time.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, SystemTime};

/// The clock for waits between requests. Time limits of a single request use the system's clock.
pub trait Clock: Debug + Send + Sync {
    /// Returns the current time. A date in `Retry-After` is compared with this time if the answer
    /// does not contain its own date.
    fn now(&self) -> SystemTime;

    /// Blocks the thread that is about to repeat a request.
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
