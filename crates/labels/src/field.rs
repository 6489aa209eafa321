//! Fields of a record, each checked for its type.

use serde_json::{Map, Value};

use crate::{LabelledChain, LabelledStep, Reason};

/// A record.
pub(crate) type Record = Map<String, Value>;

/// The value of the first of these fields that is there and not null.
pub(crate) fn any<'a>(
    record: &'a Record,
    fields: &[&'static str],
) -> Option<(&'static str, &'a Value)> {
    fields
        .iter()
        .find_map(|&field| Some((field, record.get(field).filter(|value| !value.is_null())?)))
}

/// As [`any`]; it has to be there.
pub(crate) fn needed<'a>(
    record: &'a Record,
    fields: &[&'static str],
) -> Result<(&'static str, &'a Value), Reason> {
    any(record, fields)
        .ok_or_else(|| Reason::new(format!("field \"{}\": missing: add it", fields[0])))
}

/// A text that is not blank.
pub(crate) fn text(record: &Record, fields: &[&'static str]) -> Result<String, Reason> {
    let (field, value) = needed(record, fields)?;
    checked(value, field)
}

/// A list, which may be empty.
pub(crate) fn list<'a>(
    record: &'a Record,
    fields: &[&'static str],
) -> Result<&'a Vec<Value>, Reason> {
    let (field, value) = needed(record, fields)?;
    value
        .as_array()
        .ok_or_else(|| Reason::new(format!("field \"{field}\": write a list")))
}

/// A list of texts, none of them blank.
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

/// A value as text that is not blank.
pub(crate) fn checked(value: &Value, field: &str) -> Result<String, Reason> {
    match value.as_str() {
        Some(text) if text.trim().is_empty() => Err(Reason::new(format!(
            "field \"{field}\": a text is empty: leave it out"
        ))),
        Some(text) => Ok(text.to_owned()),
        None => Err(Reason::new(format!("field \"{field}\": write text"))),
    }
}

/// A list with one item for each of `count` steps; `item` names one.
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

/// The object that a field has, or that is an item of it; `wanted` is what to write.
pub(crate) fn object<'a>(
    value: &'a Value,
    field: &str,
    wanted: &str,
) -> Result<&'a Record, Reason> {
    value
        .as_object()
        .ok_or_else(|| Reason::new(format!("field \"{field}\": write {wanted}")))
}

/// The beginning of a value, for messages.
pub(crate) fn shown(value: &Value) -> String {
    value.to_string().chars().take(20).collect()
}

/// Text or a number as text; anything else is `None`.
pub(crate) fn scalar(record: &Record, fields: &[&'static str]) -> Option<String> {
    match any(record, fields)?.1 {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A truth, which some files write as 1 or 0; `None` if it is not there or null.
pub(crate) fn truth(record: &Record, field: &'static str) -> Result<Option<bool>, Reason> {
    let value = any(record, &[field]);
    value.map(|(_, value)| truth_of(value, field)).transpose()
}

/// A truth, which some files write as 1 or 0.
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

/// A chain with what most formats call by the same names.
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
