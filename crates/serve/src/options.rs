//! How a server listens, and what it takes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::access::Key;

/// How a [`Server`](crate::Server) listens, and what it takes.
#[derive(Clone)]
pub struct ServeOptions {
    /// Where it listens. Port 0 takes a free one.
    pub address: SocketAddr,
    /// Whoever has one of these gets in; with none everybody does.
    pub keys: Vec<Key>,
    /// Listens on an address that other machines reach even without a key.
    pub allow_anyone: bool,
    /// Names, beside addresses and `localhost`, that requests may call this server by.
    pub host_names: Vec<String>,
    /// What is taken.
    pub limits: Limits,
    /// Told of every request that was answered.
    pub observe: Option<Observe>,
}

/// Told of every request that was answered, on the server's thread: it should be quick.
pub type Observe = Arc<dyn Fn(&Served) + Send + Sync>;

impl Default for ServeOptions {
    /// A free port of this machine, for itself alone.
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            keys: Vec::new(),
            allow_anyone: false,
            host_names: Vec::new(),
            limits: Limits::default(),
            observe: None,
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
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What a server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests that wait; one more is told to come back.
    pub queue: usize,
    /// Connections open at once; others wait to be accepted.
    pub connections: usize,
    /// Chains times the most tokens of a chain, for one request.
    pub tokens: usize,
    /// Chains of one request for scores.
    pub chains_to_score: usize,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Lines of a request's head.
    pub headers: usize,
    /// Time for the head, and for which a connection may be idle.
    pub head_time: Duration,
    /// Time for the body.
    pub body_time: Duration,
    /// Time for which a client may take nothing of what is there for it.
    pub stall_time: Duration,
    /// The longest search, its wait in the queue included.
    pub search_time: Duration,
    /// Time for what is at work when the server is told to stop.
    pub drain_time: Duration,
    /// The longest silence in a stream.
    pub keep_alive: Duration,
    /// Events kept for a slow reader.
    pub events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue: 256,
            connections: 1024,
            tokens: 1 << 20,
            chains_to_score: 256,
            body_bytes: 1 << 20,
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

/// A request that was answered, for a log: nothing of what it said.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Served {
    /// One of a fixed list of routes, or `other`.
    pub route: &'static str,
    /// The answer's status.
    pub status: u16,
    /// From the request's head to the end of its answer.
    pub seconds: f64,
}
