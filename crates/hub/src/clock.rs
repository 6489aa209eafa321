//! Time, so that tests need not wait.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, SystemTime};

/// Time as a hub sees it between two requests. The limits of the requests themselves are the
/// network's.
pub trait Clock: Debug + Send + Sync {
    /// The time now, against which the date of an answer is held.
    fn now(&self) -> SystemTime;

    /// Waits before a request is made again.
    fn sleep(&self, time: Duration);
}

/// The system's clock.
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
