//! The output of the evaluation of `Qwen2.5-Math` (`rm_maj`): lists with an item for each response.

use serde_json::Value;

use super::{Columns, Layout};

pub(super) static LAYOUT: Layout = Layout {
    name: "qwen",
    about: "question, answer, code (the solutions), pred, score (right or not), pred_score",
    fits: |record| record.get("code").is_some_and(Value::is_array),
    read: |record| COLUMNS.read(record),
};

const COLUMNS: Columns = Columns {
    solutions: "code",
    answers: "pred",
    rights: "score",
    scores: "pred_score",
};
