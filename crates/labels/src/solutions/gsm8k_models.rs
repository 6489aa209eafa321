//! Solutions of GSM8K as published in the repository `grade-school-math`: a record has the question
//! and one object per model.

use serde_json::Value;

use super::{Layout, Solution, Solved, Text, solved, string};
use crate::Reason;
use crate::field::{self, Record};

pub(super) static LAYOUT: Layout = Layout {
    name: "gsm8k-models",
    about: "question, ground_truth, and for each model an object with solution and is_correct",
    fits: |record| models(record).next().is_some(),
    read,
};

fn models(record: &Record) -> impl Iterator<Item = &Record> {
    let objects = record.values().filter_map(Value::as_object);
    objects.filter(|fields| fields.contains_key("solution"))
}

fn read(record: &Record) -> Result<Solved, Reason> {
    let mut all = solved(record, &["ground_truth", "answer"])?;
    all.reference = all.reference.map(|text| last_line(&text).to_owned());
    for model in models(record) {
        let text = string(&model["solution"], "solution")?;
        all.solutions.push(Solution {
            right: field::truth(model, "is_correct")?,
            answer: text.contains(MARKER).then(|| last_line(&text).to_owned()),
            text: Text::Whole(text),
            ..Solution::default()
        });
    }
    Ok(all)
}

/// The mark that begins the last line of a solution, which is the answer.
const MARKER: &str = "\nA: ";

fn last_line(text: &str) -> &str {
    text.rsplit_once(MARKER)
        .map_or(text, |(_, answer)| answer)
        .trim()
}
