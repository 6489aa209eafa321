//! What an engine is asked and how it answers: one file an engine, one row in the table here.

mod llama_cpp;
mod openai;
mod sglang;
pub(crate) mod vllm;

use std::fmt::Debug;

use beamgen_engine::{SamplingParams, Tokenizer};
use serde_json::json;

use crate::client::Call;
use crate::reply::Reply;

/// The engines that are known, in the order in which a server is held to be one of them.
pub(crate) const DIALECTS: &[&dyn Dialect] = &[
    &vllm::Vllm,
    &sglang::SgLang,
    &llama_cpp::LlamaCpp,
    // Any other, for those who ask for it.
    &openai::OpenAi,
];

/// Bytes that an answer has for a token that is sampled: its text some times over, as text and as
/// bytes, its number, its log-probability, and names.
const BYTES_OF_TOKEN: usize = 4 << 10;
/// Bytes that an answer has for a token of the prompt, which some engines give back.
const BYTES_OF_PROMPT_TOKEN: usize = 64;

/// The rest of a step, to be sampled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ask {
    /// Prompt and chain so far.
    pub ids: Vec<u32>,
    pub max_tokens: usize,
    /// Everything is sent, for what is left out comes from the server's own settings.
    pub sampling: SamplingParams,
    /// Below 2^31, which all engines take.
    pub seed: u32,
    /// Strings to stop behind.
    pub stop: Vec<String>,
}

impl Ask {
    /// Bytes that the answer has for the tokens, at most.
    fn most_bytes(&self) -> usize {
        let sampled = self.max_tokens.saturating_mul(BYTES_OF_TOKEN);
        sampled.saturating_add(self.ids.len() * BYTES_OF_PROMPT_TOKEN)
    }

    /// Pieces of text that the tokens come in, at most: some servers send empty ones between them.
    fn most_pieces(&self) -> usize {
        self.max_tokens.saturating_mul(2).saturating_add(16)
    }
}

/// Bytes that an answer has for label tokens behind a prompt, at most.
fn most_bytes_of_labels(ids: &[u32], labels: &[u32]) -> usize {
    labels.len() * BYTES_OF_TOKEN + ids.len() * BYTES_OF_PROMPT_TOKEN
}

/// Why a server stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// At one of the strings, or at something else that is not the end of the text.
    Stop,
    /// An end-of-text token.
    Eos,
    /// The number of tokens asked for, or the model's context.
    Limit,
}

/// What a server sampled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Generated {
    pub tokens: Vec<u32>,
    /// Natural logarithms, one a token, of the model's own distribution.
    pub logprobs: Vec<f32>,
    pub end: End,
    pub usage: Usage,
}

/// What a server says of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    pub prompt: Option<u64>,
    /// Of those, how many it had in its cache.
    pub cached: Option<u64>,
    /// Milliseconds that the request waited in its queue.
    pub queued: Option<u64>,
}

/// What a server says it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct About {
    pub version: Option<String>,
    pub model: Option<String>,
    /// Where the server has the model from: a folder, or a name of the hub.
    pub source: Option<String>,
    /// Tokens of a prompt and what follows it.
    pub context: Option<usize>,
}

/// Requests and answers of one engine.
pub(crate) trait Dialect: Debug + Send + Sync {
    /// As users call it.
    fn name(&self) -> &'static str;

    /// Whether it takes and gives text, for want of a route for token ids.
    fn is_text(&self) -> bool {
        false
    }

    /// Where the engine says what it is: the list of models, unless it has a route that says more.
    fn about(&self) -> Call {
        Call::get("/v1/models")
    }

    /// What the answer there says, if it is this engine's.
    fn is_about(&self, answer: Reply<'_>) -> Option<About>;

    /// A route that a living server answers at once.
    fn health(&self) -> &'static str {
        "/health"
    }

    /// `tokenizer` is for those to whom text is sent.
    fn generate(&self, model: &str, ask: &Ask, tokenizer: &Tokenizer) -> Call;

