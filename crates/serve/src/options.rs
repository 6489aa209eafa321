//! The options and limits of a server.

use std::net::SocketAddr;
use std::time::Duration;

use crate::access::Key;
use crate::log::Observe;
use crate::origins::Origin;
use crate::reload::Reload;

/// The address, the keys and the limits of a [`Server`](crate::Server).
#[derive(Clone)]
pub struct ServeOptions {
    /// The address to listen on. Port 0 takes a free port.
    pub address: SocketAddr,
    /// The accepted API keys; with an empty list, requests need no key.
    pub keys: Vec<Key>,
    /// Whether the server may run without a key on an address that other machines can reach.
    pub allow_anyone: bool,
    /// Host names that requests may use, in addition to addresses and `localhost`.
    pub host_names: Vec<String>,
    /// Origins of other sites, whose web pages may use the server.
    pub allow_origins: Vec<Origin>,
    /// The limits of requests, connections and times.
    pub limits: Limits,
    /// The seed of requests that give none; `None` for a new one each.
    pub fixed_seed: Option<u64>,
    /// A callback for what happens, for a log.
    pub observe: Option<Observe>,
    /// The handle that reads presets and keys again; `None` if nothing can be read again.
    pub reload: Option<Reload>,
}

impl Default for ServeOptions {
    /// Returns options with a free port that only this machine can reach.
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            keys: Vec::new(),
            allow_anyone: false,
            host_names: Vec::new(),
            allow_origins: Vec::new(),
            limits: Limits::default(),
            fixed_seed: None,
            observe: None,
            reload: None,
        }
    }
}

impl std::fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServeOptions")
            .field("address", &self.address)
            .field("keys", &self.keys.len())
            .field("allow_anyone", &self.allow_anyone)
            .field("host_names", &self.host_names)
            .field("allow_origins", &self.allow_origins)
            .field("limits", &self.limits)
            .field("fixed_seed", &self.fixed_seed)
            .finish_non_exhaustive()
    }
}

/// The limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most waiting requests; a further request gets status 429.
    pub queue: usize,
    /// The most open connections; others wait to be accepted.
    pub connections: usize,
    /// The most tokens of a request: chains times tokens per chain.
    pub tokens: usize,
    /// The most chains of a request for scores.
    pub chains_to_score: usize,
    /// The most answers of a request to refine or to guard.
    pub answers_to_mend: usize,
    /// The most bytes of a body, other than that of a request for scores.
    pub body_bytes: usize,
    /// The most bytes of the body of a request for scores.
    pub score_body_bytes: usize,
    /// The most bytes of a request's head.
    pub head_bytes: usize,
    /// The most lines of a request's head.
    pub headers: usize,
    /// The time for the head, and the longest idle time of a connection.
    pub head_time: Duration,
    /// The time for the body.
    pub body_time: Duration,
    /// The longest time in which a client may read nothing of a ready answer.
    pub stall_time: Duration,
    /// The longest time of a search, with its wait in the queue.
    pub search_time: Duration,
    /// The time that running requests have after a signal to stop.
    pub drain_time: Duration,
    /// The longest silence in a stream, after which a comment is sent.
    pub keep_alive: Duration,
    /// The most events that are kept for a slow reader.
    pub events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue: 256,
            connections: 1024,
            tokens: 1 << 20,
            chains_to_score: 4096,
            answers_to_mend: 256,
            body_bytes: 1 << 20,
            score_body_bytes: 64 << 20,
            head_bytes: 16 << 10,
            headers: 64,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            stall_time: Duration::from_secs(60),
            search_time: Duration::from_secs(600),
            drain_time: Duration::from_secs(30),
            keep_alive: Duration::from_secs(10),
            events: 8192,
        }
    }
}
