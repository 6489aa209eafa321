//! Any other server with `OpenAI`'s `POST /v1/completions`. It exchanges text, since it has no
//! route for token ids.
//!
//! The received text is tokenised here, so a step's tokens may differ from the tokens that the
//! model sampled. If they do, the server does not find the step in its cache and reads it again.
//! Only `OpenAI`'s own fields are sent, since some servers refuse other fields and most ignore
//! them.

use std::collections::BTreeMap;

use beamgen_engine::Tokenizer;
use serde_json::json;

use super::chat::{self, LIKELIEST};
use super::{
    About, Ask, BYTES_OF_TOKEN, Dialect, End, Generated, Label, Usage, most_bytes_of_labels,
};
use crate::client::Call;
use crate::reply::{Reply, logprob};
use crate::stream::Until;

#[derive(Debug)]
pub(crate) struct OpenAi;

const COMPLETIONS: &str = "/v1/completions";
/// The fields in which servers report the length of their context.
const CONTEXT: [&str; 5] = [
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
    "n_ctx",
];

impl Dialect for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn is_text(&self) -> bool {
        true
    }

    fn is_about(&self, answer: Reply<'_>) -> Option<About> {
        let id: String = answer.maybe("data.0.id")?;
        Some(About {
            version: None,
            // If the server has several models, the user has to name one.
            model: (answer.length("data") == Some(1)).then_some(id),
            source: answer.maybe("data.0.root"),
            context: CONTEXT.iter().find_map(|name| {
                let places = ["", "meta."].map(|below| format!("data.0.{below}{name}"));
                places.iter().find_map(|place| answer.maybe(place))
            }),
        })
    }

    fn health(&self) -> &'static str {
        "/v1/models"
    }

    fn generate(&self, model: &str, ask: &Ask, tokenizer: &Tokenizer) -> Call {
        let s = ask.sampling;
        // No stop strings are sent. The answer is streamed, and cut here after the token in which a
        // step ends.
        let mut body = json!({
            "model": model,
            "prompt": text_of(&ask.ids, tokenizer),
            "max_tokens": ask.max_tokens,
            "temperature": s.temperature,
            "top_p": s.top_p,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "seed": ask.seed,
            "logprobs": 1,
            "n": 1,
            "stream": true,
        });
        // Fields that `OpenAI` does not have are sent only if they change something.
        for (name, value, off) in [
            ("top_k", json!(s.top_k), s.top_k == 0),
            ("min_p", json!(s.min_p), s.min_p == 0.0),
            (
                "repetition_penalty",
                json!(s.repetition_penalty),
                s.repetition_penalty == 1.0,
            ),
        ] {
            if !off {
                body[name] = value;
            }
        }
        Call {
            until: Some(Until {
                marks: ask.stop.clone(),
                pieces: ask.most_pieces(),
            }),
            ..Call::post(COMPLETIONS, body, ask.most_bytes())
        }
    }

    fn generated(
        &self,
        answer: Reply<'_>,
        ask: &Ask,
        tokenizer: &Tokenizer,
    ) -> Result<Generated, String> {
        let text: String = answer.at("choices.0.text")?.ok_or("without `text`")?;
        let tokens = tokens_of(&text, tokenizer)?;
        let logprobs = logprobs(answer, ask, &text, &tokens, tokenizer)?;
        let finish: Option<String> = answer.maybe("choices.0.finish_reason");
        Ok(Generated {
            likeliest: Vec::new(),
            end: match finish.as_deref() {
                Some("stop") => End::Eos,
                // The server counts its own tokens, so its limit may be reached before the step's.
                // The step continues with another request.
                Some("found" | "length") => End::Stop,
                other => return Err(format!("`finish_reason` is {other:?}")),
            },
            logprobs: logprobs.unwrap_or_else(|| vec![0.0; tokens.len()]),
            tokens,
            // The server's numbers count its own tokens, which differ from the local ones.
            usage: Usage::default(),
        })
    }

    /// Asks for the likeliest next tokens, among which the labels have to be.
    fn label_logits(&self, model: &str, ids: &[u32], text: &str, labels: &[Label]) -> Call {
        let body = json!({
            "model": model,
            "prompt": text,
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": LIKELIEST,
            "n": 1,
            "stream": false,
        });
        let most = LIKELIEST * BYTES_OF_TOKEN + most_bytes_of_labels(ids, labels);
        Call::post(COMPLETIONS, body, most)
    }

    fn labels(&self, answer: Reply<'_>, labels: &[Label]) -> Result<(Vec<f64>, Usage), String> {
        let field = "choices.0.logprobs.top_logprobs";
        let likeliest: Vec<BTreeMap<String, f64>> = answer.list(field, 1)?;
        let likeliest = likeliest.into_iter().next();
        let likeliest = likeliest.ok_or("without `top_logprobs`")?;
        let likeliest: Vec<_> = likeliest.into_iter().collect();
        Ok((chat::among(field, &likeliest, labels)?, Usage::default()))
    }

    /// Requests one token after the text. `OpenAI` has no route for tokenising, but each answer
    /// reports the number of tokens of its prompt.
    fn tokenize(&self, model: &str, text: &str) -> Call {
        let body = json!({"model": model, "prompt": text, "max_tokens": 1, "temperature": 0.0});
        Call::post(COMPLETIONS, body, BYTES_OF_TOKEN)
    }

    fn promise(&self) -> &'static str {
        "nothing that all such endpoints keep; text is sent and cut into tokens here, so tokens and log-probabilities are near, not exact"
    }
}

