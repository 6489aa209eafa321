//! `beamgen serve`: a solver behind an OpenAI-compatible HTTP API.
//!
//! The engine runs on a thread of its own ([`beamgen::Service`]); one other thread runs everything
//! in this crate. A request is checked (`gate`), parsed (`body`, `fields`, `ask`), searched
//! (`search`), and answered as a whole (`answer`) or as a stream (`stream`, `events`).
//! docs/reference/http.md describes the protocol.
//!
//! This crate never prints, and reads no environment variables. Log events go to a callback of the
//! caller, and never contain text of a request.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod access;
mod answer;
mod app;
mod ask;
mod body;
mod calls;
mod chat;
mod choices;
mod error;
mod events;
mod field_table;
mod fields;
mod gate;
mod histogram;
mod ignored;
mod listen;
mod local;
mod log;
mod long_texts;
mod mend;
mod metrics;
mod models;
mod monitor;
mod openapi;
mod options;
mod origins;
mod own;
mod page;
mod parts;
mod presets;
mod prompts;
mod refusal;
mod reload;
mod request_id;
mod reward;
mod routes;
mod sampling;
mod schema;
mod search;
mod seeds;
mod server;
mod spent;
mod stall;
mod stop;
mod stream;
mod text;
mod writing;

pub use access::{Key, KeyError};
pub use error::Error;
pub use local::{Answer, LocalPage};
pub use log::{Event, Observe, Served, Tokens};
pub use options::{Limits, ServeOptions};
pub use origins::{Origin, OriginError};
pub use presets::{BUILT_IN_PRESETS, Preset, Presets};
pub use reload::{Loaded, Reload};
pub use server::Server;
pub use stop::Stop;