    /// The sampled tokens in the answer to `ask`.
    ///
    /// # Errors
    /// The answer lacks something, or has a value that cannot be.
    fn generated(
        &self,
        answer: Reply<'_>,
        ask: &Ask,
        tokenizer: &Tokenizer,
    ) -> Result<Generated, String>;

    /// Asks for the logits of `labels` behind `ids`, up to a number that all share.
    fn label_logits(&self, model: &str, ids: &[u32], labels: &[u32]) -> Call;

    /// Whether it gives the logits of tokens that are named.
    fn has_label_logits(&self) -> bool {
        true
    }

    /// The logits of `labels`, in their order.
    ///
    /// # Errors
    /// The answer lacks something, such as a label, for which there is no default. Or it has a value
    /// that cannot be.
    fn labels(&self, answer: Reply<'_>, labels: &[u32]) -> Result<(Vec<f64>, Usage), String>;

    /// The tokens of a text, without those that are added to any text.
    fn tokenize(&self, model: &str, text: &str) -> Call {
        let body = json!({"model": model, "prompt": text, "add_special_tokens": false});
        Call::post("/tokenize", body, text.len() * BYTES_OF_PROMPT_TOKEN)
    }

    /// What the engine promises of equal requests, for the record.
    fn promise(&self) -> &'static str;
}

/// An engine by its name.
pub(crate) fn named(name: &str) -> Option<&'static dyn Dialect> {
    DIALECTS.iter().copied().find(|d| d.name() == name)
}

/// The names of the engines that say what they are, for messages.
pub(crate) fn names() -> String {
    let exact = DIALECTS.iter().filter(|dialect| !dialect.is_text());
    let names: Vec<&str> = exact.map(|dialect| dialect.name()).collect();
    names.join(", ")
}

/// The first model of an `OpenAI` list of models, if `owner` serves it.
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
    let is_time = (0.0..1e12).contains(&value);
    is_time.then_some(value.round() as u64)
}

/// Refuses an answer whose tokens and log-probabilities do not go together.
fn checked(generated: Generated) -> Result<Generated, String> {
    let (tokens, logprobs) = (generated.tokens.len(), generated.logprobs.len());
    if tokens == logprobs {
        Ok(generated)
    } else {
        Err(format!("{tokens} tokens and {logprobs} log-probabilities"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that an engine's answer to a request for labels 7 and 8 gives.
    fn labels(engine: &str, answer: &str) -> Result<Vec<f64>, String> {
        let answer = Reply::parse(answer.as_bytes()).unwrap();
        let read = named(engine).unwrap().labels(answer, &[7, 8]);
        read.map(|(logits, _)| logits)
    }

    #[test]
    fn labels_have_the_numbers_that_their_engine_gives() {
        let vllm = |seven: &str| {
            let top = format!(r#"{{"token_id:8": -2, "token_id:7": {seven}}}"#);
            labels(
                "vllm",
                &format!(r#"{{"choices": [{{"logprobs": {{"top_logprobs": [{top}]}}}}]}}"#),
            )
        };
        let sglang = |seven: &str| {
            let pairs = format!(r#"[[[-2, 8, null], [{seven}, 7, "x"]]]"#);
            labels(
                "sglang",
                &format!(r#"{{"meta_info": {{"output_token_ids_logprobs": {pairs}}}}}"#),
            )
        };
        let llama_cpp = |seven: &str| {
            let top = format!(
                r#"[{{"id": 8, "prob": 0.25}}, {{"id": 7, "prob": {seven}, "token": "x"}}]"#
            );
            labels(
                "llama.cpp",
                &format!(r#"{{"completion_probabilities": [{{"top_probs": {top}}}]}}"#),
            )
        };
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
            error.contains("token_id:7` is 5e0, which is no log-probability"),
            "{error}"
        );
        assert!(labels("vllm", "{}").unwrap_err().contains("label token 7"));
    }
}
