//! The rules by which failed requests are retried.

use std::time::Duration;

use crate::error::Failure;

/// The wait after the first attempt; it doubles with each further attempt.
const FIRST: Duration = Duration::from_millis(250);
/// The longest wait, unless the server asks for a longer one.
const LONGEST: Duration = Duration::from_secs(10);

/// The consequences of a failure for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The server is overloaded, so the request is retried later.
    Busy,
    /// The server or the connection to it is down. The request is retried, possibly on another
    /// server.
    Down,
    /// The failure may be an accident, so the request is retried once.
    Accident,
    /// Every request would fail, for example because the key is wrong.
    Refused,
    /// This request would fail again, but other requests may succeed.
    Hopeless,
}

pub(crate) fn kind(failure: &Failure) -> Kind {
    match failure {
        Failure::Unreachable(_) | Failure::Silent(_) | Failure::Cut(_) => Kind::Down,
        Failure::Answer(_) => Kind::Accident,
        // The server would send the same long answer again.
        Failure::TooLong(_) => Kind::Hopeless,
        Failure::Status { status, .. } => match status {
            408 | 429 | 503 => Kind::Busy,
            // A proxy answers in place of a server that does not run.
            502 | 504 => Kind::Down,
            300..=399 | 401 | 403 | 404 | 405 => Kind::Refused,
            500.. => Kind::Accident,
            _ => Kind::Hopeless,
        },
    }
}

/// Returns the wait after attempt number `attempt`, from 1; `None` after the last attempt.
/// `accidents` is the number of failures of [`Kind::Accident`] so far, this one included. `spent`
/// is the time since the first failure, `jitter` a number in `0.0..1.0`. The wait is never longer
/// than the patience that is left, even if the server asks for more.
pub(crate) fn wait(
    failure: &Failure,
    attempt: u32,
    accidents: u32,
    spent: Duration,
    patience: Duration,
    jitter: f64,
) -> Option<Duration> {
    match kind(failure) {
        Kind::Refused | Kind::Hopeless => return None,
        Kind::Accident if accidents > 1 => return None,
        Kind::Accident | Kind::Busy | Kind::Down => {}
    }
    let left = patience.saturating_sub(spent);
    if left.is_zero() {
        return None;
    }
    let doubled = FIRST * 2_u32.saturating_pow(attempt.saturating_sub(1).min(16));
    let own = doubled.min(LONGEST).mul_f64(0.5 + 0.5 * jitter);
    let wait = match failure {
        // With jitter, not all clients return at the same moment.
        Failure::Status {
            retry_after: Some(asked),
            ..
        } => asked.saturating_add(FIRST.mul_f64(jitter)),
        _ => own,
    };
    Some(wait.min(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16) -> Failure {
        Failure::Status {
            status,
            message: String::new(),
            retry_after: None,
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn what_would_fail_again_is_not_made_again() {
        for code in [301, 307, 400, 401, 403, 404, 405, 413, 422] {
            assert_eq!(
                wait(&status(code), 1, 0, Duration::ZERO, MINUTE, 0.5),
                None,
                "{code}"
            );
        }
        for failure in [status(500), Failure::Answer("x".into())] {
            // Also after failures of other kinds.
            assert!(wait(&failure, 1, 1, Duration::ZERO, MINUTE, 0.5).is_some());
            assert!(wait(&failure, 9, 1, Duration::ZERO, MINUTE, 0.5).is_some());
            assert_eq!(wait(&failure, 2, 2, Duration::ZERO, MINUTE, 0.5), None);
        }
    }

    #[test]
    fn waits_double_up_to_a_cap_until_patience_ends() {
        let cut = Failure::Cut(String::new());
        for failure in [status(429), status(503), status(502), status(504), cut] {
            let mut before = Duration::ZERO;
            for attempt in 1..40 {
                let next = wait(&failure, attempt, 0, Duration::ZERO, MINUTE, 0.999).unwrap();
                assert!(next >= before && next <= LONGEST);
                before = next;
            }
            assert_eq!(wait(&failure, 1, 0, MINUTE, MINUTE, 0.5), None);
        }
    }

    fn busy(seconds: u64) -> Failure {
        Failure::Status {
            status: 503,
            message: String::new(),
            retry_after: Some(Duration::from_secs(seconds)),
        }
    }

    #[test]
    fn a_server_says_when_to_come_back_and_patience_when_to_give_up() {
        let waits = |seconds, spent, patience| wait(&busy(seconds), 1, 0, spent, patience, 0.0);
        assert_eq!(
            waits(7, Duration::ZERO, MINUTE),
            Some(Duration::from_secs(7))
        );
        for seconds in [61, 120, 99_999_999_999, u64::MAX] {
            assert_eq!(waits(seconds, Duration::ZERO, MINUTE), Some(MINUTE));
            let spent = Duration::from_secs(59);
            assert_eq!(waits(seconds, spent, MINUTE), Some(Duration::from_secs(1)));
        }
        assert_eq!(waits(0, MINUTE, MINUTE), None);
    }

    /// Returns the time until a request that always fails is given up, if attempts take no time.
    fn given_up_after(failure: &Failure, patience: Duration, jitter: f64) -> Duration {
        let mut now = Duration::ZERO;
        for attempt in 1.. {
            match wait(failure, attempt, 0, now, patience, jitter) {
                Some(wait) => now += wait,
                None => break,
            }
        }
        now
    }

    #[test]
    fn no_request_is_made_again_after_its_patience() {
        for patience in [0, 1, 3, 45, 120].map(Duration::from_secs) {
            for failure in [
                busy(0),
                busy(2),
                busy(40),
                busy(u64::MAX),
                status(429),
                status(502),
            ] {
                for jitter in [0.1, 0.5, 0.999] {
                    let end = given_up_after(&failure, patience, jitter);
                    assert_eq!(end, patience, "{failure:?}");
                }
            }
        }
    }
}
