//! The servers of one role. Each problem is pinned to a server, whose cache then has its prefixes.
//! A server that fails is not used until it answers again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::Serialize;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::address::{Address, ApiKey};
use crate::client::{Call, Client};
use crate::error::Failure;
use crate::limit::Limit;
use crate::reply::Reply;
use crate::retry::{self, Kind};

/// The time between two tests whether a failed server answers again.
const REVIVAL: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Server {
    pub address: Address,
    pub limit: Limit,
    down: AtomicBool,
}

/// Counts of the requests to the servers of a role.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Traffic {
    /// The number of requests sent, retries included.
    pub requests: u64,
    /// The number of attempts that failed.
    pub failures: u64,
    /// The number of attempts after a failure. A retry may sample other tokens.
    pub retries: u64,
    /// The number of prompt tokens of all answers, as counted by the servers.
    pub prompt_tokens: u64,
    /// The number of prompt tokens that were in a server's cache; `None` if no server reports that.
    pub cached_tokens: Option<u64>,
    /// The number of prompt tokens of answers that report how many were cached.
    pub told_tokens: u64,
    /// The time that requests spent in a server's queue, in milliseconds; `None` if no server
    /// reports it.
    pub queue_milliseconds: Option<u64>,
    /// The number of answers that report the time in the queue.
    pub queue_told: u64,
    /// The number of tokens that servers sampled after the end of a step, and that were dropped.
    pub discarded_tokens: u64,
}

/// All servers of a role, which serve the same model.
#[derive(Debug)]
pub(crate) struct Replicas {
    pub servers: Vec<Server>,
    pub client: Client,
    pub key: Option<ApiKey>,
    /// The time after its first failure during which a request is retried.
    pub patience: Duration,
    /// A route that a running server answers at once, to test a failed server.
    pub health: &'static str,
    /// Wakes waiting requests when a failed server answers again.
    revived: Notify,
    traffic: Mutex<Traffic>,
}

/// The failure of a request that is not retried any more, with the address of its server.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{address}: {failure}")]
pub(crate) struct CallError {
    pub address: String,
    pub failure: Failure,
    /// Whether every other request would fail, too, so that the run must end.
    pub lost: bool,
}

impl Replicas {
    pub(crate) fn new(
        addresses: Vec<Address>,
        client: Client,
        key: Option<ApiKey>,
        in_flight: usize,
        patience: Duration,
        health: &'static str,
    ) -> Self {
        Self {
            servers: addresses
                .into_iter()
                .map(|address| Server {
                    address,
                    limit: Limit::new(in_flight),
                    down: AtomicBool::new(false),
                })
                .collect(),
            client,
            key,
            patience,
            health,
            revived: Notify::new(),
            traffic: Mutex::default(),
        }
    }

    /// Returns the counts of requests, locked to be changed.
    pub(crate) fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses the server of a problem by rendezvous hashing: if a server fails, only the problems
    /// of that server move. `None` if all servers have failed.
    fn server_of(&self, session: u64) -> Option<usize> {
        (0..self.servers.len())
            .filter(|i| !self.servers[*i].down.load(Ordering::Relaxed))
            .max_by_key(|&i| {
                let mut hasher = DefaultHasher::new();
                (session, &self.servers[i].address).hash(&mut hasher);
                hasher.finish()
            })
    }

