//! The output of `search-and-learn`: `completions` with the scores of their steps. Answers are read
//! from the list `preds`; `pred` is only the answer that the search chose.

use serde_json::Value;

use super::{Columns, Layout};

pub(super) static LAYOUT: Layout = Layout {
    name: "search-and-learn",
    about: "problem, answer, completions, scores (of the steps of each)",
    fits: |record| record.get("completions").is_some_and(Value::is_array),
    read: |record| COLUMNS.read(record),
};

const COLUMNS: Columns = Columns {
    solutions: "completions",
    answers: "preds",
    rights: "corrects",
    scores: "scores",
};
