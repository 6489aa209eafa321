//! Given chains: a problem and its steps. Labels are not read.

use beamgen_search::Problem;
use serde_json::{Map, Value};

/// The keys that the documents of a problem may stand under, in the order they are tried.
pub(crate) const CONTEXT_KEYS: [&str; 3] = ["context", "documents", "passage"];

/// A chain that was not made here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenChain {
    /// `id` of the file, or its number from 1.
    pub id: String,
    /// The problem's text.
    pub problem: String,
    /// Its steps; none of them blank.
    pub steps: Vec<String>,
    /// The problem's documents; none of them blank.
    pub context: Vec<String>,
}

impl GivenChain {
    /// Reads a chain. Without an `id` it is called by its number.
    ///
    /// # Errors
    /// The fault, with the field, and what to do.
    pub fn of(value: &Value, number: usize) -> Result<Self, String> {
        let Value::Object(object) = value else {
            return Err("not an object: write {\"problem\": \"...\", \"steps\": [\"...\"]}".into());
        };
        let (field, problem) = find(object, &["problem", "question", "prompt"])
            .ok_or("field \"problem\": missing: add the problem's text")?;
        let problem = text(problem, field)?;
        let (field, steps) = find(object, &["steps", "completions"])
            .ok_or("field \"steps\": missing: add the chain's steps, a list of strings, or its text as \"response\"")?;
        let steps = steps_of(steps, field)?;
        if steps.is_empty() {
            return Err(format!(
                "field \"{field}\": write a list of at least one string"
            ));
        }
        let id = match object.get("id") {
            None | Some(Value::Null) => number.to_string(),
            Some(Value::String(id)) => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            Some(_) => return Err("field \"id\": write a string or a number".into()),
        };
        Ok(Self {
            id,
            problem,
            steps,
            context: match find(object, &CONTEXT_KEYS) {
                Some((field, documents)) => context_of(documents, field)?,
                None => Vec::new(),
            },
        })
    }
}

impl From<GivenChain> for Problem {
    fn from(given: GivenChain) -> Self {
        Self {
            id: given.id,
            text: given.problem,
            answer: None,
            steps: given.steps,
            context: given.context,
        }
    }
}

/// Gives a record that has a whole answer as `response`, and no steps, the steps that `cut` makes of
/// it.
pub fn cut_response(record: &mut Value, cut: &dyn Fn(&str) -> Vec<String>) {
    let Value::Object(object) = record else {
        return;
    };
    if find(object, &["steps", "completions"]).is_none()
        && let Some(Value::String(response)) = object.get("response")
    {
        let steps = Value::from(cut(response));
        object.insert("steps".to_owned(), steps);
    }
}

/// Steps under `field`: a list of strings that are not blank, or of objects with such a `text`, which
/// `beamgen label` writes.
///
/// # Errors
/// The fault, with the field.
pub fn steps_of(steps: &Value, field: &str) -> Result<Vec<String>, String> {
    let list = steps.as_array().ok_or_else(|| {
        let found = kind(steps);
        format!("field \"{field}\": found {found}: write a list of at least one string")
    })?;
    let text_of = |(i, step): (usize, &Value)| {
        text(step.get("text").unwrap_or(step), &format!("{field}[{i}]"))
    };
    list.iter().enumerate().map(text_of).collect()
}

/// The type of a value, in words.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Documents under `field`: a string, or a list as [`steps_of`] reads it. Null or a blank string is
/// none.
///
/// # Errors
/// The fault, with the field.
pub fn context_of(documents: &Value, field: &str) -> Result<Vec<String>, String> {
    match documents {
        Value::Null => Ok(Vec::new()),
        Value::String(text) if text.trim().is_empty() => Ok(Vec::new()),
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Array(_) => steps_of(documents, field),
        other => Err(format!(
            "field \"{field}\": found {}: write a string or a list of strings",
            kind(other)
        )),
    }
}

fn find<'a>(
    object: &'a Map<String, Value>,
    keys: &[&'static str],
) -> Option<(&'static str, &'a Value)> {
    keys.iter().find_map(|&key| Some((key, object.get(key)?)))
}

fn text(value: &Value, field: &str) -> Result<String, String> {
    match value.as_str() {
        Some(text) if text.trim().is_empty() => Err(format!(
            "field \"{field}\": empty: leave empty steps and documents out, and give every problem its text"
        )),
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("field \"{field}\": write a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<GivenChain, String> {
        GivenChain::of(&serde_json::from_str(text).unwrap(), 1)
    }

    #[test]
    fn steps_with_facts_are_their_texts() {
        let plain = of(r#"{"problem": "p", "steps": ["a", "b"], "label": 1}"#).unwrap();
        let facts = r#"{"id": "x", "question": "r", "steps": [{"text": "a", "right": true}, {"text": "b"}]}"#;
        let facts = of(facts).unwrap();
        assert_eq!((plain.id.as_str(), facts.id.as_str()), ("1", "x"));
        assert_eq!(plain.steps, facts.steps);
        let numbered = of(r#"{"id": 7, "prompt": "q", "completions": ["a"]}"#).unwrap();
        assert_eq!(numbered.id, "7");
        let given = of(r#"{"problem": "p", "steps": ["a"], "documents": ["b", "c"]}"#);
        let given = Problem::from(given.unwrap());
        assert_eq!(given.with_context(), "b\n\nc\n\np");
    }

    #[test]
    fn faults_name_the_field() {
        for (text, wanted) in [
            ("3", "not an object"),
            ("{\"problem\": 1}", "field \"problem\""),
            (r#"{"problem": "p"}"#, "field \"steps\": missing"),
            (r#"{"problem": "p", "steps": []}"#, "at least one"),
            (
                r#"{"problem": "p", "steps": ["a", " "]}"#,
                "\"steps[1]\": empty",
            ),
            (
                r#"{"problem": "p", "steps": [{"right": true}]}"#,
                "\"steps[0]\": write a string",
            ),
        ] {
            let fault = of(text).unwrap_err();
            assert!(fault.contains(wanted) && !fault.contains('\n'), "{fault}");
        }
    }
}
