//! Generators and reward models that other engines serve: vLLM, `SGLang` and llama.cpp's server; for
//! generators any endpoint with `OpenAI`'s completions, too, by text.
//!
//! [`Remote::generator`] and [`Remote::scorer`] give the search what the local models give it, by
//! the same rules: chat template, tokenizer and step boundaries are local, and **token ids** go
//! both ways (text alone where an endpoint takes no ids), so that no text is tokenised twice in two
//! ways. One request is one step of one chain, with a seed that follows from the chain; a chain that
//! is pruned closes its connection, at which the engines stop. What a server cannot do exactly is
//! refused before the first problem, with the nearest way that works.
//!
//! ```no_run
//! use std::sync::Arc;
//! use beamgen_engine::Tokenizer;
//! use beamgen_remote::{Remote, Servers};
//! use beamgen_search::GeneratorConfig;
//!
//! let remote = Remote::new()?;
//! let connection = remote.connect("generator", &Servers::at(["http://127.0.0.1:8000"]))?;
//! let tokenizer = Arc::new(Tokenizer::load(std::path::Path::new("Qwen2.5-Math-1.5B-Instruct"))?);
//! let (generator, facts) = remote.generator(connection, tokenizer, &GeneratorConfig::default())?;
//! assert_eq!(facts.engine, generator.connection().engine());
//! # Ok::<(), beamgen_remote::Error>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod address;
mod client;
mod dialect;
mod error;
mod generator;
mod inbox;
mod limit;
mod probe;
mod replicas;
mod reply;
mod requests;
mod retry;
mod route;
mod scorer;
mod servers;
mod stream;

use std::sync::Arc;

pub use address::{Address, ApiKey};
pub use error::{Error, Failure};
pub use generator::RemoteGenerator;
pub use replicas::Traffic;
pub use scorer::RemoteScorer;
pub use servers::{Connection, ServerFacts, Servers};

use inbox::Bell;
use requests::Requests;

/// Makes requests, on a thread of its own, for generators and scorers that wait for them together.
#[derive(Debug)]
pub struct Remote {
    requests: Arc<Requests>,
    bell: Bell,
}

impl Remote {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Error::Runtime`]: the system has no thread or no sockets.
    pub fn new() -> Result<Self, Error> {
        Ok(Self {
            requests: Arc::new(Requests::start()?),
            bell: Bell::default(),
        })
    }

    /// Finds out what servers are. `role` is for messages.
    ///
    /// # Errors
    /// An address is none, a server does not answer, is of no engine that is known, or they are not
    /// alike.
    pub fn connect(&self, role: &'static str, servers: &Servers) -> Result<Connection, Error> {
        self.requests.wait(Connection::open(role, servers))
    }
}
