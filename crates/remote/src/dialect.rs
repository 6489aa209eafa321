//! Requests and answers of each engine: a file per engine, a row in the table below.

mod llama_cpp;
mod openai;
mod sglang;
pub(crate) mod vllm;

use std::fmt::Debug;

use beamgen_engine::{SamplingParams, Tokenizer};
use serde_json::json;

use crate::client::Call;
use crate::reply::Reply;

/// The supported engines, in the order in which a server is compared with them.
pub(crate) const DIALECTS: &[&dyn Dialect] = &[
    &vllm::Vllm,
    &sglang::SgLang,
    &llama_cpp::LlamaCpp,
    // The last resort, only used if the user asks for it.
    &openai::OpenAi,
];

/// The size limit of a sampled token in an answer, in bytes: its text several times, as text and as
/// bytes, its id, its log-probability, and names of fields.
const BYTES_OF_TOKEN: usize = 4 << 10;
/// The size limit of a prompt token in an answer, in bytes; some engines return the prompt.
const BYTES_OF_PROMPT_TOKEN: usize = 64;

/// A request to sample the rest of a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ask {
    /// The token ids of the prompt and of the chain so far.
    pub ids: Vec<u32>,
    pub max_tokens: usize,
    /// The sampling settings. All are sent: a server fills in missing ones from its own settings.
    pub sampling: SamplingParams,
    /// The seed, below 2^31 because some engines take only signed 32-bit numbers.
    pub seed: u32,
    /// The strings after which the server stops.
    pub stop: Vec<String>,
    /// The number of likeliest tokens to be told of at each token.
    pub alternatives: usize,
}

impl Ask {
    /// Returns the size limit of the tokens in the answer, in bytes.
    fn most_bytes(&self) -> usize {
        let sampled = self.max_tokens.saturating_mul(BYTES_OF_TOKEN);
        sampled.saturating_add(self.ids.len() * BYTES_OF_PROMPT_TOKEN)
    }

    /// Returns the largest number of streamed pieces of text; some servers send empty ones between
    /// tokens.
    fn most_pieces(&self) -> usize {
        self.max_tokens.saturating_mul(2).saturating_add(16)
    }
}

/// Returns the size limit of an answer about label tokens, in bytes.
fn most_bytes_of_labels(ids: &[u32], labels: &[u32]) -> usize {
    labels.len() * BYTES_OF_TOKEN + ids.len() * BYTES_OF_PROMPT_TOKEN
}

/// The reason why a server stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// One of the strings was sampled, or something else that is not the end of the text.
    Stop,
    /// An end-of-text token was sampled.
    Eos,
    /// The requested number of tokens or the model's context is exhausted.
    Limit,
}

/// The tokens that a server sampled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Generated {
    pub tokens: Vec<u32>,
    /// The log-probability of each token under the model's own distribution, in nats.
    pub logprobs: Vec<f32>,
    /// The likeliest tokens at each token, with their log-probabilities; empty if not asked for.
    pub likeliest: Vec<Vec<(u32, f32)>>,
    pub end: End,
    pub usage: Usage,
}

/// A server's figures on the prompt of a request, where it reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    /// The number of tokens of the prompt.
    pub prompt: Option<u64>,
    /// The number of prompt tokens that were in the server's cache.
    pub cached: Option<u64>,
    /// The time in the server's queue, in milliseconds.
    pub queued: Option<u64>,
}

/// A server's description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct About {
    pub version: Option<String>,
    pub model: Option<String>,
    /// The source of the model: a folder on the server, or a name on the hub.
    pub source: Option<String>,
    /// The context length in tokens.
    pub context: Option<usize>,
}

/// The requests and answers of an engine.
pub(crate) trait Dialect: Debug + Send + Sync {
    /// The name of the engine in settings.
    fn name(&self) -> &'static str;

    /// Whether the engine exchanges text, because it has no route for token ids.
    fn is_text(&self) -> bool {
        false
    }

    /// The route on which the engine describes itself: by default the list of models.
    fn about(&self) -> Call {
        Call::get("/v1/models")
    }

    /// Returns the description in an answer of that route; `None` if the answer is not this
    /// engine's.
    fn is_about(&self, answer: Reply<'_>) -> Option<About>;

    /// A route that a running server answers at once.
    fn health(&self) -> &'static str {
        "/health"
    }

    /// Makes the request for `ask`. Engines that exchange text need the `tokenizer`.
    fn generate(&self, model: &str, ask: &Ask, tokenizer: &Tokenizer) -> Call;

    /// Reads the sampled tokens of an answer to `ask`.
    ///
    /// # Errors
    /// A field is missing or has an invalid value.
    fn generated(
        &self,
        answer: Reply<'_>,
        ask: &Ask,
        tokenizer: &Tokenizer,
    ) -> Result<Generated, String>;

    /// Makes the request for the logits of `labels` after `ids`. The logits may share an unknown
    /// offset.
    fn label_logits(&self, model: &str, ids: &[u32], labels: &[u32]) -> Call;

