//! Generators and reward models that run on other engines' servers: vLLM, `SGLang` and llama.cpp.
//! Generators can also run on any endpoint with `OpenAI`'s completions, which exchanges text.
//!
//! [`Remote::generator`] and [`Remote::scorer`] implement the same traits as local models, by the
//! same rules. Chat template, tokenizer and step boundaries are local, and **token ids** are sent
//! and received, so that no text is tokenised twice in two ways. (Endpoints that take no ids
//! exchange text.) A request is a step of a chain, with a seed that follows from the chain. A
//! pruned chain closes its connection, which makes the engine stop. A request that a server cannot
//! serve exactly is refused before the first problem, with an error that names the nearest
//! alternative.
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

/// The thread that makes requests, shared by generators and scorers, so that a search can wait for
/// both at once.
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

    /// Connects to servers and asks which engine and which model they run. `role` names the servers
    /// in messages.
    ///
    /// # Errors
    /// An address is invalid, a server does not answer or runs an unknown engine, or the servers
    /// differ.
    pub fn connect(&self, role: &'static str, servers: &Servers) -> Result<Connection, Error> {
        self.requests.wait(Connection::open(role, servers))
    }
}
