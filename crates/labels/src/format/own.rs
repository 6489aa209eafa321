//! The project's own format: [`LabelledChain`] as JSON, which loses nothing.

use serde::Deserialize;
use serde_json::Value;

use crate::field::Record;
use crate::{Format, LabelledChain, Reason};

pub static FORMAT: Format = Format {
    name: "beamgen",
    about: "the project's own: all raw facts",
    fits: |record| {
        let first = record.get("steps").and_then(|steps| steps.get(0));
        record.contains_key("problem") && first.is_some_and(Value::is_object)
    },
    import,
};

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    match LabelledChain::deserialize(record) {
        Ok(chain) => Ok(vec![chain]),
        Err(error) => Err(Reason::with("not a labelled chain", error.to_string())),
    }
}
