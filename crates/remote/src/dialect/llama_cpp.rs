//! llama.cpp's server: `POST /completion` with token ids.
//!
//! The server reports no probability for some tokens: those at which it stopped, and those that end
//! inside a character. Here their log-probability is taken as 0. That affects one or two tokens of
//! most steps.

use beamgen_engine::Tokenizer;
use serde::Deserialize;
use serde_json::json;

use super::{
    About, Ask, BYTES_OF_PROMPT_TOKEN, Dialect, End, Generated, Label, Usage, most_bytes_of_labels,
};
use crate::client::Call;
use crate::reply::{Reply, logprob, probability};

#[derive(Debug)]
pub(crate) struct LlamaCpp;

const COMPLETION: &str = "/completion";
/// A number that is added to the logits of all labels, so that they are the likeliest tokens. The
/// ratios of their probabilities stay the same.
const BIAS: f64 = 60.0;

/// A sampled token with its log-probability.
#[derive(Deserialize)]
struct Sampled {
    id: u32,
    logprob: f64,
}

/// A label token with its probability.
#[derive(Deserialize)]
struct Likely {
    id: u32,
    prob: f64,
}

impl Dialect for LlamaCpp {
    fn name(&self) -> &'static str {
        "llama.cpp"
    }

    fn about(&self) -> Call {
        Call::get("/props")
    }

    fn is_about(&self, answer: Reply<'_>) -> Option<About> {
        answer.has("default_generation_settings").then(|| About {
            version: answer.maybe("build_info"),
            model: answer
                .maybe("model_alias")
                .or_else(|| answer.maybe("model_path")),
            source: answer.maybe("model_path"),
            // The context of a slot, since all slots share the context of the server.
            context: answer.maybe("default_generation_settings.n_ctx"),
        })
    }

    fn generate(&self, _model: &str, ask: &Ask, _: &Tokenizer) -> Call {
        let s = ask.sampling;
        // The number of last tokens to which the penalty applies. The server allocates a table of
        // this size, so without a penalty it is 0.
        let counted = if s.repetition_penalty == 1.0 {
            0
        } else {
            ask.ids.len() + ask.max_tokens
        };
        Call::post(
            COMPLETION,
            json!({
                "prompt": ask.ids,
                "n_predict": ask.max_tokens,
                // The order of `transformers`. The list also removes the samplers that the server
                // uses by default.
                "samplers": ["penalties", "temperature", "top_k", "top_p", "min_p"],
                "temperature": s.temperature,
                "top_p": s.top_p,
                "top_k": s.top_k,
                "min_p": s.min_p,
                "repeat_penalty": s.repetition_penalty,
                "repeat_last_n": counted,
                "presence_penalty": 0.0,
                "frequency_penalty": 0.0,
                "seed": ask.seed,
                "stop": ask.stop,
                "return_tokens": true,
                "n_probs": 1,
                "post_sampling_probs": false,
                "cache_prompt": true,
                "stream": false,
            }),
            ask.most_bytes(),
        )
    }

    fn generated(&self, answer: Reply<'_>, ask: &Ask, _: &Tokenizer) -> Result<Generated, String> {
        let (most, field) = (ask.max_tokens, "completion_probabilities");
        // The server leaves out the field if the list would be empty.
        let known = answer
            .maybe_list::<Sampled>(field, most)?
            .unwrap_or_default();
        // The list lacks some tokens, so its entries are matched with `tokens` by id.
        let mut known = known.into_iter().enumerate().peekable();
        let tokens: Vec<u32> = answer.list("tokens", most)?;
        let logprobs =
            tokens.iter().map(
                |&token| match known.next_if(|(_, sampled)| sampled.id == token) {
                    Some((at, sampled)) => {
                        logprob(format_args!("{field}.{at}.logprob"), sampled.logprob)
                    }
                    None => Ok(0.0),
                },
            );
        let logprobs = logprobs.collect::<Result<_, String>>()?;
        if known.next().is_some() {
            return Err("probabilities of tokens that were not sampled".into());
        }
        let end = match answer.maybe::<String>("stop_type").as_deref() {
            Some("eos") => End::Eos,
            Some("word") => End::Stop,
            Some("limit") => End::Limit,
            other => return Err(format!("`stop_type` is {other:?}")),
        };
        Ok(Generated {
            likeliest: Vec::new(),
            tokens,
            logprobs,
            end,
            usage: usage(answer),
        })
    }

    fn label_logits(&self, _model: &str, ids: &[u32], _: &str, labels: &[Label]) -> Call {
        let bias: Vec<_> = labels.iter().map(|label| json!([label.id, BIAS])).collect();
        Call::post(
            COMPLETION,
            json!({
                "prompt": ids,
                "n_predict": 1,
                "samplers": ["temperature"],
                "temperature": 1.0,
                "logit_bias": bias,
                "n_probs": labels.len(),
                // The probabilities after the bias, of which the labels have nearly all.
                "post_sampling_probs": true,
                "cache_prompt": true,
                "stream": false,
            }),
            most_bytes_of_labels(ids, labels),
        )
    }

    fn labels(&self, answer: Reply<'_>, labels: &[Label]) -> Result<(Vec<f64>, Usage), String> {
        let field = "completion_probabilities.0.top_probs";
        let found = answer.list::<Likely>(field, labels.len())?;
        let logits = labels
            .iter()
            .map(|Label { id: label, .. }| {
                let entry = found.iter().find(|entry| entry.id == *label);
                let entry =
                    entry.ok_or_else(|| format!("without a probability of label token {label}"))?;
                Ok(probability(format_args!("{field} of token {label}"), entry.prob)?.ln())
            })
            .collect::<Result<_, String>>()?;
        Ok((logits, usage(answer)))
    }

    fn tokenize(&self, _model: &str, text: &str) -> Call {
        let body = json!({"content": text, "add_special": false, "parse_special": true});
        Call::post("/tokenize", body, text.len() * BYTES_OF_PROMPT_TOKEN)
    }

    fn promise(&self) -> &'static str {
        "equal seeds, equal noise; logits depend on what else is in a batch and on what is cached"
    }
}

fn usage(answer: Reply<'_>) -> Usage {
    // The server's count of read tokens lacks the cached ones.
    let [cached, read] =
        ["timings.cache_n", "timings.prompt_n"].map(|field| answer.maybe::<u64>(field));
    Usage {
        prompt: cached
            .zip(read)
            .map(|(cached, read)| cached.saturating_add(read)),
        cached,
        queued: None,
    }
}
