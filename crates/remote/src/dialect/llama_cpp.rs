//! llama.cpp's server: `POST /completion` with token ids.
//!
//! It leaves out the probabilities of some tokens: of those that it stopped at, and of those that
//! end within a character. Here they count as certain. That is one or two tokens of most steps.

use beamgen_engine::Tokenizer;
use serde_json::{Value, json};

use super::{About, Ask, Dialect, End, Generated, Usage, count, ids, number, string, without};
use crate::client::Call;
use crate::error::BadAnswer;

#[derive(Debug)]
pub(crate) struct LlamaCpp;

const COMPLETION: &str = "/completion";
/// Added to the logits of all labels, so that they are the likeliest tokens: their ratio stays.
const BIAS: f64 = 60.0;

impl Dialect for LlamaCpp {
    fn name(&self) -> &'static str {
        "llama.cpp"
    }

    fn about(&self) -> Call {
        Call::get("/props")
    }

    fn is_about(&self, answer: &Value) -> Option<About> {
        let settings = &answer["default_generation_settings"];
        settings.is_object().then(|| About {
            version: string(&answer["build_info"]),
            model: string(&answer["model_alias"]).or_else(|| string(&answer["model_path"])),
            source: string(&answer["model_path"]),
            // Of one slot.
            context: count(&settings["n_ctx"]),
        })
    }

    fn generate(&self, _model: &str, ask: &Ask, _: &Tokenizer) -> Call {
        let s = ask.sampling;
        // The server makes a table of this size.
        let counted = match s.repetition_penalty == 1.0 {
            true => 0,
            false => ask.ids.len() + ask.max_tokens,
        };
        Call::post(
            COMPLETION,
            json!({
                "prompt": ask.ids,
                "n_predict": ask.max_tokens,
                // In the order of `transformers`, and nothing else.
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
        )
    }

    fn generated(&self, answer: &Value, _: &Tokenizer) -> Result<Generated, BadAnswer> {
        // Absent where it would be empty.
        let entries = answer["completion_probabilities"].as_array();
        let mut known = entries.into_iter().flatten().peekable();
        let tokens = ids(&answer["tokens"]).ok_or_else(without("tokens"))?;
        let logprobs = tokens.iter().map(|&token| {
            let Some(entry) = known.next_if(|entry| entry["id"] == token) else {
                return Ok(0.0);
            };
            let logprob = number(&entry["logprob"]).ok_or("a log-probability is no number")?;
            Ok(logprob as f32)
        });
        let logprobs = logprobs.collect::<Result<_, BadAnswer>>()?;
        if known.next().is_some() {
            return Err("probabilities of tokens that are not there".into());
        }
        let end = match answer["stop_type"].as_str() {
            Some("eos") => End::Eos,
            Some("word") => End::Stop,
            Some("limit") => End::Limit,
            other => return Err(format!("`stop_type` is {other:?}").into()),
        };
        Ok(Generated {
            tokens,
            logprobs,
            end,
            usage: usage(answer),
        })
    }

    fn label_logits(&self, _model: &str, ids: &[u32], labels: &[u32]) -> Call {
        let bias: Vec<_> = labels.iter().map(|label| json!([label, BIAS])).collect();
        Call::post(
            COMPLETION,
            json!({
                "prompt": ids,
                "n_predict": 1,
                "samplers": ["temperature"],
                "temperature": 1.0,
                "logit_bias": bias,
                "n_probs": labels.len(),
                "post_sampling_probs": true,
                "cache_prompt": true,
                "stream": false,
            }),
        )
    }

    fn labels(&self, answer: &Value, labels: &[u32]) -> Result<(Vec<f64>, Usage), BadAnswer> {
        let found = answer["completion_probabilities"][0]["top_probs"].as_array();
        let found = found.ok_or_else(without("completion_probabilities[0].top_probs"))?;
        let of = |label: &u32| {
            let entry = found.iter().find(|entry| entry["id"] == *label);
            entry
                .and_then(|entry| number(&entry["prob"]))
                .map(f64::ln)
                .ok_or_else(|| format!("without a probability of label token {label}"))
        };
        let logits = labels.iter().map(of).collect::<Result<_, _>>()?;
        Ok((logits, usage(answer)))
    }

    fn tokenize(&self, _model: &str, text: &str) -> Call {
        Call::post(
            "/tokenize",
            json!({"content": text, "add_special": false, "parse_special": true}),
        )
    }

    fn promise(&self) -> &'static str {
        "equal seeds, equal noise; logits depend on what else is in a batch and on what is cached"
    }
}

fn usage(answer: &Value) -> Usage {
    let timings = &answer["timings"];
    let (cached, read) = (timings["cache_n"].as_u64(), timings["prompt_n"].as_u64());
    Usage {
        prompt: cached.zip(read).map(|(cached, read)| cached + read),
        cached,
        queued: None,
    }
}
