//! Chains with people's ratings (1, 0, -1 or null) in a second list, one for each step.

use serde_json::Value;

use crate::field::{self, Record};
use crate::{Format, LabelledChain, LabelledStep, Reason};

pub(super) static FORMAT: Format = Format {
    name: "ratings",
    about: "problem, steps, ratings (1, 0, -1 or null)",
    fits: |record| record.contains_key("steps") && record.contains_key("ratings"),
    import,
    export: None,
};

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    let problem = field::text(record, &["problem", "question", "prompt"])?;
    let texts = field::texts(record, &["steps"])?;
    let ratings = field::one_a_step(record, "ratings", "rating", texts.len())?;
    let steps = texts.into_iter().zip(ratings).map(|(text, rating)| {
        Ok(LabelledStep {
            rating: self::rating(rating, "ratings")?,
            ..LabelledStep::unlabelled(text)
        })
    });
    let steps = steps.collect::<Result<_, Reason>>()?;
    Ok(vec![field::chain(record, problem, steps)])
}

/// Reads a rating on the scale of PRM800K: 1, 0 or -1; `None` for null.
pub(super) fn rating(value: &Value, name: &str) -> Result<Option<i8>, Reason> {
    match (value, value.as_i64()) {
        (Value::Null, _) => Ok(None),
        (_, Some(rating @ -1..=1)) => Ok(Some(rating as i8)),
        _ => Err(Reason::with(
            format!("field \"{name}\": write 1, 0, -1 or null"),
            field::shown(value),
        )),
    }
}
