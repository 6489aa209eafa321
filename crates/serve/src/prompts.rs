//! Reads the field `prompt` of a completion: a text, or a list of texts, each of which is a
//! problem.

use serde_json::Value;

use crate::fields::Fields;
use crate::refusal::Refusal;

/// Returns at least one prompt; none of them is blank.
pub(crate) fn read(fields: &mut Fields) -> Result<Vec<String>, Refusal> {
    let list = match fields.take("prompt") {
        Some(Value::Array(list)) if !list.is_empty() => list,
        Some(text @ Value::String(_)) => return Ok(vec![one("prompt", text)?]),
        _ => return Err(fields.wrong("prompt", "not a text: send a string, or a list of strings")),
    };
    let prompts = list.into_iter().enumerate();
    prompts
        .map(|(at, prompt)| one(&format!("prompt[{at}]"), prompt))
        .collect()
}

fn one(place: &str, prompt: Value) -> Result<String, Refusal> {
    let (code, reason) = match prompt {
        Value::String(text) if !text.trim().is_empty() => return Ok(text),
        Value::String(_) => ("invalid_value", "empty: send the problem's text"),
        Value::Number(_) | Value::Array(_) => (
            "unsupported_field",
            "ids of tokens are not supported: send the text",
        ),
        _ => ("invalid_value", "not a text: send a string"),
    };
    Err(Refusal::field(code, place, reason))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_prompt_is_a_text_or_a_list_of_texts() {
        let read = |prompt: Value| {
            let body = json!({"prompt": prompt});
            let body = body.as_object().cloned().unwrap_or_default();
            super::read(&mut Fields::new(body, ""))
        };
        assert_eq!(read(json!("1 + 1?")).unwrap(), ["1 + 1?"]);
        assert_eq!(read(json!(["a", " b"])).unwrap(), ["a", " b"]);
        for (prompt, begin) in [
            (json!(null), "prompt: not a text"),
            (json!([]), "prompt: not a text"),
            (json!(" "), "prompt: empty"),
            (json!(["a", ""]), "prompt[1]: empty"),
            (json!([1, 2]), "prompt[0]: ids of tokens"),
            (json!(["a", [1]]), "prompt[1]: ids of tokens"),
            (json!([{}]), "prompt[0]: not a text"),
        ] {
            let message = read(prompt).unwrap_err().message;
            assert!(message.starts_with(begin), "{message}");
        }
    }
}
