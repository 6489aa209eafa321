//! Typed access to the fields of a record; errors name the field and what to write.

use serde_json::{Map, Value};

use crate::{LabelledChain, LabelledStep, Reason};

/// One record of a file of chains.
pub(crate) type Record = Map<String, Value>;

/// Returns the first of these fields that exists and is not null, as its name and value.
pub(crate) fn any<'a>(
    record: &'a Record,
    fields: &[&'static str],
) -> Option<(&'static str, &'a Value)> {
    fields
        .iter()
        // Many writers fill missing fields with null, so null counts as missing.
        .find_map(|&field| Some((field, record.get(field).filter(|value| !value.is_null())?)))
}

/// Returns a field as [`any`] does. If none of the names exists, the error names the first.
pub(crate) fn needed<'a>(
    record: &'a Record,
    fields: &[&'static str],
) -> Result<(&'static str, &'a Value), Reason> {
    any(record, fields)
        .ok_or_else(|| Reason::new(format!("field \"{}\": missing: add it", fields[0])))
}

/// Returns the text of the first of these fields that exists.
///
/// # Errors
/// Returns an error if no field exists, or if its value is blank or not a text.
pub(crate) fn text(record: &Record, fields: &[&'static str]) -> Result<String, Reason> {
    let (field, value) = needed(record, fields)?;
    checked(value, field)
}

/// Returns the list in the first of these fields that exists; the list may be empty.
pub(crate) fn list<'a>(
    record: &'a Record,
    fields: &[&'static str],
) -> Result<&'a Vec<Value>, Reason> {
    let (field, value) = needed(record, fields)?;
    value
        .as_array()
        .ok_or_else(|| Reason::new(format!("field \"{field}\": write a list")))
}

/// Returns the list of texts in the first of these fields that exists.
///
/// # Errors
/// Returns an error if the list is empty, or if an item is blank or not a text.
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

/// Returns a value as a text; an error if the value is blank or not a text.
pub(crate) fn checked(value: &Value, field: &str) -> Result<String, Reason> {
    match value.as_str() {
        Some(text) if text.trim().is_empty() => Err(Reason::new(format!(
            "field \"{field}\": a text is empty: leave it out"
        ))),
        Some(text) => Ok(text.to_owned()),
        None => Err(Reason::new(format!("field \"{field}\": write text"))),
    }
}

/// Returns a list that has exactly `count` items, one for each step. Messages call an item `item`.
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

/// Returns a value as an object. Messages ask for `wanted` in `field`.
pub(crate) fn object<'a>(
    value: &'a Value,
    field: &str,
    wanted: &str,
) -> Result<&'a Record, Reason> {
    value
        .as_object()
        .ok_or_else(|| Reason::new(format!("field \"{field}\": write {wanted}")))
}

/// Returns at most 20 characters of a value, for messages.
pub(crate) fn shown(value: &Value) -> String {
    value.to_string().chars().take(20).collect()
}

/// Returns a text, or a number converted to text. `None` for other types and for missing fields.
pub(crate) fn scalar(record: &Record, fields: &[&'static str]) -> Option<String> {
    match any(record, fields)?.1 {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns a boolean; `None` if the field is missing or null. Some files write 1 and 0.
pub(crate) fn truth(record: &Record, field: &'static str) -> Result<Option<bool>, Reason> {
    let value = any(record, &[field]);
    value.map(|(_, value)| truth_of(value, field)).transpose()
}

/// Converts true, false, 1 or 0 to a boolean; other values are errors.
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

/// Makes a chain and fills the fields whose names most formats share: `id`, `answer`, `source`,
/// `level` and `class`.
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