    /// Sends a request of a problem until it is answered, refused, or out of patience. Returns the
    /// answer as read by `read`, and the number of retries.
    pub(crate) async fn call<T>(
        self: &Arc<Self>,
        session: u64,
        call: &Call,
        read: impl Fn(Reply<'_>) -> Result<T, String>,
    ) -> Result<(T, u32), CallError> {
        let header = format!("{session:016x}");
        let mut first_failure: Option<Instant> = None;
        let (mut attempt, mut accidents) = (0, 0);
        loop {
            let Some(at) = self.server_of(session) else {
                self.wait_for_revival(first_failure).await?;
                continue;
            };
            let server = &self.servers[at];
            let permit = server.limit.permit().await;
            attempt += 1;
            self.traffic().requests += 1;
            let (client, key) = (&self.client, self.key.as_ref());
            let answer = client.ask(&server.address, key, &header, call, &read).await;
            // Freed before the wait for a retry, so other requests can be sent meanwhile.
            drop(permit);
            let failure = match answer {
                Ok(answer) => {
                    server.limit.served();
                    return Ok((answer, attempt - 1));
                }
                Err(failure) => failure,
            };
            self.traffic().failures += 1;
            let kind = retry::kind(&failure);
            match kind {
                Kind::Busy => server.limit.refused(Instant::now()),
                Kind::Down => self.leave_out(at),
                Kind::Accident => accidents += 1,
                Kind::Refused | Kind::Hopeless => {}
            }
            // Patience counts from the first failure: a long request that then fails is still
            // retried.
            let since = *first_failure.get_or_insert_with(Instant::now);
            let (spent, patience) = (since.elapsed(), self.patience);
            let wait = retry::wait(&failure, attempt, accidents, spent, patience, jitter());
            let Some(wait) = wait else {
                let others = self.servers.iter().any(|s| !s.down.load(Ordering::Relaxed));
                return Err(CallError {
                    address: server.address.to_string(),
                    lost: kind == Kind::Refused || (kind == Kind::Down && !others),
                    failure,
                });
            };
            self.traffic().retries += 1;
            // If another server takes over the problem, the request is sent at once.
            if kind != Kind::Down || self.server_of(session).is_none() {
                sleep(wait).await;
            }
        }
    }

    /// Waits until any server answers again, at most as long as patience lasts.
    async fn wait_for_revival(&self, since: Option<Instant>) -> Result<(), CallError> {
        let left = since.map_or(self.patience, |since| {
            self.patience.saturating_sub(since.elapsed())
        });
        let revived = self.revived.notified();
        // Checked after registering: a server that answers again in between is not missed.
        let back = self.servers.iter().any(|s| !s.down.load(Ordering::Relaxed));
        if back || tokio::time::timeout(left, revived).await.is_ok() {
            return Ok(());
        }
        let addresses: Vec<String> = self.servers.iter().map(|s| s.address.to_string()).collect();
        Err(CallError {
            address: addresses.join(", "),
            failure: Failure::Unreachable(format!(
                "no server for {} s",
                self.patience.as_secs_f64()
            )),
            lost: true,
        })
    }

    /// Stops using a server, and starts a task that tests when it answers again.
    fn leave_out(self: &Arc<Self>, at: usize) {
        if self.servers[at].down.swap(true, Ordering::Relaxed) {
            return;
        }
        // A weak reference, so the task does not keep the servers of a finished search alive.
        let replicas: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                let Some(replicas) = replicas.upgrade() else {
                    return;
                };
                let server = &replicas.servers[at];
                let health = Call::get(replicas.health);
                let key = replicas.key.as_ref();
                let answer = replicas
                    .client
                    .send(&server.address, key, "", &health)
                    .await;
                // Any answer shows that the server runs, for example one that cannot be read or a
                // missing route.
                let alive = match answer {
                    Ok(_) | Err(Failure::Answer(_)) => true,
                    Err(Failure::Status { status, .. }) => status < 500,
                    Err(_) => false,
                };
                if alive {
                    server.down.store(false, Ordering::Relaxed);
                    replicas.revived.notify_waiters();
                    return;
                }
                drop(replicas);
                sleep(REVIVAL).await;
            }
        });
    }
}

/// Returns a number in `0.0..1.0` that follows from the clock. It only spreads retries in time, so
/// no result depends on it.
fn jitter() -> f64 {
    let mut hasher = DefaultHasher::new();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos()).hash(&mut hasher);
    (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use beamgen_certificates::Certificates;

    use super::*;

    fn replicas(count: usize) -> Replicas {
        let second = Duration::from_secs(1);
        Replicas::new(
            (0..count)
                .map(|i| Address::parse(&format!("http://127.0.0.1:{}", 9000 + i)).unwrap())
                .collect(),
            Client::new(second, second, &Certificates::default()).unwrap(),
            None,
            8,
            second,
            "/health",
        )
    }

    #[test]
    fn problems_are_spread_and_only_those_of_a_failed_server_move() {
        let replicas = replicas(4);
        let before: Vec<_> = (0..4000).map(|s| replicas.server_of(s).unwrap()).collect();
        for i in 0..4 {
            let share = before.iter().filter(|&&at| at == i).count();
            assert!((800..1200).contains(&share), "{share} of 4000 at {i}");
        }
        replicas.servers[2].down.store(true, Ordering::Relaxed);
        let after: Vec<_> = (0..4000).map(|s| replicas.server_of(s).unwrap()).collect();
        assert!(after.iter().all(|&at| at != 2));
        let moved = before.iter().zip(&after).filter(|(b, a)| b != a);
        assert!(moved.clone().count() > 0 && moved.into_iter().all(|(before, _)| *before == 2));
        for server in &replicas.servers {
            server.down.store(true, Ordering::Relaxed);
        }
        assert_eq!(replicas.server_of(1), None);
    }
}
