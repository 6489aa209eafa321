//! Settings of servers that run a model in place of this process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Servers that run the generator (`[models.generator_server]`) or the reward model
/// (`[models.prm_server]`). The tokenizer and the chat template are those of the model in `[models]`,
/// whose weights are not read.
///
/// A build without the feature `remote` returns an error for these settings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// The addresses, `http://HOST:PORT`. All requests of a problem go to the same server.
    pub urls: Vec<String>,
    /// The engine: `vllm`, `sglang`, `llama.cpp` or `openai`; absent: recognised from the servers'
    /// answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The model's name on the servers; absent: the model that they serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The most tokens of a chain with its prompt; absent: the context that the servers report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// A file that contains the servers' API key only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Whether the API key may be sent to another machine without encryption.
    pub plain_http_key: bool,
    /// The most open requests of a server.
    pub in_flight: usize,
    /// The most seconds before the first byte of an answer, in which a whole step is generated.
    pub first_byte_seconds: u64,
    /// The seconds for which a request that reaches no server is retried.
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
