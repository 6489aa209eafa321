//! The project's own format: a [`LabelledChain`] as JSON, with every fact.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::field::Record;
use crate::targets::Targets;
use crate::{Format, LabelledChain, Reason};

pub(super) static FORMAT: Format = Format {
    name: "beamgen",
    about: "the project's own: all raw facts",
    fits: |record| {
        let first = record.get("steps").and_then(|steps| steps.get(0));
        record.contains_key("problem") && first.is_some_and(Value::is_object)
    },
    import,
    export: Some(export),
};

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    match LabelledChain::deserialize(renewed(record)) {
        Ok(chain) => Ok(vec![chain]),
        Err(error) => Err(Reason::with("not a labelled chain", error.to_string())),
    }
}

/// Converts a record of the older form, in which each step had at most one opinion, `second`.
fn renewed(record: &Record) -> Value {
    let mut record = record.clone();
    let scorer = match record.remove("second_scorer") {
        Some(Value::String(scorer)) => scorer,
        _ => "second".to_owned(),
    };
    let steps = record.get_mut("steps").and_then(Value::as_array_mut);
    for step in steps.into_iter().flatten() {
        // Alternatives are steps, too, and may have a `second` opinion.
        let others = step.get_mut("alternatives").and_then(Value::as_array_mut);
        others
            .into_iter()
            .flatten()
            .for_each(|other| _ = rename_second(other, &scorer));
        rename_second(step, &scorer);
    }
    Value::Object(record)
}

/// Moves the `second` opinion of a step to `opinions`, under the scorer's name. Returns `None` if
/// nothing was moved.
fn rename_second(step: &mut Value, scorer: &str) -> Option<()> {
    let step = step.as_object_mut()?;
    let second = step.remove("second").filter(|second| !second.is_null())?;
    let opinions = step.entry("opinions").or_insert_with(|| json!({}));
    opinions.as_object_mut()?.insert(scorer.to_owned(), second);
    Some(())
}

fn export(chain: &LabelledChain, _: &Targets) -> Result<Value, Reason> {
    // Serialization fails only for numbers that are not finite, which `check` refuses on reading.
    serde_json::to_value(chain)
        .map_err(|_| Reason::new("a number is not finite, which JSON cannot hold"))
}
