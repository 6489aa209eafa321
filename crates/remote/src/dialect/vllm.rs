//! vLLM: `POST /v1/completions` with token ids. It ignores fields that it does not know, so the
//! start-up probe looks at what they do.

use beamgen_engine::Tokenizer;
use serde_json::{Value, json};

use super::{
    About, Ask, Dialect, End, Generated, Usage, checked, ids, listed, milliseconds, number, without,
};
use crate::client::Call;
use crate::error::BadAnswer;

#[derive(Debug)]
pub(crate) struct Vllm;

const COMPLETIONS: &str = "/v1/completions";

impl Dialect for Vllm {
    fn name(&self) -> &'static str {
        "vllm"
    }

    fn is_about(&self, answer: &Value) -> Option<About> {
        listed(answer, "vllm")
    }

    fn generate(&self, model: &str, ask: &Ask, _: &Tokenizer) -> Call {
        let s = ask.sampling;
        Call::post(
            COMPLETIONS,
            json!({
                "model": model,
                "prompt": ask.ids,
                "max_tokens": ask.max_tokens,
                "temperature": s.temperature,
                "top_p": s.top_p,
                "top_k": s.top_k,
                "min_p": s.min_p,
                "repetition_penalty": s.repetition_penalty,
                "presence_penalty": 0.0,
                "frequency_penalty": 0.0,
                "seed": ask.seed,
                "stop": ask.stop,
                "include_stop_str_in_output": true,
                "skip_special_tokens": false,
                "return_token_ids": true,
                "logprobs": 0,
                "n": 1,
                "stream": false,
            }),
        )
    }

    fn generated(&self, answer: &Value, _: &Tokenizer) -> Result<Generated, BadAnswer> {
        let choice = &answer["choices"][0];
        let logprobs = choice["logprobs"]["token_logprobs"].as_array();
        let logprobs = logprobs.ok_or_else(without("logprobs.token_logprobs"))?;
        let logprob = |value: &Value| number(value).map(|number| number as f32);
        checked(Generated {
            tokens: ids(&choice["token_ids"])
                .ok_or("without `token_ids`: vLLM 0.10.2 or newer is needed")?,
            logprobs: logprobs
                .iter()
                .map(logprob)
                .collect::<Option<_>>()
                .ok_or("a log-probability is no number")?,
            end: match (choice["finish_reason"].as_str(), &choice["stop_reason"]) {
                (Some("length"), _) => End::Limit,
                (Some("stop"), Value::Null) => End::Eos,
                (Some("stop"), _) => End::Stop,
                (other, _) => return Err(format!("`finish_reason` is {other:?}").into()),
            },
            usage: usage(answer),
        })
    }

    fn label_logits(&self, model: &str, ids: &[u32], labels: &[u32]) -> Call {
        Call::post(
            COMPLETIONS,
            json!({
                "model": model,
                "prompt": ids,
                "max_tokens": 1,
                "temperature": 0.0,
                "top_p": 1.0,
                "top_k": 0,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "logprobs": 0,
                "logprob_token_ids": labels,
                "return_tokens_as_token_ids": true,
                "n": 1,
                "stream": false,
            }),
        )
    }

    fn labels(&self, answer: &Value, labels: &[u32]) -> Result<(Vec<f64>, Usage), BadAnswer> {
        let found = &answer["choices"][0]["logprobs"]["top_logprobs"][0];
        let of = |label: &u32| {
            number(&found[format!("token_id:{label}")]).ok_or_else(|| {
                format!("without a log-probability of label token {label}: vLLM 0.26 or newer is needed (`logprob_token_ids`)")
            })
        };
        let logits = labels.iter().map(of).collect::<Result<_, _>>()?;
        Ok((logits, usage(answer)))
    }

    fn promise(&self) -> &'static str {
        "equal seeds, equal noise; logits depend on what else is in a batch unless VLLM_BATCH_INVARIANT=1"
    }
}

/// The cached part is there with `--enable-prompt-tokens-details`, the time in the queue with
/// `--enable-per-request-metrics`.
pub(crate) fn usage(answer: &Value) -> Usage {
    let usage = &answer["usage"];
    Usage {
        prompt: usage["prompt_tokens"].as_u64(),
        cached: usage["prompt_tokens_details"]["cached_tokens"].as_u64(),
        queued: milliseconds(&answer["metrics"]["queue_time_ms"]),
    }
}
