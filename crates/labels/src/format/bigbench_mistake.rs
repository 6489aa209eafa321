//! BIG-Bench-Mistake (<https://arxiv.org/abs/2311.08516>): `mistake_index` is the first wrong step.

use serde_json::Value;

use crate::field::{self, Record};
use crate::{Format, LabelledChain, LabelledStep, Reason};

pub(super) static FORMAT: Format = Format {
    name: "bigbench-mistake",
    about: "input, steps, mistake_index: the first wrong step from 0, or null",
    fits: |record| record.contains_key("mistake_index") && record.contains_key("steps"),
    import,
    export: None,
};

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    let problem = field::text(record, &["input"])?;
    let texts = field::texts(record, &["steps"])?;
    let first_error = match record.get("mistake_index") {
        None | Some(Value::Null) => -1,
        Some(at) => at
            .as_i64()
            .filter(|at| (0..texts.len() as i64).contains(at))
            .ok_or_else(|| {
                Reason::new("field \"mistake_index\": write the index of a step from 0, or null")
            })?,
    };
    let target = field::scalar(record, &["target"]);
    let found = field::scalar(record, &["answer"]);
    let steps = texts.into_iter().map(LabelledStep::unlabelled).collect();
    Ok(vec![LabelledChain {
        first_error: Some(first_error),
        outcome: target
            .as_ref()
            .zip(found)
            .map(|(target, found)| *target == found),
        // In this data set `answer` is the chain's own answer; `target` is the reference.
        answer: target,
        source: Some("bigbench-mistake".to_owned()),
        ..field::chain(record, problem, steps)
    }])
}
