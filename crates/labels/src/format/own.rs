//! The project's own format: [`LabelledChain`] as JSON, which loses nothing.

use serde::Deserialize;
use serde_json::Value;

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
    match LabelledChain::deserialize(record) {
        Ok(chain) => Ok(vec![chain]),
        Err(error) => Err(Reason::with("not a labelled chain", error.to_string())),
    }
}

fn export(chain: &LabelledChain, _: &Targets) -> Result<Value, Reason> {
    // Only numbers that a check refuses cannot be written.
    serde_json::to_value(chain).map_err(|_| Reason::new("a number in it is none that JSON has"))
}
