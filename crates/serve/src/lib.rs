//! `beamgen serve`: a solver behind HTTP, in the shape of `OpenAI`'s API.
//!
//! The engine stays on its own thread ([`beamgen::Service`]); one more thread runs everything here.
//! A request is let in (`gate`), read (`body`, `fields`, `ask`), searched (`search`), and answered
//! at once (`answer`) or in a stream (`stream`, `events`). docs/reference/http.md has the protocol.
//!
//! This crate never prints and reads no environment. What it logs is handed to whoever starts it,
//! and has no text of a request in it.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod access;
mod answer;
mod app;
mod ask;
mod body;
mod chat;
mod error;
mod events;
mod fields;
mod gate;
mod histogram;
mod labels;
mod listen;
mod local;
mod long_texts;
mod mend;
mod metrics;
mod models;
mod options;
mod page;
mod presets;
mod refusal;
mod routes;
mod score;
mod search;
mod server;
mod stall;
mod stop;
mod stream;

pub use access::{Key, KeyError};
pub use error::Error;
pub use local::{Answer, LocalPage};
pub use options::{Limits, Observe, ServeOptions, Served};
pub use presets::{BUILT_IN_PRESETS, Preset, Presets};
pub use server::Server;
pub use stop::Stop;
