//! Access to the fields of a record, with a check of their types.

use serde_json::{Map, Value};

use crate::{LabelledChain, LabelledStep, Reason};

/// A record of a file: a JSON object.
pub(crate) type Record = Map<String, Value>;

/// Returns the value of the first of these fields that exists and is not null, with its name.
pub(crate) fn any<'a>(
    record: &'a Record,
    fields: &[&'static str],
) -> Option<(&'static str, &'a Value)> {
    fields
        .iter()
        // Many writers fill missing fields with null.
        .find_map(|&field| Some((field, record.get(field).filter(|value| !value.is_null())?)))
}

/// Returns a value like [`any`]; it is an error if none of the fields exists.
pub(crate) fn needed<'a>(
    record: &'a Record,
    fields: &[&'static str],
) -> Result<(&'static str, &'a Value), Reason> {
    any(record, fields)
        .ok_or_else(|| Reason::new(format!("field \"{}\": missing: add it", fields[0])))
}

/// Returns a text that is not blank.
pub(crate) fn text(record: &Record, fields: &[&'static str]) -> Result<String, Reason> {
    let (field, value) = needed(record, fields)?;
    checked(value, field)
}

/// Returns a list, which may be empty.
pub(crate) fn list<'a>(
    record: &'a Record,
    fields: &[&'static str],
) -> Result<&'a Vec<Value>, Reason> {
    let (field, value) = needed(record, fields)?;
    value
        .as_array()
        .ok_or_else(|| Reason::new(format!("field \"{field}\": write a list")))
}

/// Returns a list of at least one text, none of them blank.
pub(crate) fn texts(record: &Record, fields: &[&'static str]) -> Result<Vec<String>, Reason> {
    let (field, _) = needed(record, fields)?;
    let items = list(record, fields)?;
    if items.is_empty() {
        return Err(Reason::new(format!(
            "field \"{field}\": write a list of at least one text"
        )));
    }
    let each = items.iter().enumerate().map(|(i, item)| {
        checked(item, field).map_err(|reason| Reason::with(reason.what, format!("item {}", i + 1)))
    });
    each.collect()
}

/// Returns a value as text that is not blank.
pub(crate) fn checked(value: &Value, field: &str) -> Result<String, Reason> {
    match value.as_str() {
        Some(text) if text.trim().is_empty() => Err(Reason::new(format!(
            "field \"{field}\": a text is empty: leave it out"
        ))),
        Some(text) => Ok(text.to_owned()),
        None => Err(Reason::new(format!("field \"{field}\": write text"))),
    }
}

/// Returns a list with one item for each of `count` steps; `item` names an item in messages.
pub(crate) fn one_a_step<'a>(
    record: &'a Record,
    field: &'static str,
    item: &str,
    count: usize,
) -> Result<&'a Vec<Value>, Reason> {
    let items = list(record, &[field])?;
    if items.len() != count {
        return Err(Reason::with(
            format!("field \"{field}\": write one {item} a step"),
            format!("{} for {count} steps", items.len()),
        ));
    }
    Ok(items)
}

/// Returns a value as an object; `wanted` tells in messages what `field` should contain.
pub(crate) fn object<'a>(
    value: &'a Value,
    field: &str,
    wanted: &str,
) -> Result<&'a Record, Reason> {
    value
        .as_object()
        .ok_or_else(|| Reason::new(format!("field \"{field}\": write {wanted}")))
}

/// Returns the beginning of a value, for messages.
pub(crate) fn shown(value: &Value) -> String {
    value.to_string().chars().take(20).collect()
}

/// Returns a text or a number as text; `None` for anything else.
pub(crate) fn scalar(record: &Record, fields: &[&'static str]) -> Option<String> {
    match any(record, fields)?.1 {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns a boolean, which some files write as 1 or 0; `None` if the field is missing or null.
pub(crate) fn truth(record: &Record, field: &'static str) -> Result<Option<bool>, Reason> {
    let value = any(record, &[field]);
    value.map(|(_, value)| truth_of(value, field)).transpose()
}

/// Returns a value as a boolean, which some files write as 1 or 0.
pub(crate) fn truth_of(value: &Value, field: &str) -> Result<bool, Reason> {
    match (value, value.as_f64()) {
        (Value::Bool(truth), _) => Ok(*truth),
        (_, Some(0.0)) => Ok(false),
        (_, Some(1.0)) => Ok(true),
        _ => Err(Reason::with(
            format!("field \"{field}\": write true or false"),
            shown(value),
        )),
    }
}

/// Makes a chain, with the fields that have the same names in most formats.
pub(crate) fn chain(record: &Record, problem: String, steps: Vec<LabelledStep>) -> LabelledChain {
    LabelledChain {
        id: scalar(record, &["id", "idx"]),
        problem,
        steps,
        answer: scalar(record, &["answer", "final_answer", "ground_truth_answer"]),
        source: scalar(record, &["source", "task"]),
        level: scalar(record, &["level"]),
        class: scalar(record, &["class", "classification"]),
        ..LabelledChain::default()
    }
}
