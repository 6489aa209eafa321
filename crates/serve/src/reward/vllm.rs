//! Fields and output forms that the formats of vLLM's routes share.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Chain, Cutter, parse};
use crate::app::App;
use crate::fields::Fields;
use crate::refusal::Refusal;

/// Fields that do not change scores; they are accepted and ignored.
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

/// Fields that would change scores, each with the reason why it is refused.
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

/// Ignores the fields of [`WITHOUT_EFFECT`], and refuses those of [`REFUSED`].
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

/// Takes the flag for probabilities instead of log-odds, under the names that vLLM's versions have
/// used. Without the flag, scores are probabilities.
pub(super) fn take_activation(fields: &mut Fields) -> Result<bool, Refusal> {
    let mut is_on = true;
    for key in ["use_activation", "activation", "softmax"] {
        let is_given = fields.has(key);
        let flag = fields.flag(key)?;
        is_on = if is_given { flag } else { is_on };
    }
    Ok(is_on)
}

/// The form in which an answer writes numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Float,
    /// The bytes of little-endian float32 numbers, in base64.
    Base64,
}

impl Encoding {
    /// Takes the requested form, a JSON list by default.
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

    /// Writes rows of numbers. In base64, the rows follow each other without separators.
    pub(super) fn rows(self, rows: &[Vec<f32>]) -> Value {
        match self {
            Self::Float => json!(rows),
            Self::Base64 => base64(rows.iter().flatten()),
        }
    }

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

/// Takes one chain from `messages`, or one or more from `input`, which holds texts of a chat
/// template.
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

/// Returns the outputs of a classifier with the classes wrong and right: probabilities if
/// `is_activated`, or else logits whose softmax these probabilities are.
pub(super) fn classes(score: f32, is_activated: bool) -> Vec<f32> {
    if is_activated {
        vec![1.0 - score, score]
    } else {
        vec![0.0, log_odds(score)]
    }
}

/// Returns the log-odds of a score. A score that was rounded to 0 or 1 is first moved towards the
/// border of its rounding interval, so that the result is finite.
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
            // The log-odds were rounded to f32, so the tolerance is relative to f32.
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
