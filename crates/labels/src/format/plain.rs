//! A problem with steps and no labels. The format is not in [`FORMATS`](crate::FORMATS): only
//! commands that need no labels may read it.

use beamgen_eval::GivenChain;
use beamgen_search::Problem;
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
    let given = GivenChain::of(&Value::Object(record.clone()), 0);
    let given = Problem::from(given.map_err(Reason::new)?);
    Ok(vec![LabelledChain {
        id: field::scalar(record, &["id"]),
        problem: given.with_context().into_owned(),
        answer: field::scalar(record, &["answer", "reference"]),
        steps: given
            .steps
            .into_iter()
            .map(LabelledStep::unlabelled)
            .collect(),
        ..LabelledChain::default()
    }])
}
