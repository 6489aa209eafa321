//! vLLM: `POST /v1/completions` with token ids. The server ignores fields that it does not know, so
//! the module `probe` tests at the start that they have an effect.

use std::collections::BTreeMap;

use beamgen_engine::Tokenizer;
use serde_json::json;

use super::{
    About, Ask, Dialect, End, Generated, Label, Usage, checked, listed, milliseconds,
    most_bytes_of_labels,
};
use crate::client::Call;
use crate::reply::{Reply, check_logprob, logprob};

#[derive(Debug)]
pub(crate) struct Vllm;

const COMPLETIONS: &str = "/v1/completions";

impl Dialect for Vllm {
    fn name(&self) -> &'static str {
        "vllm"
    }

    fn is_about(&self, answer: Reply<'_>) -> Option<About> {
        listed(answer, "vllm")
    }

    fn generate(&self, model: &str, ask: &Ask, _: &Tokenizer) -> Call {
        let s = ask.sampling;
        let mut body = json!({
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
            // A stop string is the end of a step, and special tokens are part of a chain: both are
            // needed.
            "include_stop_str_in_output": true,
            "skip_special_tokens": false,
            "return_token_ids": true,
            // With 0 only the log-probability of the sampled token is reported.
            "logprobs": ask.alternatives,
            "n": 1,
            "stream": false,
        });
        if ask.alternatives > 0 {
            // Alternatives are the keys of a JSON object. As texts, two tokens could have the same
            // key.
            body["return_tokens_as_token_ids"] = true.into();
        }
        Call::post(COMPLETIONS, body, ask.most_bytes())
    }

    fn generated(&self, answer: Reply<'_>, ask: &Ask, _: &Tokenizer) -> Result<Generated, String> {
        if !answer.has("choices.0.token_ids") {
            return Err("without `token_ids`: vLLM 0.10.2 or newer is needed".into());
        }
        let most = ask.max_tokens;
        let finish: Option<String> = answer.maybe("choices.0.finish_reason");
        let stopped_at_string = answer.has("choices.0.stop_reason");
        checked(Generated {
            tokens: answer.list("choices.0.token_ids", most)?,
            logprobs: answer.logprobs("choices.0.logprobs.token_logprobs", most)?,
            likeliest: likeliest(answer, ask)?,
            end: match (finish.as_deref(), stopped_at_string) {
                (Some("length"), _) => End::Limit,
                (Some("stop"), false) => End::Eos,
                (Some("stop"), true) => End::Stop,
                (other, _) => return Err(format!("`finish_reason` is {other:?}")),
            },
            usage: usage(answer),
        })
    }

    fn has_alternatives(&self) -> bool {
        true
    }

    fn label_logits(&self, model: &str, ids: &[u32], _: &str, labels: &[Label]) -> Call {
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
                "logprob_token_ids": Label::ids(labels),
                "return_tokens_as_token_ids": true,
                "n": 1,
                "stream": false,
            }),
            most_bytes_of_labels(ids, labels),
        )
    }

    fn labels(&self, answer: Reply<'_>, labels: &[Label]) -> Result<(Vec<f64>, Usage), String> {
        let logits = labels.iter().map(|Label { id: label, .. }| {
            let field = format!("choices.0.logprobs.top_logprobs.0.token_id:{label}");
            let logprob = answer.at(&field)?.ok_or_else(|| {
                format!("without a log-probability of label token {label}: vLLM 0.26 or newer is needed (`logprob_token_ids`)")
            })?;
            check_logprob(&field, logprob)?;
            Ok(logprob)
        }).collect::<Result<_, String>>()?;
        Ok((logits, usage(answer)))
    }

    fn promise(&self) -> &'static str {
        "equal seeds, equal noise; logits depend on what else is in a batch unless VLLM_BATCH_INVARIANT=1"
    }
}

/// Reads the likeliest tokens for each sampled token, likeliest first; of equal ones the lowest id
/// first.
fn likeliest(answer: Reply<'_>, ask: &Ask) -> Result<Vec<Vec<(u32, f32)>>, String> {
    if ask.alternatives == 0 {
        return Ok(Vec::new());
    }
    let field = "choices.0.logprobs.top_logprobs";
    let tokens = answer.list::<BTreeMap<String, f64>>(field, ask.max_tokens)?;
    let tokens = tokens.into_iter().map(|told| {
        let told = told.into_iter().map(|(name, value)| {
            let id = name
                .strip_prefix("token_id:")
                .and_then(|id| id.parse().ok());
            let id = id.ok_or_else(|| format!("`{field}` has {name:?}, which is no token_id:N"))?;
            Ok((id, logprob(field, value)?))
        });
        let mut told = told.collect::<Result<Vec<(u32, f32)>, String>>()?;
        told.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        // The server adds the sampled token if it is not one of the likeliest.
        told.truncate(ask.alternatives);
        Ok(told)
    });
    tokens.collect()
}

/// Reads the numbers about a request. The server reports cached tokens only with
/// `--enable-prompt-tokens-details`, and the time in the queue only with
/// `--enable-per-request-metrics`.
pub(crate) fn usage(answer: Reply<'_>) -> Usage {
    let queued = answer.maybe("metrics.queue_time_ms");
    Usage {
        prompt: answer.maybe("usage.prompt_tokens"),
        cached: answer.maybe("usage.prompt_tokens_details.cached_tokens"),
        queued: queued.and_then(milliseconds),
    }
}
