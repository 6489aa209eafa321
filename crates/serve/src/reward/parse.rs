//! Parses bodies, and the fields that all formats share.

use beamgen::Aggregation;
use serde_json::{Map, Number, Value};

use crate::body;
use crate::fields::Fields;
use crate::refusal::Refusal;

/// The maximum number of values in a body above [`FEW`] bytes. A parsed value takes far more memory
/// than its text of a few bytes.
const MOST_VALUES: usize = 1 << 20;

/// The size in bytes up to which a body may have any number of values.
const FEW: usize = 1 << 20;

pub(super) fn object(bytes: Vec<u8>) -> Result<Map<String, Value>, Refusal> {
    if bytes.len() > FEW && values(&bytes) > MOST_VALUES {
        let message = format!("the body has more than {MOST_VALUES} values: send fewer chains");
        return Err(Refusal::input("invalid_request", message));
    }
    body::parsed(&bytes)
}

/// Returns an upper bound on the number of values in a JSON text: 1 for each comma or opening
/// bracket outside of strings.
fn values(bytes: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (1, false, false);
    for &byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => count += 1,
            _ => (),
        }
    }
    count
}

/// Takes the rule that turns a chain's step scores into one score; `None` if the body has none.
pub(super) fn aggregation(fields: &mut Fields) -> Result<Option<Aggregation>, Refusal> {
    let Some(text) = fields.text("aggregation")? else {
        return Ok(None);
    };
    match text.parse::<Aggregation>() {
        Ok(rule) => Ok(Some(rule)),
        Err(error) => Err(fields.wrong("aggregation", &error.to_string())),
    }
}

/// The fields that may also be in the query of the address: users of a trainer can set its address,
/// but not its body.
const IN_ADDRESS: [&str; 3] = ["aggregation", "step_separator", "unscored"];

/// Adds fields from the query of the address, such as `?aggregation=last`. A field of the body
/// wins.
pub(super) fn add_address(body: &mut Map<String, Value>, query: Option<&str>) {
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    for (name, value) in pairs.filter_map(|pair| pair.split_once('=')) {
        if IN_ADDRESS.contains(&name) && !body.contains_key(name) {
            let text = unescaped(value);
            let number = text.parse().ok().and_then(Number::from_f64);
            let number = number.filter(|_| name == "unscored");
            let value = number.map_or_else(|| text.into(), Value::Number);
            body.insert(name.to_owned(), value);
        }
    }
}

/// Decodes `%` and `+` in a value of a query. Bytes that are not UTF-8 are replaced.
fn unescaped(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        let mut digits = rest
            .clone()
            .map_while(|digit| char::from(digit).to_digit(16));
        match (byte, digits.next(), digits.next()) {
            (b'+', ..) => bytes.push(b' '),
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest.nth(1);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Takes the reward for a chain that cannot be scored; `None` if the body has none.
pub(super) fn unscored(fields: &mut Fields) -> Result<Option<f32>, Refusal> {
    match fields.number("unscored")? {
        Some(reward) if !(reward as f32).is_finite() => {
            Err(fields.wrong("unscored", "not a reward: use a finite number"))
        }
        reward => Ok(reward.map(|reward| reward as f32)),
    }
}

/// Takes a required field: a string, or a list of strings.
pub(super) fn texts(fields: &mut Fields, key: &'static str) -> Result<Vec<String>, Refusal> {
    let missing = "missing: send a string or a list of strings";
    some_texts(fields, key)?.ok_or_else(|| fields.wrong(key, missing))
}

/// Takes a string, or a list of strings; `None` if the body lacks the field.
pub(super) fn some_texts(
    fields: &mut Fields,
    key: &'static str,
) -> Result<Option<Vec<String>>, Refusal> {
    let text = |value| match value {
        Value::String(text) => Some(text),
        _ => None,
    };
    let texts = match fields.take(key) {
        None => return Ok(None),
        Some(Value::Array(list)) => list.into_iter().map(text).collect(),
        Some(value) => text(value).map(|text| vec![text]),
    };
    let wrong = "not a string or a list of strings: send one";
    texts.map(Some).ok_or_else(|| fields.wrong(key, wrong))
}

/// Takes the text that ends each step of a response. `None` means the marks of reward models, or
/// the steps of a search.
pub(super) fn step_separator(fields: &mut Fields) -> Result<Option<String>, Refusal> {
    match fields.text("step_separator")? {
        Some(text) if text.is_empty() => {
            Err(fields.wrong("step_separator", "empty: name a text, or leave it out"))
        }
        separator => Ok(separator),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_counted_outside_of_texts() {
        for (text, count) in [
            ("3", 1),
            (r#"{"a": "x,y[\"{", "b": [1, 2]}"#, 5),
            (r#"["\\", "\\,"]"#, 3),
        ] {
            assert_eq!(values(text.as_bytes()), count, "{text}");
        }
        let many = format!("[{}1]", "1,".repeat(MOST_VALUES));
        assert_eq!(
            object(many.into_bytes()).unwrap_err().code,
            "invalid_request"
        );
    }

    #[test]
    fn an_address_may_have_fields() {
        let mut body = Map::new();
        body.insert("unscored".to_owned(), 0.5.into());
        add_address(
            &mut body,
            Some("a=b&aggregation=soft-min%3A0.5&step_separator=%0A+%c3%a9%&unscored=1&b"),
        );
        let wanted =
            json!({"unscored": 0.5, "aggregation": "soft-min:0.5", "step_separator": "\n é%"});
        assert_eq!(Value::Object(body), wanted);
        let mut body = Map::new();
        add_address(&mut body, Some("unscored=-1.5&aggregation=%f"));
        assert_eq!(
            Value::Object(body),
            json!({"unscored": -1.5, "aggregation": "%f"})
        );
    }
}
