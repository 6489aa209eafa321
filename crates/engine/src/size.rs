//! Parses memory sizes such as `2GiB`.

use serde::{Deserialize, Deserializer};

const UNITS: [(&str, f64); 8] = [
    ("", 1.0),
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
];

/// The error for a text that is not a memory size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid size {text:?}: use a number with a unit, e.g. 2GiB, 512MB or 1000000, or auto")]
#[non_exhaustive]
pub struct SizeError {
    /// The invalid text, without surrounding white space.
    pub text: String,
}

/// Parses a size such as `2GiB`, `512 MB` or `1000000` into bytes, rounded down. `auto` gives 0.
///
/// # Errors
/// [`SizeError`] if the unit is unknown, or the size is less than one byte or infinite.
pub fn parse_size(text: &str) -> Result<usize, SizeError> {
    let text = text.trim();
    if text == "auto" {
        return Ok(0);
    }
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let factor = UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit));
    match (number.parse::<f64>(), factor) {
        // Fractions such as 1.5GiB are allowed. 0 is refused because it means `auto`.
        (Ok(number), Some((_, factor))) if number.is_finite() && number * factor >= 1.0 => {
            Ok((number * factor) as usize)
        }
        _ => Err(SizeError {
            text: text.to_owned(),
        }),
    }
}

/// Deserializes a number of bytes, or a string that [`parse_size`] accepts.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "a number of bytes, a size such as \"2GiB\", or \"auto\""
    )]
    enum Size {
        Bytes(usize),
        Text(String),
    }
    match Size::deserialize(from)? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Text(text) => parse_size(&text).map_err(serde::de::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_what_is_none() {
        for (text, bytes) in [
            ("2GiB", 2 << 30),
            ("512MB", 512_000_000),
            ("1.5 kb", 1500),
            ("3kib", 3072),
            ("17", 17),
            ("auto", 0),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "", "0", "0.4", "GiB", "2 gibs", "-1GB", "1e9", "2G", "1.2.3MB", "NaN",
        ] {
            let error = parse_size(text).unwrap_err().to_string();
            assert!(error.contains("2GiB"), "{error}");
        }
    }
}
