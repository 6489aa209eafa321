//! Chains that another program wrote, read from JSON records. Labels in the records are ignored.

use beamgen_search::Problem;
use serde_json::{Map, Value};

/// The keys of a problem's documents; the first one that a record has is read.
pub(crate) const CONTEXT_KEYS: [&str; 3] = ["context", "documents", "passage"];

/// A problem with the steps of one chain, read from a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenChain {
    /// The field `id`, or the number of the line without an `id`.
    pub id: String,
    /// The problem's text.
    pub problem: String,
    /// The texts of the steps: at least one, none blank.
    pub steps: Vec<String>,
    /// The documents of the problem, none blank; empty if there are none.
    pub context: Vec<String>,
}

impl GivenChain {
    /// Reads a chain from a JSON object. `number` is the id of a chain without `id`.
    ///
    /// # Errors
    /// A message of one line with the field, the fault and the remedy.
    pub fn of(value: &Value, number: usize) -> Result<Self, String> {
        let Value::Object(object) = value else {
            return Err("not an object: write {\"problem\": \"...\", \"steps\": [\"...\"]}".into());
        };
        // Common data sets use these keys. Messages contain the key that was found.
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
            ..Self::default()
        }
    }
}

/// Adds `steps` to a record that has only a whole answer under `response`, which `cut` splits.
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

/// Reads the steps under `field`: strings, or objects with a string `text` as `beamgen label` writes them.
///
/// # Errors
/// A message of one line with the field, if `steps` has another type or a blank string.
pub fn steps_of(steps: &Value, field: &str) -> Result<Vec<String>, String> {
    let list = steps.as_array().ok_or_else(|| {
        let found = kind(steps);
        format!("field \"{field}\": found {found}: write a list of at least one string")
    })?;
    let steps = list.iter().enumerate();
    let texts =
        steps.map(|(i, step)| text(step.get("text").unwrap_or(step), &format!("{field}[{i}]")));
    texts.collect()
}

/// Returns the JSON type of a value with its article, for messages.
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

/// Reads the documents under `field`: a string, or a list as in [`steps_of`]. Null and a blank string give no
/// documents.
///
/// # Errors
/// A message of one line with the field, for another type or a blank string in a list.
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

    fn read(text: &str) -> Result<GivenChain, String> {
        GivenChain::of(&serde_json::from_str(text).unwrap(), 1)
    }

    #[test]
    fn steps_with_facts_are_their_texts() {
        let plain = read(r#"{"problem": "p", "steps": ["a", "b"], "label": 1}"#).unwrap();
        let facts = r#"{"id": "x", "question": "r", "steps": [{"text": "a", "right": true}, {"text": "b"}]}"#;
        let facts = read(facts).unwrap();
        assert_eq!((plain.id.as_str(), facts.id.as_str()), ("1", "x"));
        assert_eq!(plain.steps, facts.steps);
        let numbered = read(r#"{"id": 7, "prompt": "q", "completions": ["a"]}"#).unwrap();
        assert_eq!(numbered.id, "7");
        let given = read(r#"{"problem": "p", "steps": ["a"], "documents": ["b", "c"]}"#);
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
            let fault = read(text).unwrap_err();
            assert!(fault.contains(wanted) && !fault.contains('\n'), "{fault}");
        }
    }
}
