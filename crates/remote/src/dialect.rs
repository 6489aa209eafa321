//! What an engine is asked and how it answers: one file an engine, one row in the table here.

mod llama_cpp;
mod openai;
mod sglang;
pub(crate) mod vllm;

use std::fmt::Debug;

use beamgen_engine::{SamplingParams, Tokenizer};
use serde_json::{Value, json};

use crate::client::Call;
use crate::error::BadAnswer;

/// The engines that are known, in the order in which a server is held to be one of them.
pub(crate) const DIALECTS: &[&dyn Dialect] = &[
    &vllm::Vllm,
    &sglang::SgLang,
    &llama_cpp::LlamaCpp,
    // Any other, for those who ask for it.
    &openai::OpenAi,
];

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
    fn is_about(&self, answer: &Value) -> Option<About>;

    /// A route that a living server answers at once.
    fn health(&self) -> &'static str {
        "/health"
    }

    /// `tokenizer` is for those to whom text is sent.
    fn generate(&self, model: &str, ask: &Ask, tokenizer: &Tokenizer) -> Call;

    /// # Errors
    /// What is missing in the answer.
    fn generated(&self, answer: &Value, tokenizer: &Tokenizer) -> Result<Generated, BadAnswer>;

    /// Asks for the logits of `labels` behind `ids`, up to a number that all share.
    fn label_logits(&self, model: &str, ids: &[u32], labels: &[u32]) -> Call;

    /// Whether it gives the logits of tokens that are named.
    fn has_label_logits(&self) -> bool {
        true
    }

    /// The logits of `labels`, in their order.
    ///
    /// # Errors
    /// What is missing in the answer: a label, say. There is no default for it.
    fn labels(&self, answer: &Value, labels: &[u32]) -> Result<(Vec<f64>, Usage), BadAnswer>;

    /// The tokens of a text, without those that are added to any text.
    fn tokenize(&self, model: &str, text: &str) -> Call {
        let body = json!({"model": model, "prompt": text, "add_special_tokens": false});
        Call::post("/tokenize", body)
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

/// The first model of an OpenAI list of models, if `owner` serves it.
fn listed(answer: &Value, owner: &str) -> Option<About> {
    let model = &answer["data"][0];
    (model["owned_by"] == owner).then(|| About {
        version: None,
        model: string(&model["id"]),
        source: string(&model["root"]),
        context: count(&model["max_model_len"]),
    })
}

fn milliseconds(value: &Value) -> Option<u64> {
    let value = number(value).filter(|value| (0.0..1e12).contains(value))?;
    Some(value.round() as u64)
}

/// The tokens in the answer of a route that tokenises.
pub(crate) fn tokenised(answer: &Value) -> Result<Vec<u32>, BadAnswer> {
    ids(&answer["tokens"]).ok_or_else(without("tokens"))
}

/// The ids at a place of an answer.
fn ids(value: &Value) -> Option<Vec<u32>> {
    let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
    value.as_array()?.iter().map(id).collect()
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| !number.is_nan())
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn count(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

/// Refuses an answer whose tokens and log-probabilities do not go together.
fn checked(generated: Generated) -> Result<Generated, BadAnswer> {
    let (tokens, logprobs) = (generated.tokens.len(), generated.logprobs.len());
    match tokens == logprobs {
        true => Ok(generated),
        false => Err(format!("{tokens} tokens and {logprobs} log-probabilities").into()),
    }
}

/// What is named but not found in an answer.
fn without(field: &str) -> impl Fn() -> BadAnswer + '_ {
    move || format!("without `{field}`").into()
}
