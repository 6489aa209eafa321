//! The limit of concurrent requests to a server. It grows while the server serves requests, and is
//! halved when the server reports overload (additive increase, multiplicative decrease; Chiu and
//! Jain, 1989).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// The time after a halving in which further refusals are ignored: their requests were sent before
/// the halving.
const ONE_CUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Limit {
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug)]
struct State {
    most: usize,
    allowed: f64,
    in_flight: usize,
    cut: Option<Instant>,
}

/// The right to send a request. Dropping it lets the next request be sent.
#[derive(Debug)]
pub(crate) struct Permit<'a>(&'a Limit);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.in_flight -= 1);
        // One permit was freed, so one waiter is woken.
        self.0.freed.notify_one();
    }
}

impl Limit {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(1);
        Self {
            state: Mutex::new(State {
                most,
                allowed: most as f64,
                in_flight: 0,
                cut: None,
            }),
            freed: Notify::new(),
        }
    }

    fn change<T>(&self, how: impl FnOnce(&mut State) -> T) -> T {
        how(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until another request may be sent. Requests that wait are served in the order of
    /// arrival.
    pub(crate) async fn permit(&self) -> Permit<'_> {
        loop {
            // Registered before the check: a permit that is freed in between is not missed.
            let freed = self.freed.notified();
            let taken = self.change(|state| {
                let room = state.in_flight < state.allowed as usize;
                state.in_flight += usize::from(room);
                room
            });
            if taken {
                return Permit(self);
            }
            freed.await;
        }
    }

    /// Raises the limit a little after a served request: by about 1 for as many requests as the
    /// limit.
    pub(crate) fn served(&self) {
        let more = self.change(|state| {
            let before = state.allowed as usize;
            // The sum over `allowed` requests is about 1.
            state.allowed = (state.allowed + 1.0 / state.allowed).min(state.most as f64);
            state.allowed as usize > before
        });
        if more {
            self.freed.notify_one();
        }
    }

    /// Halves the limit after a refusal, unless it was halved less than a second ago.
    pub(crate) fn refused(&self, now: Instant) {
        self.change(|state| {
            let again = state
                .cut
                .is_some_and(|cut| now.duration_since(cut) < ONE_CUT);
            if !again {
                state.allowed = (state.allowed / 2.0).max(1.0);
                state.cut = Some(now);
            }
        });
    }

    /// Returns the number of requests that have a permit.
    #[cfg(test)]
    fn in_flight(&self) -> usize {
        self.change(|state| state.in_flight)
    }

    #[cfg(test)]
    fn allowed(&self) -> usize {
        self.change(|state| state.allowed as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_halves_once_a_second_and_grows_by_one_a_round() {
        let (limit, now) = (Limit::new(64), Instant::now());
        for _ in 0..10 {
            limit.refused(now);
        }
        assert_eq!(limit.allowed(), 32);
        limit.refused(now + ONE_CUT);
        assert_eq!(limit.allowed(), 16);
        for _ in 0..17 {
            limit.served();
        }
        assert_eq!(limit.allowed(), 17);
        for _ in 0..10_000 {
            limit.served();
        }
        assert_eq!(limit.allowed(), 64);
        for second in 2..40 {
            limit.refused(now + ONE_CUT * second);
        }
        assert_eq!(limit.allowed(), 1);
    }

    #[test]
    fn no_more_than_allowed_are_running() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let limit = Limit::new(2);
            let first = limit.permit().await;
            let _second = limit.permit().await;
            assert_eq!(limit.in_flight(), 2);
            let third = limit.permit();
            tokio::pin!(third);
            let waits = std::future::poll_fn(|cx| {
                std::task::Poll::Ready(third.as_mut().poll(cx).is_pending())
            });
            assert!(waits.await);
            drop(first);
            let _third = third.await;
            assert_eq!(limit.in_flight(), 2);
        });
    }
}
