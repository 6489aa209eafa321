//! Settings of servers that run a model, instead of this process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Servers that run the generator (`[models.generator_server]`) or the reward model
/// (`[models.prm_server]`). Tokenizer and chat template come from the model in `[models]`, whose
/// weights are not read.
///
/// A build without the feature `remote` refuses these settings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// Addresses such as `http://HOST:PORT`. All requests of a problem go to the same server.
    pub urls: Vec<String>,
    /// The kind of server: `vllm`, `sglang`, `llama.cpp` or `openai`. Absent: recognised from the
    /// servers' answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The name of the model on the servers. Absent: the model that they serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The maximum number of tokens of a chain with its prompt. Absent: the context that the
    /// servers report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// A file with the servers' API key and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Whether the API key may be sent to another machine over an unencrypted connection.
    pub plain_http_key: bool,
    /// The maximum number of open requests to each server.
    pub in_flight: usize,
    /// The time limit in seconds until the first byte of an answer. A server may generate a whole
    /// step before it sends the first byte.
    pub first_byte_seconds: u64,
    /// The time in seconds for which a request is retried while no server can be reached.
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
