//! Events of a running server, for a log. No event contains text of a request.

use std::sync::Arc;

/// A callback for events of a running server. It runs on the thread that serves all requests, so it
/// must return quickly.
pub type Observe = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// An event of a running server.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A request was answered, or its client disconnected.
    Served(&'a Served),
    /// A request has a field without effect. Reported once per name.
    FieldIgnored {
        /// The name of the field; `other` if the name is unknown and may be private text.
        field: &'a str,
    },
    /// Presets and keys were read again and are in effect.
    Reloaded {
        /// The number of presets, including the one with the server's own settings.
        presets: usize,
        /// The number of accepted API keys; 0 if requests need no key.
        keys: usize,
    },
    /// Presets and keys could not be read again; the former ones stay in effect.
    NotReloaded {
        /// The fault, in one line.
        reason: &'a str,
    },
}

/// The facts about an answered request, without its content.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Served {
    /// The id from the header `X-Request-ID`, or a new one if the client sent none that can be
    /// logged.
    pub request_id: String,
    /// The label of the route: one of a fixed list, or `other`.
    pub route: &'static str,
    /// The HTTP status of the answer; 499 if the client disconnected first.
    pub status: u16,
    /// The time from the request's head to the end of its answer, in seconds.
    pub seconds: f64,
    /// The tokens of the request's finished searches; `None` if no search finished.
    pub tokens: Option<Tokens>,
}

/// Numbers of tokens that a request cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tokens {
    /// Prompt tokens that the generator processed.
    pub prompt: u64,
    /// Sampled tokens of all chains.
    pub generated: u64,
    /// Tokens that the reward model processed.
    pub scored: u64,
}
