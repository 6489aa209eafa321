//! The options and limits of a server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use beamgen::eval::profile::Profile;

use crate::access::Key;
use crate::log::Observe;
use crate::origins::Origin;
use crate::reload::Reload;

/// The address, the keys and the limits of a [`Server`](crate::Server).
#[derive(Clone)]
pub struct ServeOptions {
    /// The address to listen on. Port 0 selects a free port.
    pub address: SocketAddr,
    /// The accepted API keys. If the list is empty, requests need no key.
    pub keys: Vec<Key>,
    /// Whether the server may run without a key on an address that other machines can reach.
    pub allow_anyone: bool,
    /// Host names that a request may name in its Host header, besides IP addresses and `localhost`.
    pub host_names: Vec<String>,
    /// Other origins whose web pages may use the server.
    pub allow_origins: Vec<Origin>,
    /// The limits of requests, connections and times.
    pub limits: Limits,
    /// The seed of requests that give none; `None` to choose a new one for each.
    pub fixed_seed: Option<u64>,
    /// The profiles from which the drift of each preset's answers is measured, by preset.
    pub references: BTreeMap<String, Profile>,
    /// The share of searches to repeat without the reward model, from 0 to 1. The metrics count how often the answers
    /// differ.
    pub shadow_share: f64,
    /// The callback for log events; `None` for no log.
    pub observe: Option<Observe>,
    /// The handle that makes the server read presets and keys again; `None` if it cannot.
    pub reload: Option<Reload>,
}

impl Default for ServeOptions {
    /// Returns options for a free port on 127.0.0.1, without a key.
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            keys: Vec::new(),
            allow_anyone: false,
            host_names: Vec::new(),
            allow_origins: Vec::new(),
            limits: Limits::default(),
            fixed_seed: None,
            references: BTreeMap::new(),
            shadow_share: 0.0,
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
            .field("shadow_share", &self.shadow_share)
            .finish_non_exhaustive()
    }
}

/// The limits of a server. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of waiting requests. Further requests get status 429.
    pub queue: usize,
    /// The maximum number of open connections. Further clients wait to be accepted.
    pub connections: usize,
    /// The maximum number of tokens per request: chains times tokens per chain.
    pub tokens: usize,
    /// The maximum number of chains in a request for scores.
    pub chains_to_score: usize,
    /// The maximum number of answers in a request to refine or to guard.
    pub answers_to_mend: usize,
    /// The maximum size of a body, except for requests for scores.
    pub body_bytes: usize,
    /// The maximum size of the body of a request for scores.
    pub score_body_bytes: usize,
    /// The maximum size of a request's head.
    pub head_bytes: usize,
    /// The maximum number of header lines of a request.
    pub headers: usize,
    /// The time limit for a request's head, which is also the longest idle time of a connection.
    pub head_time: Duration,
    /// The time limit for a request's body.
    pub body_time: Duration,
    /// The time after which a connection is closed if its client reads nothing of a ready answer.
    pub stall_time: Duration,
    /// The time limit of a search, including its wait in the queue.
    pub search_time: Duration,
    /// The time that running requests get to finish after the server was told to stop.
    pub drain_time: Duration,
    /// The longest pause in a stream; then a comment is sent to keep the connection open.
    pub keep_alive: Duration,
    /// The maximum number of events of a search that are kept for a slow reader.
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
