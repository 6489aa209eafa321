//! `ProcessBench` (<https://arxiv.org/abs/2412.06559>) and files in the same form: `label` is the
//! index of the first wrong step.

use serde_json::Value;

use crate::field::{self, Record};
use crate::{Format, LabelledChain, LabelledStep, Policy, Reason};

pub(super) static FORMAT: Format = Format {
    name: "processbench",
    about: "problem, steps, label: the first wrong step from 0, or -1",
    fits: |record| {
        let (problem, steps) = (
            field::any(record, PROBLEM),
            field::any(record, STEPS).and_then(|(_, steps)| steps.get(0)),
        );
        problem.is_some() && steps.is_some_and(Value::is_string)
    },
    import,
    export: None,
};

const PROBLEM: &[&str] = &["problem", "question", "prompt"];
const STEPS: &[&str] = &["steps", "completions"];

/// The subsets of `ProcessBench`. A chain's id is the subset and a number, as in `gsm8k-12`.
const PARTS: [&str; 4] = ["gsm8k", "math", "olympiadbench", "omnimath"];

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    let problem = field::text(record, PROBLEM)?;
    let texts = field::texts(record, STEPS)?;
    let count = texts.len() as i64;
    let (_, label) = field::any(record, &["label"]).ok_or_else(|| {
        Reason::new(
            "field \"label\": missing: give the index of the first wrong step, -1 if all are right",
        )
    })?;
    let first_error = label
        .as_i64()
        .filter(|at| (-1..count).contains(at))
        .ok_or_else(|| {
            Reason::with(
                "field \"label\": write the index of the first wrong step from 0, or -1 for none",
                format!(
                    "{} where the steps are 0 to {}",
                    field::shown(label),
                    count - 1
                ),
            )
        })?;
    let steps = texts.into_iter().map(LabelledStep::unlabelled).collect();
    let chain = field::chain(record, problem, steps);
    // The subset becomes part of the source, so that reports can split results by subset.
    let part = chain.id.as_deref().and_then(|id| id.rsplit_once('-'));
    let source = part
        .filter(|(part, _)| PARTS.contains(part))
        .map(|(part, _)| format!("processbench/{part}"));
    let generator = field::scalar(record, &["generator"]);
    Ok(vec![LabelledChain {
        first_error: Some(first_error),
        outcome: field::truth(record, "final_answer_correct")?,
        source: source.or_else(|| chain.source.clone()),
        policy: generator.map(|generator| Policy {
            generator,
            temperature: None,
        }),
        ..chain
    }])
}
