//! What the crate `tokenizers` takes on trust, and would panic at or ask for all memory over.

use serde_json::Value;

/// No published vocabulary has a million tokens. Tables are as long as the highest id.
pub(super) const MOST_TOKENS: u32 = 1 << 22;

/// Refuses merges whose result is no token: the crate builds it in a buffer as long as the longest
/// token. What it does not read as merges at all, it refuses itself.
pub(super) fn check_merges(text: &str) -> Result<(), String> {
    let Ok(file) = serde_json::from_str::<Value>(text) else {
        return Ok(());
    };
    let model = &file["model"];
    let (Some(vocabulary), Some(merges)) = (model["vocab"].as_object(), model["merges"].as_array())
    else {
        return Ok(());
    };
    let prefix = model["continuing_subword_prefix"].as_str().unwrap_or("");
    for (i, merge) in merges.iter().enumerate() {
        let pair = match merge {
            Value::String(text) => text.split_once(' '),
            _ => merge[0].as_str().zip(merge[1].as_str()),
        };
        let Some((a, b)) = pair else {
            continue;
        };
        // The crate cuts off as many bytes, whatever they are.
        let merged = b.get(prefix.len()..).map(|b| format!("{a}{b}"));
        if !merged.is_some_and(|merged| vocabulary.contains_key(&merged)) {
            let shown = |token: &str| token.chars().take(40).collect::<String>();
            let (a, b) = (shown(a), shown(b));
            return Err(format!(
                "merge {i} of {a:?} and {b:?} makes no token of the vocabulary; the file is damaged"
            ));
        }
    }
    Ok(())
}

/// Refuses ids that no vocabulary has.
pub(super) fn check_ids<'a>(tokens: impl Iterator<Item = (u32, &'a str)>) -> Result<(), String> {
    match tokens.max() {
        Some((id, token)) if id >= MOST_TOKENS => {
            let token: String = token.chars().take(40).collect();
            Err(format!(
                "token {token:?} has the id {id}, beyond any vocabulary; the file is damaged"
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merges(prefix: Option<&str>, merges: Value) -> Result<(), String> {
        let vocab = json!({"a": 0, "b": 1, "ab": 2, "##b": 3, "é": 4});
        let model = json!({
            "vocab": vocab, "merges": merges, "continuing_subword_prefix": prefix
        });
        check_merges(&json!({"model": model}).to_string())
    }

    #[test]
    fn merges_make_tokens() {
        merges(None, json!(["a b"])).unwrap();
        merges(None, json!([["a", "b"]])).unwrap();
        merges(Some("##"), json!([["a", "##b"]])).unwrap();
        for (prefix, bad) in [
            (None, json!(["ab ab"])),
            (None, json!([["a", "b"], ["ab", "b"]])),
            // Shorter than the prefix, and in the middle of a character.
            (Some("##"), json!([["a", "b"]])),
            (Some("#"), json!([["a", "é"]])),
        ] {
            let error = merges(prefix, bad).unwrap_err();
            assert!(error.contains("makes no token"), "{error}");
        }
    }

    #[test]
    fn what_are_no_merges_is_left_to_the_crate() {
        for text in ["", "{", "[]", "{}", r#"{"model": {"vocab": []}}"#] {
            check_merges(text).unwrap();
        }
        merges(None, json!([7, "ab", ["a"], null])).unwrap();
    }

    #[test]
    fn ids_are_bounded() {
        check_ids([(7, "a"), (MOST_TOKENS - 1, "b")].into_iter()).unwrap();
        let error = check_ids([(MOST_TOKENS, "a"), (0, "b")].into_iter()).unwrap_err();
        assert!(error.contains("4194304"), "{error}");
    }
}
