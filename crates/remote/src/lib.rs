//! Generators and reward models on the servers of other engines: vLLM, `SGLang` and llama.cpp. A
//! generator can also be on any server with `OpenAI`'s completions; then text is exchanged.
//!
//! [`Remote::generator`] and [`Remote::scorer`] implement the traits that local models implement,
//! by the same rules. Chat template, tokenizer and step boundaries are local. **Token ids** are
//! sent and received, so no text is tokenised in two different ways. (Servers that take no ids
//! exchange text.) Each step of a chain is a request, with a seed that follows from the chain. When
//! a chain is pruned, its connection is closed, and the engine stops sampling. If a server cannot
//! do exactly what is needed, that is an error before the first problem. The error names the
//! nearest alternative.
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

/// The thread that sends requests. Generators and scorers share it, so a search can wait for both
/// at once.
#[derive(Debug)]
pub struct Remote {
    requests: Arc<Requests>,
    bell: Bell,
}

impl Remote {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the system has no threads or sockets left.
    pub fn new() -> Result<Self, Error> {
        Ok(Self {
            requests: Arc::new(Requests::start()?),
            bell: Bell::default(),
        })
    }

    /// Connects to servers and finds out which engine and which model they run. `role` names the
    /// servers in error messages.
    ///
    /// # Errors
    /// An address is invalid, a server does not answer, its engine is unknown, or the servers
    /// differ.
    pub fn connect(&self, role: &'static str, servers: &Servers) -> Result<Connection, Error> {
        self.requests.wait(Connection::open(role, servers))
    }
}
