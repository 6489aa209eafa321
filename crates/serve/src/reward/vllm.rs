//! Fields and forms that the formats of vLLM's routes share.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Chain, Cutter, parse};
use crate::app::App;
use crate::fields::Fields;
use crate::refusal::Refusal;

/// Fields that change no score.
pub(super) const WITHOUT_EFFECT: [&str; 14] = [
    "model",
    "user",
    "priority",
    "request_id",
    "cache_salt",
    "task",
    "add_special_tokens",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template_kwargs",
    "mm_processor_kwargs",
    "media_io_kwargs",
    "padding",
    "truncation_side",
];

/// Fields that would change scores, with the reason why they are refused.
pub(super) const REFUSED: [(&str, &str); 7] = [
    (
        "truncate_prompt_tokens",
        "nothing is cut off: leave it out, and a chain that does not fit gets an error",
    ),
    (
        "max_tokens_per_doc",
        "nothing is cut off: leave it out, and a chain that does not fit gets an error",
    ),
    (
        "max_chunks_per_doc",
        "nothing is cut off: leave it out, and a chain that does not fit gets an error",
    ),
    (
        "chat_template",
        "the reward model's format writes the chat: leave it out",
    ),
    ("dimensions", "a score is one number: leave it out"),
    ("rank_fields", "documents are texts: leave it out"),
    ("endianness", "numbers are little-endian: leave it out"),
];

/// Takes the fields that no format reads.
pub(super) fn take_common(fields: &mut Fields) -> Result<(), Refusal> {
    for key in WITHOUT_EFFECT {
        fields.take(key);
    }
    for (key, reason) in REFUSED {
        if fields.take(key).is_some() {
            return Err(Refusal::field("unsupported_field", key, reason));
        }
    }
    Ok(())
}

/// Takes whether scores are probabilities, by the names that the field has had. Otherwise they are
/// log-odds.
pub(super) fn take_activation(fields: &mut Fields) -> Result<bool, Refusal> {
    let mut is_on = true;
    for key in ["use_activation", "activation", "softmax"] {
        let is_given = fields.has(key);
        let flag = fields.flag(key)?;
        is_on = if is_given { flag } else { is_on };
    }
    Ok(is_on)
}

/// The forms of numbers in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// A list of numbers.
    Float,
    /// The bytes of little-endian 32-bit numbers.
    Base64,
}

impl Encoding {
    /// Takes the form that a request asks for.
    pub(super) fn take(fields: &mut Fields) -> Result<Self, Refusal> {
        if fields
            .text("embed_dtype")?
            .is_some_and(|kind| kind != "float32")
        {
            return Err(fields.wrong("embed_dtype", "numbers are float32: leave it out"));
        }
        match fields.text("encoding_format")?.as_deref() {
            None | Some("float") => Ok(Self::Float),
            Some("base64") => Ok(Self::Base64),
            Some(_) => Err(fields.wrong("encoding_format", "unknown: use float or base64")),
        }
    }

    /// Writes rows of numbers; base64 has them one after the other.
    pub(super) fn rows(self, rows: &[Vec<f32>]) -> Value {
        match self {
            Self::Float => json!(rows),
            Self::Base64 => base64(rows.iter().flatten()),
        }
    }

    /// Writes numbers.
    pub(super) fn numbers(self, numbers: &[f32]) -> Value {
        match self {
            Self::Float => json!(numbers),
            Self::Base64 => base64(numbers),
        }
    }
}

fn base64<'a>(numbers: impl IntoIterator<Item = &'a f32>) -> Value {
    let bytes: Vec<u8> = numbers
        .into_iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    STANDARD.encode(bytes).into()
}

/// Takes the chains of `messages` (one) or of `input` (one or more texts of a chat template).
pub(super) fn take_chains(
    app: &App,
    fields: &mut Fields,
) -> Result<Vec<Result<Chain, String>>, Refusal> {
    let cutter = Cutter::new(app, parse::step_separator(fields)?);
    if let Some(messages) = fields.take("messages") {
        return Ok(vec![cutter.messages(&messages)]);
    }
    let inputs = parse::texts(fields, "input")?;
    let chain = |(at, text): (usize, &String)| {
        let chain = cutter.text(text);
        chain.map_err(|reason| format!("input[{at}]: {reason}"))
    };
    Ok(inputs.iter().enumerate().map(chain).collect())
}

/// Returns the outputs of a classifier with the classes wrong and right: their probabilities, or numbers
/// whose softmax they are.
pub(super) fn classes(score: f32, is_activated: bool) -> Vec<f32> {
    if is_activated {
        vec![1.0 - score, score]
    } else {
        vec![0.0, log_odds(score)]
    }
}

/// Returns the log-odds of a score. A score that was rounded to 0 or 1 has those of the nearest number
/// that could have been.
fn log_odds(score: f32) -> f32 {
    let least = f64::from(f32::from_bits(1)) / 2.0;
    let most = 1.0 - f64::from(f32::EPSILON) / 4.0;
    let p = f64::from(score).clamp(least, most);
    (p.ln() - (-p).ln_1p()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_odds_are_finite_and_give_the_score_back() {
        for score in [0.0_f32, 1e-30, 0.25, 0.5, 0.999, 1.0] {
            let odds = log_odds(score);
            assert!(odds.is_finite());
            let back = 1.0 / (1.0 + (-f64::from(odds)).exp());
            let error = (back - f64::from(score)).abs();
            // The log-odds are rounded to f32.
            assert!(
                error <= 1e-6 * f64::from(score).max(1e-30),
                "{score}: {back}"
            );
        }
        assert_eq!(classes(0.5, false), [0.0, 0.0]);
        assert_eq!(classes(0.25, true), [0.75, 0.25]);
    }

    #[test]
    fn base64_has_the_bytes_of_little_endian_numbers() {
        assert_eq!(Encoding::Base64.numbers(&[1.0, 0.5]), "AACAPwAAAD8=");
        assert_eq!(
            Encoding::Base64.rows(&[vec![1.0], vec![0.5]]),
            "AACAPwAAAD8="
        );
        assert_eq!(
            Encoding::Float.rows(&[vec![1.0], vec![0.5]]),
            json!([[1.0], [0.5]])
        );
    }
}
