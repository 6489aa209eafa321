//! `ProcessBench` (<https://arxiv.org/abs/2412.06559>) as a pool: each record is one solution,
//! split into steps.

use serde_json::Value;

use super::{Layout, Solution, Solved, Text, first_error, solved};
use crate::Reason;
use crate::field::{self, Record};

pub(super) static LAYOUT: Layout = Layout {
    name: "processbench",
    about: "problem, steps, final_answer_correct, label: one solution a record",
    fits: |record| record.get("steps").is_some_and(Value::is_array),
    read,
};

fn read(record: &Record) -> Result<Solved, Reason> {
    let steps = field::texts(record, &["steps"])?;
    let mut all = solved(record, &["answer"])?;
    all.solutions.push(Solution {
        right: field::truth(record, "final_answer_correct")?,
        first_error: first_error(record, "label", steps.len())?,
        text: Text::Steps(steps),
        ..Solution::default()
    });
    Ok(all)
}
