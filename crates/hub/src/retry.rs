//! Retries of requests after temporary faults, and waits while the hub limits requests (status
//! 429).

use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use crate::HubError;
use crate::clock::Clock;
use crate::error::{RequestError, RequestTarget};
use crate::progress::{Progress, Reporter};

/// The maximum time that one request waits because of status 429. The public hub counts requests in
/// windows of five minutes, so every limit ends within this time.
const LONGEST: Duration = Duration::from_secs(330);
/// The maximum delay until a sleeping thread notices that the download was stopped.
const TICK: Duration = Duration::from_secs(1);

/// The reason why an attempt failed: the request or the disk.
#[derive(Debug)]
pub(crate) enum TransferError {
    Request {
        error: RequestError,
        /// Whether the attempt added bytes to the file before it failed.
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

/// The limits for repeating a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// The number of retries in a row that may bring no new byte.
    pub retries: u32,
    /// The maximum sum of the waits that the hub demands.
    limit: Duration,
}

impl Patience {
    /// No retry and no wait, for requests that the cache can replace.
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

/// Repeats failed requests of one download.
#[derive(Debug)]
pub(crate) struct Retry<'a> {
    pub clock: &'a dyn Clock,
    pub reporter: &'a Reporter,
    /// Locked by the request that waits for the hub's limit to end. Other requests wait for the
    /// lock.
    pub turn: &'a Mutex<()>,
}

impl Retry<'_> {
    /// Calls `attempt` until it succeeds, fails permanently, or exceeds the limits. New bytes reset
    /// the limits.
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
            // A large file may need many attempts over a bad line. Each attempt that brings bytes
            // comes nearer to the end.
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
                // The hub refuses all requests until the demanded time is over, so retries would be
                // wasted.
                RequestError::TooMany { wait: Some(_), .. } => return Err(error.into()),
                _ if error.is_transient()
                    && failures < patience.retries
                    && !self.reporter.is_over() =>
                {
                    // Waits 0.2, 0.4, ... 6.4 s; the minimum bounds the shift.
                    self.sleep(Duration::from_millis(200 << failures.min(5)));
                    failures += 1;
                }
                _ => return Err(TransferError::Request { error, progressed }),
            }
        }
    }

    fn wait_for_the_hub(&self, wait: Duration) {
        match self.turn.try_lock() {
            // Another thread is waiting already. When it releases the lock, the limit is over for
            // both, and the caller is told of one wait only.
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
