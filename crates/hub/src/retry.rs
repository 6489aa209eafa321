//! Retries of requests: after a transient fault, and when the hub limits requests (status 429).

use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use crate::HubError;
use crate::clock::Clock;
use crate::error::{RequestError, RequestTarget};
use crate::progress::{Progress, Reporter};

/// Longest time in all that one request waits because of status 429. The public hub counts requests
/// in windows of five minutes, so a limit ends within that time.
const LONGEST: Duration = Duration::from_secs(330);
/// Longest time until a sleeping thread notices that another thread's download failed.
const TICK: Duration = Duration::from_secs(1);

/// The reason why an attempt failed: the request, or the disk.
#[derive(Debug)]
pub(crate) enum TransferError {
    Request {
        error: RequestError,
        /// Whether this attempt added bytes to the file.
        progressed: bool,
    },
    Disk(HubError),
}

impl TransferError {
    pub(crate) fn at(self, target: &RequestTarget) -> HubError {
        match self {
            Self::Request { error, .. } => target.failed(error),
            Self::Disk(error) => error,
        }
    }
}

impl From<RequestError> for TransferError {
    fn from(error: RequestError) -> Self {
        Self::Request {
            error,
            progressed: false,
        }
    }
}

/// The limits of retries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Retries in a row that add no byte.
    pub retries: u32,
    /// Longest sum of the waits that the hub asks for.
    limit: Duration,
}

impl Patience {
    /// A single attempt, for requests that the cache can answer as well.
    pub(crate) const NONE: Self = Self {
        retries: 0,
        limit: Duration::ZERO,
    };

    pub(crate) fn new(retries: u32) -> Self {
        Self {
            retries,
            limit: LONGEST,
        }
    }
}

/// Repeats the requests of one download.
#[derive(Debug)]
pub(crate) struct Retry<'a> {
    pub clock: &'a dyn Clock,
    pub reporter: &'a Reporter,
    /// Locked by the request that waits for the hub to lift a limit. Others wait for the lock.
    pub turn: &'a Mutex<()>,
}

impl Retry<'_> {
    /// Repeats an attempt that fails with a transient error. Progress resets the count and the
    /// limit.
    pub(crate) fn run<T>(
        &self,
        patience: Patience,
        mut attempt: impl FnMut() -> Result<T, TransferError>,
    ) -> Result<T, TransferError> {
        let mut failures = 0;
        let mut left = patience.limit;
        loop {
            let (error, progressed) = match attempt() {
                Err(TransferError::Request { error, progressed }) => (error, progressed),
                other => return other,
            };
            // A large file over a bad line may break off many times. As long as bytes arrive, each
            // attempt brings the end nearer.
            if progressed {
                (failures, left) = (0, patience.limit);
            }
            match error {
                RequestError::TooMany {
                    wait: Some(wait), ..
                } if wait <= left && !self.reporter.is_over() => {
                    left -= wait;
                    self.wait_for_the_hub(wait);
                }
                // Until the named time every request is refused, so retries would be wasted.
                RequestError::TooMany { wait: Some(_), .. } => return Err(error.into()),
                _ if error.is_transient()
                    && failures < patience.retries
                    && !self.reporter.is_over() =>
                {
                    // 0.2, 0.4, ... 6.4 s: the cap keeps the shift and the wait small.
                    self.sleep(Duration::from_millis(200 << failures.min(5)));
                    failures += 1;
                }
                _ => return Err(TransferError::Request { error, progressed }),
            }
        }
    }

    fn wait_for_the_hub(&self, wait: Duration) {
        match self.turn.try_lock() {
            // Another thread is waiting already. When its lock is free, the limit is over for all,
            // and the caller hears of one wait instead of two.
            Err(TryLockError::WouldBlock) => drop(self.turn.lock()),
            _turn => {
                self.reporter.tell(Progress::Limited { wait });
                self.sleep(wait);
            }
        }
    }

    fn sleep(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() && !self.reporter.is_over() {
            let part = left.min(TICK);
            self.clock.sleep(part);
            left -= part;
        }
    }
}
