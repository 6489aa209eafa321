//! Labels of a judge over `OpenAI`'s `POST /v1/chat/completions`, for endpoints that have no route
//! for plain text.
//!
//! The server renders the chat. Where it reports the number of tokens of its prompt, that number is
//! compared with the chat that is rendered here.

use beamgen_prm::JudgeMessage;
use serde::Deserialize;
use serde_json::json;

use super::{BYTES_OF_TOKEN, Label, Usage};
use crate::client::Call;
use crate::reply::{Reply, check_logprob};

/// The number of likeliest tokens that are asked for, to find labels among them: the most that
/// endpoints give.
pub(crate) const LIKELIEST: usize = 20;
/// The largest share by which a label that is not among the likeliest tokens may change a score.
const TOLERANCE: f64 = 1e-3;

/// One of the likeliest tokens of an answer.
#[derive(Deserialize)]
struct Top {
    token: String,
    logprob: f64,
}

/// Whether the assistant's message at the end of a chat is continued.
pub(crate) fn is_continued(messages: &[JudgeMessage]) -> bool {
    messages.last().is_some_and(|last| last.role == "assistant")
}

/// Makes the request for the likeliest tokens at the end of a chat. `may_think` says whether the
/// model's template has the switch `enable_thinking`, which is then turned off.
pub(crate) fn call(model: &str, messages: &[JudgeMessage], may_think: bool) -> Call {
    let mut body = json!({
        "model": model,
        "messages": messages,
        "max_tokens": 1,
        "temperature": 0.0,
        "logprobs": true,
        "top_logprobs": LIKELIEST,
        "n": 1,
        "stream": false,
    });
    // Fields that `OpenAI` does not have are sent only if they change something.
    if is_continued(messages) {
        body["continue_final_message"] = json!(true);
        body["add_generation_prompt"] = json!(false);
    }
    if may_think {
        body["chat_template_kwargs"] = json!({"enable_thinking": false});
    }
    Call::post(
        "/v1/chat/completions",
        body,
        (LIKELIEST + 1) * BYTES_OF_TOKEN,
    )
}

/// Reads the logits of `labels` from an answer.
///
/// # Errors
/// A label is missing, or a value is invalid.
pub(crate) fn labels(answer: Reply<'_>, labels: &[Label]) -> Result<(Vec<f64>, Usage), String> {
    let field = "choices.0.logprobs.content.0.top_logprobs";
    let likeliest = answer.list(field, LIKELIEST)?.into_iter();
    let likeliest: Vec<_> = likeliest
        .map(|Top { token, logprob }| (token, logprob))
        .collect();
    let usage = Usage {
        prompt: answer.maybe("usage.prompt_tokens"),
        cached: answer.maybe("usage.prompt_tokens_details.cached_tokens"),
        queued: None,
    };
    Ok((among(field, &likeliest, labels)?, usage))
}

/// Finds labels among the likeliest tokens by their texts. A label that is missing is at most as
/// likely as the last of these tokens. If that is too little to change a score by more than 0.001,
/// the label gets this probability.
///
/// # Errors
/// A label is missing whose probability may matter, or a value is not a log-probability.
pub(crate) fn among(
    field: &str,
    likeliest: &[(String, f64)],
    labels: &[Label],
) -> Result<Vec<f64>, String> {
    for (token, logprob) in likeliest {
        check_logprob(format_args!("{field}.{token}"), *logprob)?;
    }
    // Several tokens may have one text; the first is the likeliest.
    let find = |label: &Label| likeliest.iter().find(|(token, _)| *token == label.text);
    let found = labels
        .iter()
        .map(|label| find(label).map(|(_, logprob)| *logprob));
    let found: Vec<Option<f64>> = found.collect();
    let Some(missing) = found.iter().position(Option::is_none) else {
        return Ok(found.into_iter().flatten().collect());
    };
    let known: f64 = found.iter().flatten().map(|logprob| logprob.exp()).sum();
    let least = likeliest
        .iter()
        .fold(f64::INFINITY, |least, (_, logprob)| least.min(*logprob));
    let unknown = found.iter().filter(|found| found.is_none()).count() as f64 * least.exp();
    // A server that lists fewer tokens than it was asked for may have left out likelier ones.
    if likeliest.len() < LIKELIEST || unknown > TOLERANCE * known {
        return Err(format!(
            "label {:?} is not among the {LIKELIEST} likeliest tokens, so it has no log-probability",
            labels[missing].text
        ));
    }
    let logits = found.into_iter().map(|logprob| logprob.unwrap_or(least));
    Ok(logits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_may_think_is_asked_not_to() {
        let messages = [JudgeMessage {
            role: "user",
            content: "2".into(),
        }];
        let body = |may_think| call("m", &messages, may_think).body.unwrap();
        assert_eq!(
            body(true)["chat_template_kwargs"],
            json!({"enable_thinking": false})
        );
        assert!(body(false).get("chat_template_kwargs").is_none());
        assert!(body(true).get("continue_final_message").is_none());
    }
}
