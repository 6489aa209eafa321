//! Facts of a running server for a log. They have no text of a request.

use std::sync::Arc;

/// A callback for the facts of a running server. It runs on the server's thread, so it should be
/// quick.
pub type Observe = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// A fact of a running server.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A request was answered, or its client disconnected.
    Served(&'a Served),
    /// A request has a field that has no effect. Told once for a name.
    FieldIgnored {
        /// The name of the field; `other` for a name that may be a text.
        field: &'a str,
    },
    /// Presets and keys were read again, and are in effect.
    Reloaded {
        /// The number of presets, with the server's own settings.
        presets: usize,
        /// The number of API keys.
        keys: usize,
    },
    /// Presets and keys could not be read again, and the former ones stay in effect.
    NotReloaded {
        /// The fault, in a line.
        reason: &'a str,
    },
}

/// An answered request, without its content.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Served {
    /// The id that the client gave in `X-Request-ID`, or the server's own.
    pub request_id: String,
    /// The label of the route from a fixed list, or `other`.
    pub route: &'static str,
    /// The HTTP status of the answer.
    pub status: u16,
    /// The seconds from the request's head to the end of its answer.
    pub seconds: f64,
    /// The tokens of the request's finished searches; `None` if it had none.
    pub tokens: Option<Tokens>,
}

/// Numbers of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tokens {
    /// Prompt tokens that the generator read.
    pub prompt: u64,
    /// Tokens that were sampled for all chains.
    pub generated: u64,
    /// Tokens that the reward model read.
    pub scored: u64,
}
