//! The plain layout: a problem with its reference answer and a list of solutions.

use serde_json::Value;

use super::{Layout, Solution, Solved, Text, first_error, scores, solved, string, text_of};
use crate::Reason;
use crate::field::{self, Record};

pub(super) static LAYOUT: Layout = Layout {
    name: "own",
    about: "problem, answer, solutions: a list of texts, or of objects with text or steps, correct, answer, score or scores, first_error",
    fits: |record| record.get("solutions").is_some_and(Value::is_array),
    read,
};

const REFERENCES: &[&str] = &[
    "answer",
    "reference",
    "final_answer",
    "expected_answer",
    "ground_truth",
    "gold",
    "target",
];

fn read(record: &Record) -> Result<Solved, Reason> {
    let mut all = solved(record, REFERENCES)?;
    let items = field::list(record, &["solutions"])?.iter();
    for (item, number) in items.zip(1..) {
        let solution = solution(item)
            .map_err(|reason| Reason::with(reason.to_string(), format!("solution {number}")))?;
        all.solutions.push(solution);
    }
    Ok(all)
}

fn solution(item: &Value) -> Result<Solution, Reason> {
    let Some(item) = item.as_object() else {
        return Ok(Solution {
            text: Text::Whole(string(item, "solutions")?),
            ..Solution::default()
        });
    };
    let text = if field::any(item, &["steps"]).is_some() {
        Text::Steps(field::texts(item, &["steps"])?)
    } else {
        let (name, text) = field::needed(item, &["text", "solution"])?;
        Text::Whole(string(text, name)?)
    };
    let given = field::any(item, &["scores", "score"]);
    let given = given.map(|(name, value)| scores(value, name));
    let count = match &text {
        Text::Steps(steps) => steps.len(),
        // The text is not split yet and may have any number of steps: accept any index.
        Text::Whole(_) => usize::MAX >> 1,
    };
    Ok(Solution {
        right: field::truth(item, "correct")?,
        answer: field::any(item, &["answer", "pred"]).map(|(_, answer)| text_of(answer)),
        scores: given.transpose()?,
        first_error: first_error(item, "first_error", count)?,
        text,
    })
}
