//! A problem with its steps, without labels. It is in no table: only a command that needs no labels
//! reads it.

use beamgen_eval::GivenChain;
use serde_json::Value;

use crate::field::{self, Record};
use crate::{Format, LabelledChain, LabelledStep, Reason};

pub(super) static FORMAT: Format = Format {
    name: "plain",
    about: "problem, steps",
    fits: |_| true,
    import,
    export: None,
};

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    let given = GivenChain::of(&Value::Object(record.clone()), 0).map_err(Reason::new)?;
    let steps = given.steps.into_iter().map(LabelledStep::unlabelled);
    Ok(vec![LabelledChain {
        id: field::scalar(record, &["id"]),
        problem: given.problem,
        answer: field::scalar(record, &["answer", "reference"]),
        steps: steps.collect(),
        ..LabelledChain::default()
    }])
}
