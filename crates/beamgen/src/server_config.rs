//! Servers that run a model in place of this process, as settings.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};

/// Servers that run the generator or the reward model: `[models.generator_server]`, `[models.prm_server]`.
/// The model's name beside it then says whose tokenizer and chat template are used; its weights are not read.
///
/// Acts in builds with the feature `remote`; others refuse it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// `http://HOST:PORT`, one or several. Each problem is pinned to one of them. A file may also give one
    /// string, or call it `url`.
    #[serde(alias = "url", deserialize_with = "one_or_more")]
    pub urls: Vec<String>,
    /// `vllm`, `sglang` or `llama.cpp`; absent: as the servers answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The model's name on the servers; absent: the one that they serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
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
            key_file: None,
            plain_http_key: false,
            in_flight: 256,
            first_byte_seconds: 300,
            patience_seconds: 120,
        }
    }
}

/// A string, or a list of them.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an address or a list of addresses")]
    enum Strings {
        One(String),
        More(Vec<String>),
    }
    Ok(match Strings::deserialize(from)? {
        Strings::One(one) => vec![one],
        Strings::More(more) => more,
    })
}
