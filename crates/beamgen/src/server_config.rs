//! Servers that run a model in place of this process, as settings.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Servers that run the generator (`[models.generator_server]`) or the reward model
/// (`[models.prm_server]`). The model named in `[models]` then says whose tokenizer and chat
/// template are used. Its weights are not read.
///
/// Acts in builds with the feature `remote`; others refuse it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// `http://HOST:PORT`, one or several. Each problem is pinned to one of them.
    pub urls: Vec<String>,
    /// `vllm`, `sglang`, `llama.cpp` or `openai`; absent: as the servers answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The model's name on the servers; absent: the one that they serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens that a chain may have with its prompt; absent: as many as the servers say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// A file with the servers' key and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Sends the key to another machine even if others can read it on the way.
    pub plain_http_key: bool,
    /// Most requests at a server at once.
    pub in_flight: usize,
    /// Seconds that the first byte of an answer may take, in which a whole step is generated.
    pub first_byte_seconds: u64,
    /// Seconds for which a request that finds no server is made again and again.
    pub patience_seconds: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            engine: None,
            model: None,
            context: None,
            key_file: None,
            plain_http_key: false,
            in_flight: 256,
            first_byte_seconds: 300,
            patience_seconds: 120,
        }
    }
}
