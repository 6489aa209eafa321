//! Math-Shepherd (<https://arxiv.org/abs/2312.08935>): `input` has a tag after each step, and
//! `label` is the same text with + or - in place of each tag.

use serde_json::{Value, json};

use crate::field::{self, Record};
use crate::targets::Targets;
use crate::{Format, LabelledChain, LabelledStep, Reason};

pub(super) static FORMAT: Format = Format {
    name: "math-shepherd",
    about: "input with a tag after each step, label with + or - for it",
    fits: |record| {
        let is_text = |field: &str| record.get(field).is_some_and(serde_json::Value::is_string);
        is_text("input") && is_text("label")
    },
    import,
    export: Some(export),
};

/// The placeholder for a step's label in `input`: two Cyrillic letters.
const TAG: &str = "ки";
/// A field that [`export`] adds. True: the numbers `Step 1: ` are part of the steps' own texts.
/// False: [`export`] added the numbers.
const NUMBERED: &str = "numbered";
/// The start of the first step, which separates the problem from the steps.
pub(super) const FIRST: &str = "Step 1: ";

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    fn apart() -> Reason {
        Reason::new("field \"label\": not the input with + or - for each tag")
    }
    let input = field::text(record, &["input"])?;
    let label = field::text(record, &["label"])?;
    // With this field the record was written by `export`, and its texts are restored byte by byte.
    let numbered = record.get(NUMBERED).and_then(Value::as_bool);
    let (problem, mut rest) = problem_and_steps(&input)?;
    let mut marked = label.strip_prefix(problem).ok_or_else(apart)?;
    let mut steps = Vec::new();
    while let Some((text, behind)) = rest.split_once(TAG) {
        // Both texts are walked together, because they may differ only at the tags.
        marked = marked.strip_prefix(text).ok_or_else(apart)?;
        let right = match marked.chars().next() {
            Some('+') => true,
            Some('-') => false,
            _ => return Err(apart()),
        };
        (rest, marked) = (behind, &marked[1..]);
        let text = step(text, steps.len() + 1, numbered);
        steps.push(LabelledStep::labelled(text.to_owned(), right));
    }
    if rest.trim() != marked.trim() {
        return Err(apart());
    }
    if !rest.trim().is_empty() {
        return Err(Reason::new("field \"input\": text after the last tag"));
    }
    let problem = match numbered {
        Some(_) => problem.strip_suffix(' ').unwrap_or(problem),
        None => problem.trim(),
    };
    Ok(vec![field::chain(record, problem.to_owned(), steps)])
}

/// Returns a step's own text, without the number and white space that the format adds.
fn step(text: &str, number: usize, numbered: Option<bool>) -> &str {
    let text = match numbered {
        Some(_) => {
            let text = text.strip_suffix(' ').unwrap_or(text);
            text.strip_prefix(between(number)).unwrap_or(text)
        }
        None => text.trim(),
    };
    match numbered {
        Some(true) => text,
        _ => text.strip_prefix(&prefix(number)).unwrap_or(text),
    }
}

/// Returns the words that number a step, from 1.
fn prefix(number: usize) -> String {
    format!("Step {number}: ")
}

/// Returns the separator that comes before a step.
fn between(number: usize) -> &'static str {
    match number {
        1 => "",
        _ => "\n",
    }
}

/// Splits a text into problem and steps, before `Step 1: `. That mark has to occur exactly once.
pub(super) fn problem_and_steps(text: &str) -> Result<(&str, &str), Reason> {
    let mut found = text.match_indices(FIRST).map(|(at, _)| at);
    match (found.next(), found.next()) {
        (Some(at), None) => Ok(text.split_at(at)),
        _ => Err(Reason::new(format!(
            "\"{FIRST}\" must occur exactly once, to separate the problem from the steps"
        ))),
    }
}

fn export(chain: &LabelledChain, targets: &Targets) -> Result<Value, Reason> {
    let (mut input, mut label) = (format!("{} ", chain.problem), format!("{} ", chain.problem));
    let mut steps = chain.steps[..targets.labels.len()].iter().zip(1..);
    // If every text begins with its own number already, no second number is added.
    let numbered = steps.all(|(step, number)| step.text.starts_with(&prefix(number)));
    for ((step, right), number) in chain.steps.iter().zip(targets.hard()?).zip(1..) {
        let (between, text) = (between(number), &step.text);
        let text = if numbered {
            format!("{between}{text} ")
        } else {
            format!("{between}{}{text} ", prefix(number))
        };
        input += &format!("{text}{TAG}");
        label += &format!("{text}{}", if right { '+' } else { '-' });
    }
    // A tag inside a text would be read as the end of a step, so such a chain is refused.
    if input.matches(TAG).count() != targets.labels.len() {
        return Err(Reason::new(format!("a text has the tag {TAG} in it")));
    }
    // The problem or a step may contain `Step 1: `; the record could then not be read again.
    problem_and_steps(&input)?;
    let mut record = json!({"input": input, "label": label, NUMBERED: numbered});
    if let Some(source) = &chain.source {
        record["task"] = json!(source);
    }
    Ok(record)
}