/// Returns the text of tokens, without tokens and spaces that the server's tokenizer adds itself.
pub(crate) fn text_of(ids: &[u32], tokenizer: &Tokenizer) -> String {
    let added = tokenizer.encode("", true).unwrap_or_default();
    let ids = match ids.first() {
        Some(first) if added.first() == Some(first) => &ids[1..],
        _ => ids,
    };
    let bytes: Vec<u8> = ids
        .iter()
        .flat_map(|&id| tokenizer.token_bytes(id))
        .copied()
        .collect();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // A tokenizer that puts a space before a text also decodes a text with that space.
    let begins_with_space = tokenizer.encode("a", false).is_ok_and(|ids| {
        ids.first()
            .is_some_and(|&id| tokenizer.token_bytes(id).starts_with(b" "))
    });
    match text.strip_prefix(' ') {
        Some(rest) if begins_with_space => rest.to_owned(),
        _ => text,
    }
}

/// Returns tokens for a sampled text; if possible, tokens that decode to exactly this text.
fn tokens_of(text: &str, tokenizer: &Tokenizer) -> Result<Vec<u32>, String> {
    let ids = encode(text, tokenizer)?;
    if is_exact(&ids, text, tokenizer) {
        return Ok(ids);
    }
    // Some tokenizers put a space before a text. This text continues another text, so it is
    // tokenised after a line break, and the tokens of the line break are removed.
    let (line, whole) = (
        encode("\n", tokenizer)?,
        encode(&format!("\n{text}"), tokenizer)?,
    );
    Ok(match whole.strip_prefix(&line[..]) {
        Some(rest) if is_exact(rest, text, tokenizer) => rest.to_vec(),
        // No tokens decode to this text exactly, for example because it ends inside a character.
        _ => ids,
    })
}

fn encode(text: &str, tokenizer: &Tokenizer) -> Result<Vec<u32>, String> {
    let ids = tokenizer.encode(text, false);
    ids.map_err(|error| error.to_string())
}

/// Whether tokens decode to exactly this text.
fn is_exact(ids: &[u32], text: &str, tokenizer: &Tokenizer) -> bool {
    let bytes = ids.iter().flat_map(|&id| tokenizer.token_bytes(id));
    bytes.eq(text.as_bytes())
}

/// Returns the server's log-probabilities, assigned to the local tokens. Each is added to the local
/// token in which the server's token ends. `None` if the server reports none, or reports them for
/// another text.
///
/// # Errors
/// A value is not a log-probability.
fn logprobs(
    answer: Reply<'_>,
    ask: &Ask,
    text: &str,
    tokens: &[u32],
    tokenizer: &Tokenizer,
) -> Result<Option<Vec<f32>>, String> {
    let most = ask.most_pieces();
    let pieces = answer.maybe_list::<Option<String>>("choices.0.logprobs.tokens", most)?;
    let field = "choices.0.logprobs.token_logprobs";
    let values = answer.maybe_list::<Option<f64>>(field, most)?;
    let values = values.unwrap_or_default().into_iter().enumerate();
    let values: Vec<Option<f32>> = values
        .map(|(at, value)| {
            let value = value.map(|value| logprob(format_args!("{field}.{at}"), value));
            value.transpose()
        })
        .collect::<Result<_, _>>()?;
    let pieces = pieces.unwrap_or_default();
    Ok(at_own_tokens(&pieces, &values, text, tokens, tokenizer))
}

fn at_own_tokens(
    pieces: &[Option<String>],
    values: &[Option<f32>],
    text: &str,
    tokens: &[u32],
    tokenizer: &Tokenizer,
) -> Option<Vec<f32>> {
    let mut all = vec![0.0; tokens.len()];
    let (mut at, mut end) = (0, tokenizer.token_bytes(*tokens.first()?).len());
    let mut read = 0;
    for (piece, value) in pieces.iter().zip(values) {
        let piece = piece.as_deref()?;
        if read == text.len() {
            break; // after the end of the step
        }
        if !text[read..].starts_with(piece) && !piece.starts_with(&text[read..]) {
            return None;
        }
        read = (read + piece.len()).min(text.len());
        // Moves to the local token that contains the end of the server's token.
        while end < read && at + 1 < tokens.len() {
            at += 1;
            end += tokenizer.token_bytes(tokens[at]).len();
        }
        all[at] += (*value)?;
    }
    (read == text.len()).then_some(all)
}
