//! The requests and answers of each engine. Each engine has a file, and an entry in `DIALECTS`.

pub(crate) mod chat;
mod llama_cpp;
pub(crate) mod openai;
mod sglang;
pub(crate) mod vllm;

use std::fmt::Debug;

use beamgen_engine::{SamplingParams, Tokenizer};
use serde_json::json;

use crate::client::Call;
use crate::reply::Reply;

/// The supported engines, in the order in which a server's answers are compared with them.
pub(crate) const DIALECTS: &[&dyn Dialect] = &[
    &vllm::Vllm,
    &sglang::SgLang,
    &llama_cpp::LlamaCpp,
    // Last, since any server looks like this one. It is used only if the user names it.
    &openai::OpenAi,
];

/// The size limit of a sampled token in an answer, in bytes. The answer may contain its text
/// several times, as text and as bytes, its id, its log-probability, and names of fields.
const BYTES_OF_TOKEN: usize = 4 << 10;
/// The size limit of a prompt token in an answer, in bytes: some engines return the prompt.
const BYTES_OF_PROMPT_TOKEN: usize = 64;

/// A request to sample the rest of a step, in the same form for all engines.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ask {
    /// The tokens of the prompt and of the chain so far.
    pub ids: Vec<u32>,
    pub max_tokens: usize,
    /// The sampling settings. All of them are sent, since a server would replace missing ones by
    /// its own.
    pub sampling: SamplingParams,
    /// The seed. It is below 2^31, since some engines read a signed 32-bit number.
    pub seed: u32,
    /// The strings at which the server stops sampling.
    pub stop: Vec<String>,
    /// The number of likeliest tokens that the server reports for each sampled token.
    pub alternatives: usize,
}

impl Ask {
    /// Returns the size limit of the part of the answer that grows with the tokens, in bytes.
    fn most_bytes(&self) -> usize {
        let sampled = self.max_tokens.saturating_mul(BYTES_OF_TOKEN);
        sampled.saturating_add(self.ids.len() * BYTES_OF_PROMPT_TOKEN)
    }

    /// Returns the largest number of pieces of a streamed text. Some servers send empty pieces
    /// between tokens.
    fn most_pieces(&self) -> usize {
        self.max_tokens.saturating_mul(2).saturating_add(16)
    }
}

/// Returns the size limit of an answer with the logits of label tokens, in bytes.
fn most_bytes_of_labels(ids: &[u32], labels: &[Label]) -> usize {
    labels.len() * BYTES_OF_TOKEN + ids.len() * BYTES_OF_PROMPT_TOKEN
}

/// The reason why a server stopped sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// One of the strings was sampled, or the server stopped for any other reason except the two
    /// below.
    Stop,
    /// An end-of-text token was sampled, which the server may leave out of the tokens.
    Eos,
    /// The requested number of tokens was sampled, or the model's context is full.
    Limit,
}

/// The tokens that a server sampled for a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Generated {
    pub tokens: Vec<u32>,
    /// The natural log-probability of each token under the model's own distribution.
    pub logprobs: Vec<f32>,
    /// The likeliest tokens for each sampled token, with log-probabilities; empty if not requested.
    pub likeliest: Vec<Vec<(u32, f32)>>,
    pub end: End,
    pub usage: Usage,
}

/// The numbers that a server reports about the prompt of a request; `None` if it reports none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    /// The number of tokens of the prompt, cached ones included.
    pub prompt: Option<u64>,
    /// The number of prompt tokens that were in the server's cache.
    pub cached: Option<u64>,
    /// The time that the request spent in the server's queue, in milliseconds.
    pub queued: Option<u64>,
}

/// The information that a server gives about itself; `None` for what it does not tell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct About {
    pub version: Option<String>,
    pub model: Option<String>,
    /// The source of the model: a folder on the server, or a repository on the hub.
    pub source: Option<String>,
    /// The length of the model's context in tokens.
    pub context: Option<usize>,
}

/// A token whose logit after a step is a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    pub id: u32,
    /// The text of the token, by which engines that exchange text name it.
    pub text: String,
}

impl Label {
    /// Returns the ids of labels.
    pub(crate) fn ids(labels: &[Self]) -> Vec<u32> {
        labels.iter().map(|label| label.id).collect()
    }
}

/// The form of an engine's requests and answers.
pub(crate) trait Dialect: Debug + Send + Sync {
    /// Returns the name of the engine in settings.
    fn name(&self) -> &'static str;

    /// Whether requests and answers contain text, because the engine has no route for token ids.
    fn is_text(&self) -> bool {
        false
    }

