//! SGLang: its own `POST /generate`, with token ids both ways.

use beamgen_engine::Tokenizer;
use serde_json::{Value, json};

use super::{
    About, Ask, Dialect, End, Generated, Usage, checked, ids, listed, milliseconds, number, without,
};
use crate::client::Call;
use crate::error::BadAnswer;

#[derive(Debug)]
pub(crate) struct SgLang;

const GENERATE: &str = "/generate";

impl Dialect for SgLang {
    fn name(&self) -> &'static str {
        "sglang"
    }

    fn is_about(&self, answer: &Value) -> Option<About> {
        listed(answer, "sglang")
    }

    /// `/health` computes a token.
    fn health(&self) -> &'static str {
        "/ready"
    }

    fn generate(&self, _model: &str, ask: &Ask, _: &Tokenizer) -> Call {
        let s = ask.sampling;
        let top_k = match s.top_k {
            0 => -1,
            k => i64::try_from(k).unwrap_or(i64::MAX),
        };
        Call::post(
            GENERATE,
            json!({
                "input_ids": ask.ids,
                "sampling_params": {
                    "max_new_tokens": ask.max_tokens,
                    "temperature": s.temperature,
                    "top_p": s.top_p,
                    "top_k": top_k,
                    "min_p": s.min_p,
                    "repetition_penalty": s.repetition_penalty,
                    "presence_penalty": 0.0,
                    "frequency_penalty": 0.0,
                    "sampling_seed": ask.seed,
                    "stop": ask.stop,
                    "no_stop_trim": true,
                    "skip_special_tokens": false,
                },
                "return_logprob": true,
                "logprob_start_len": -1,
                "stream": false,
            }),
        )
    }

    fn generated(&self, answer: &Value, _: &Tokenizer) -> Result<Generated, BadAnswer> {
        let meta = &answer["meta_info"];
        let logprobs = meta["output_token_logprobs"].as_array();
        let logprobs = logprobs.ok_or_else(without("meta_info.output_token_logprobs"))?;
        let tokens = ids(&answer["output_ids"]).ok_or_else(without("output_ids"))?;
        let finish = &meta["finish_reason"];
        let end = match (finish["type"].as_str(), &finish["matched"]) {
            (Some("length"), _) => End::Limit,
            (Some("stop"), Value::Number(_)) => End::Eos,
            (Some("stop"), _) => End::Stop,
            (Some("abort"), _) => {
                let message = finish["message"].as_str().unwrap_or("without a reason");
                return Err(format!("the server gave up: {message}").into());
            }
            (other, _) => return Err(format!("`finish_reason.type` is {other:?}").into()),
        };
        checked(Generated {
            tokens,
            logprobs: logprobs
                .iter()
                .map(|entry| number(&entry[0]).map(|number| number as f32))
                .collect::<Option<_>>()
                .ok_or("a log-probability is no number")?,
            end,
            usage: usage(meta),
        })
    }

    fn label_logits(&self, _model: &str, ids: &[u32], labels: &[u32]) -> Call {
        Call::post(
            GENERATE,
            json!({
                "input_ids": ids,
                "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
                "return_logprob": true,
                "logprob_start_len": -1,
                "token_ids_logprob": labels,
                "stream": false,
            }),
        )
    }

    fn labels(&self, answer: &Value, labels: &[u32]) -> Result<(Vec<f64>, Usage), BadAnswer> {
        let meta = &answer["meta_info"];
        let found = meta["output_token_ids_logprobs"][0].as_array();
        let found = found.ok_or_else(without("meta_info.output_token_ids_logprobs"))?;
        let of = |label: &u32| {
            let entry = found.iter().find(|entry| entry[1] == *label);
            entry
                .and_then(|entry| number(&entry[0]))
                .ok_or_else(|| format!("without a log-probability of label token {label}"))
        };
        let logits = labels.iter().map(of).collect::<Result<_, _>>()?;
        Ok((logits, usage(meta)))
    }

    fn promise(&self) -> &'static str {
        "nothing, unless it runs with --enable-deterministic-inference: without it seeds have no effect"
    }
}

/// The time in the queue is there with `--enable-metrics`.
fn usage(meta: &Value) -> Usage {
    let seconds = number(&meta["queue_time"]);
    Usage {
        prompt: meta["prompt_tokens"].as_u64(),
        cached: meta["cached_tokens"].as_u64(),
        queued: seconds.and_then(|seconds| milliseconds(&json!(1000.0 * seconds))),
    }
}