    /// Whether the engine tells of the [`alternatives`](Ask::alternatives) of a token.
    fn has_alternatives(&self) -> bool {
        false
    }

    /// Whether the engine can return the logits of given tokens.
    fn has_label_logits(&self) -> bool {
        true
    }

    /// Reads the logits of `labels`, in their order.
    ///
    /// # Errors
    /// A label is missing, or a value is invalid. A missing label has no default: any value would
    /// be a wrong score.
    fn labels(&self, answer: Reply<'_>, labels: &[u32]) -> Result<(Vec<f64>, Usage), String>;

    /// Makes the request for the tokens of a text, without special tokens.
    fn tokenize(&self, model: &str, text: &str) -> Call {
        let body = json!({"model": model, "prompt": text, "add_special_tokens": false});
        Call::post("/tokenize", body, text.len() * BYTES_OF_PROMPT_TOKEN)
    }

    /// The engine's promise on equal requests with equal seeds, for the record.
    fn promise(&self) -> &'static str;
}

/// Returns an engine by its name in settings.
pub(crate) fn named(name: &str) -> Option<&'static dyn Dialect> {
    DIALECTS.iter().copied().find(|d| d.name() == name)
}

/// Returns the names of the engines that can be recognised, for messages.
pub(crate) fn names() -> String {
    let exact = DIALECTS.iter().filter(|dialect| !dialect.is_text());
    let names: Vec<&str> = exact.map(|dialect| dialect.name()).collect();
    names.join(", ")
}

/// Reads the first model of an `OpenAI` list of models, if `owner` serves the list.
fn listed(answer: Reply<'_>, owner: &str) -> Option<About> {
    let named: String = answer.maybe("data.0.owned_by")?;
    (named == owner).then(|| About {
        version: None,
        model: answer.maybe("data.0.id"),
        source: answer.maybe("data.0.root"),
        context: answer.maybe("data.0.max_model_len"),
    })
}

fn milliseconds(value: f64) -> Option<u64> {
    // Excludes NaN, negative and absurd values.
    let is_time = (0.0..1e12).contains(&value);
    is_time.then_some(value.round() as u64)
}

/// Checks that an answer has a log-probability for each token.
fn checked(generated: Generated) -> Result<Generated, String> {
    let (tokens, logprobs) = (generated.tokens.len(), generated.logprobs.len());
    // Zipped lists of different lengths would lose tokens silently.
    if tokens == logprobs {
        Ok(generated)
    } else {
        Err(format!("{tokens} tokens, but {logprobs} log-probabilities"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an engine's answer to a request for the labels 7 and 8.
    fn labels(engine: &str, answer: &str) -> Result<Vec<f64>, String> {
        let answer = Reply::parse(answer.as_bytes()).unwrap();
        let read = named(engine).unwrap().labels(answer, &[7, 8]);
        read.map(|(logits, _)| logits)
    }

    fn vllm(seven: &str) -> Result<Vec<f64>, String> {
        let top = format!(r#"{{"token_id:8": -2, "token_id:7": {seven}}}"#);
        labels(
            "vllm",
            &format!(r#"{{"choices": [{{"logprobs": {{"top_logprobs": [{top}]}}}}]}}"#),
        )
    }

    fn sglang(seven: &str) -> Result<Vec<f64>, String> {
        let pairs = format!(r#"[[[-2, 8, null], [{seven}, 7, "x"]]]"#);
        labels(
            "sglang",
            &format!(r#"{{"meta_info": {{"output_token_ids_logprobs": {pairs}}}}}"#),
        )
    }

    fn llama_cpp(seven: &str) -> Result<Vec<f64>, String> {
        let top =
            format!(r#"[{{"id": 8, "prob": 0.25}}, {{"id": 7, "prob": {seven}, "token": "x"}}]"#);
        labels(
            "llama.cpp",
            &format!(r#"{{"completion_probabilities": [{{"top_probs": {top}}}]}}"#),
        )
    }

    #[test]
    fn labels_have_the_numbers_that_their_engine_gives() {
        assert_eq!(vllm("-0.5"), Ok(vec![-0.5, -2.0]));
        assert_eq!(sglang("-0.5"), Ok(vec![-0.5, -2.0]));
        assert_eq!(llama_cpp("1"), Ok(vec![0.0, 0.25_f64.ln()]));
        for bad in ["5", "-1e308", "0.01", "null", "\"x\""] {
            assert!(vllm(bad).is_err(), "{bad}");
            assert!(sglang(bad).is_err(), "{bad}");
        }
        for bad in ["5", "-1e308", "-0.5", "null", "\"x\""] {
            assert!(llama_cpp(bad).is_err(), "{bad}");
        }
        let error = vllm("5").unwrap_err();
        assert!(
            error.contains("token_id:7` is 5e0, which is not a log-probability"),
            "{error}"
        );
        assert!(labels("vllm", "{}").unwrap_err().contains("label token 7"));
    }
}
