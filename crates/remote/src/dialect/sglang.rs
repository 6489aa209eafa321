//! `SGLang`: its own `POST /generate`, with token ids both ways.

use beamgen_engine::Tokenizer;
use serde::de::IgnoredAny;
use serde_json::json;

use super::{
    About, Ask, Dialect, End, Generated, Label, Usage, checked, listed, milliseconds,
    most_bytes_of_labels,
};
use crate::client::Call;
use crate::error::one_line;
use crate::reply::{Pair, Reply, check_logprob, logprob};

#[derive(Debug)]
pub(crate) struct SgLang;

const GENERATE: &str = "/generate";

impl Dialect for SgLang {
    fn name(&self) -> &'static str {
        "sglang"
    }

    fn is_about(&self, answer: Reply<'_>) -> Option<About> {
        listed(answer, "sglang")
    }

    /// Returns `/ready`, since `/health` would sample a token.
    fn health(&self) -> &'static str {
        "/ready"
    }

    fn generate(&self, _model: &str, ask: &Ask, _: &Tokenizer) -> Call {
        let s = ask.sampling;
        // 0 means that all tokens are kept, for which `SGLang` uses -1.
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
                    // The text has to contain the stop string, which is the end of the step.
                    "no_stop_trim": true,
                    "skip_special_tokens": false,
                },
                "return_logprob": true,
                // Log-probabilities of the prompt are not requested: for them the server would not
                // use its cache.
                "logprob_start_len": -1,
                "stream": false,
            }),
            ask.most_bytes(),
        )
    }

    fn generated(&self, answer: Reply<'_>, ask: &Ask, _: &Tokenizer) -> Result<Generated, String> {
        let finish: Option<String> = answer.maybe("meta_info.finish_reason.type");
        let matched_token = answer.maybe::<f64>("meta_info.finish_reason.matched");
        let end = match (finish.as_deref(), matched_token) {
            (Some("length"), _) => End::Limit,
            (Some("stop"), Some(_)) => End::Eos,
            (Some("stop"), None) => End::Stop,
            (Some("abort"), _) => {
                let message = answer.maybe::<String>("meta_info.finish_reason.message");
                let message = message.unwrap_or_else(|| "without a reason".to_owned());
                return Err(format!("the server gave up: {}", one_line(&message)));
            }
            (other, _) => return Err(format!("`finish_reason.type` is {other:?}")),
        };
        let (most, field) = (ask.max_tokens, "meta_info.output_token_logprobs");
        let logprobs = answer.list::<Pair<f64, IgnoredAny>>(field, most)?;
        checked(Generated {
            likeliest: Vec::new(),
            tokens: answer.list("output_ids", most)?,
            logprobs: logprobs
                .iter()
                .enumerate()
                .map(|(at, pair)| logprob(format_args!("{field}.{at}.0"), pair.0))
                .collect::<Result<_, _>>()?,
            end,
            usage: usage(answer),
        })
    }

    fn label_logits(&self, _model: &str, ids: &[u32], _: &str, labels: &[Label]) -> Call {
        Call::post(
            GENERATE,
            json!({
                "input_ids": ids,
                "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
                "return_logprob": true,
                "logprob_start_len": -1,
                "token_ids_logprob": Label::ids(labels),
                "stream": false,
            }),
            most_bytes_of_labels(ids, labels),
        )
    }

    fn labels(&self, answer: Reply<'_>, labels: &[Label]) -> Result<(Vec<f64>, Usage), String> {
        let field = "meta_info.output_token_ids_logprobs.0";
        // The server sends null for a log-probability of minus infinity.
        let found = answer.list::<Pair<Option<f64>, u32>>(field, labels.len())?;
        let logits = labels
            .iter()
            .map(|Label { id: label, .. }| {
                let entry = found.iter().find(|entry| entry.1 == Some(*label));
                let logprob = entry.and_then(|entry| entry.0);
                let logprob = logprob
                    .ok_or_else(|| format!("without a log-probability of label token {label}"))?;
                check_logprob(format_args!("{field} of token {label}"), logprob)?;
                Ok(logprob)
            })
            .collect::<Result<_, String>>()?;
        Ok((logits, usage(answer)))
    }

    fn promise(&self) -> &'static str {
        "nothing, unless it runs with --enable-deterministic-inference: without it seeds have no effect"
    }
}

/// Reads the numbers about a request. The server reports its time in the queue only with
/// `--enable-metrics`.
fn usage(answer: Reply<'_>) -> Usage {
    let seconds: Option<f64> = answer.maybe("meta_info.queue_time");
    Usage {
        prompt: answer.maybe("meta_info.prompt_tokens"),
        cached: answer.maybe("meta_info.cached_tokens"),
        queued: seconds.and_then(|seconds| milliseconds(1000.0 * seconds)),
    }
}
