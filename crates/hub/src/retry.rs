//! Requests that are made again: after a fault, and when a hub that had too many says so.

use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use crate::HubError;
use crate::clock::Clock;
use crate::error::{RequestError, RequestTarget};
use crate::progress::{Progress, Reporter};

/// Longest time that a request waits for a hub that had too many. The hub counts requests in
/// windows of five minutes.
const LONGEST: Duration = Duration::from_secs(330);
/// How fast the end of a download that failed elsewhere is noticed.
const TICK: Duration = Duration::from_secs(1);

/// Why an attempt failed: at the hub, or at the disk.
#[derive(Debug)]
pub(crate) enum TransferError {
    Request {
        error: RequestError,
        /// Whether bytes came that the attempt before did not get.
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

/// How long a request that failed is made again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// How often in a row without progress.
    pub retries: u32,
    /// How long in all, as the hub says.
    limit: Duration,
}

impl Patience {
    /// No second request, where something else will do.
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

/// Makes the requests of one download again.
#[derive(Debug)]
pub(crate) struct Retry<'a> {
    pub clock: &'a dyn Clock,
    pub reporter: &'a Reporter,
    /// Held by the one request that waits for the hub, on behalf of all.
    pub turn: &'a Mutex<()>,
}

impl Retry<'_> {
    /// Repeats an attempt that fails with a transient error. An attempt that made progress starts
    /// the count anew.
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
                RequestError::TooMany { wait: Some(_), .. } => return Err(error.into()),
                _ if error.is_transient()
                    && failures < patience.retries
                    && !self.reporter.is_over() =>
                {
                    self.sleep(Duration::from_millis(200 << failures.min(5)));
                    failures += 1;
                }
                _ => return Err(TransferError::Request { error, progressed }),
            }
        }
    }

    fn wait_for_the_hub(&self, wait: Duration) {
        match self.turn.try_lock() {
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