    /// Returns the request for the engine's description of itself, by default the list of models.
    fn about(&self) -> Call {
        Call::get("/v1/models")
    }

    /// Reads the answer to [`about`](Self::about); `None` if the answer comes from another engine.
    fn is_about(&self, answer: Reply<'_>) -> Option<About>;

    /// Returns a route that a running server answers at once.
    fn health(&self) -> &'static str {
        "/health"
    }

    /// Makes the request for `ask`. Engines that exchange text use the `tokenizer`.
    fn generate(&self, model: &str, ask: &Ask, tokenizer: &Tokenizer) -> Call;

    /// Reads the sampled tokens from an answer to `ask`.
    ///
    /// # Errors
    /// A field is missing or has an invalid value.
    fn generated(
        &self,
        answer: Reply<'_>,
        ask: &Ask,
        tokenizer: &Tokenizer,
    ) -> Result<Generated, String>;

    /// Makes the request for the logits of `labels` after `ids`. All logits may be off by the same
    /// amount. `text` is the text of `ids` for an engine that exchanges text, and empty for others.
    fn label_logits(&self, model: &str, ids: &[u32], text: &str, labels: &[Label]) -> Call;

    /// Whether the engine reports the [`alternatives`](Ask::alternatives) of a token.
    fn has_alternatives(&self) -> bool {
        false
    }

    /// Reads the logits of `labels`, in the order of `labels`.
    ///
    /// # Errors
    /// A label is missing, or a value is invalid. A missing logit is not replaced: any replacement
    /// would give a wrong score.
    fn labels(&self, answer: Reply<'_>, labels: &[Label]) -> Result<(Vec<f64>, Usage), String>;

    /// Makes the request to tokenise a text without special tokens.
    fn tokenize(&self, model: &str, text: &str) -> Call {
        let body = json!({"model": model, "prompt": text, "add_special_tokens": false});
        Call::post("/tokenize", body, text.len() * BYTES_OF_PROMPT_TOKEN)
    }

    /// Returns what the engine promises about equal requests with equal seeds, for the record of a
    /// run.
    fn promise(&self) -> &'static str;
}

/// Returns the engine with this name in settings; `None` if there is none.
pub(crate) fn named(name: &str) -> Option<&'static dyn Dialect> {
    DIALECTS.iter().copied().find(|d| d.name() == name)
}

/// Returns the names of the engines that can be recognised, for error messages.
pub(crate) fn names() -> String {
    let exact = DIALECTS.iter().filter(|dialect| !dialect.is_text());
    let names: Vec<&str> = exact.map(|dialect| dialect.name()).collect();
    names.join(", ")
}

/// Reads the first entry of an `OpenAI` list of models; `None` if its `owned_by` is not `owner`.
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
    // NaN, negative and absurdly large values are ignored.
    let is_time = (0.0..1e12).contains(&value);
    is_time.then_some(value.round() as u64)
}

/// Refuses an answer unless it has a log-probability for each token.
fn checked(generated: Generated) -> Result<Generated, String> {
    let (tokens, logprobs) = (generated.tokens.len(), generated.logprobs.len());
    // Without this check, zipping the lists would silently drop tokens.
    if tokens == logprobs {
        Ok(generated)
    } else {
        Err(format!("{tokens} tokens, but {logprobs} log-probabilities"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the logits of the labels 7 and 8 from an engine's answer.
    fn labels(engine: &str, answer: &str) -> Result<Vec<f64>, String> {
        let answer = Reply::parse(answer.as_bytes()).unwrap();
        let label = |id, text: &str| Label {
            id,
            text: text.to_owned(),
        };
        let read = named(engine)
            .unwrap()
            .labels(answer, &[label(7, "a"), label(8, "b.")]);
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
    fn an_endpoint_names_labels_by_their_text() {
        let answer = |top: &str| {
            let answer = format!(r#"{{"choices": [{{"logprobs": {{"top_logprobs": [{top}]}}}}]}}"#);
            labels("openai", &answer)
        };
        assert_eq!(
            answer(r#"{"b.": -2, "a": -0.5, "c": -3}"#),
            Ok(vec![-0.5, -2.0])
        );
        let missing = answer(r#"{"a": -0.5}"#).unwrap_err();
        assert!(missing.contains(r#"label "b.""#), "{missing}");
        assert!(
            answer(r#"{"a": 5, "b.": -1}"#)
                .unwrap_err()
                .contains("log-probability")
        );
        assert!(labels("openai", "{}").is_err());
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
