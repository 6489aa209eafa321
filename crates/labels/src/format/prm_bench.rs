//! `PRMBench` (<https://arxiv.org/abs/2501.03124>): right solutions into which mistakes were put.
//! The chain is the changed solution.

use crate::field::{self, Record};
use crate::{Format, LabelledChain, LabelledStep, Reason};

pub(super) static FORMAT: Format = Format {
    name: "prmbench",
    about: "modified_process, error_steps (from 1)",
    fits: |record| record.contains_key("modified_process") && record.contains_key("error_steps"),
    import,
    export: None,
};

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    let problem = field::text(record, &["modified_question", "question"])?;
    let texts = field::texts(record, &["modified_process"])?;
    let steps = texts.into_iter();
    let mut steps: Vec<_> = steps
        .map(|text| LabelledStep::labelled(text, true))
        .collect();
    let count = steps.len();
    for error in field::list(record, &["error_steps"])? {
        let at = error.as_u64().and_then(|at| usize::try_from(at).ok());
        let at = at.filter(|&at| at > 0).ok_or_else(|| {
            Reason::new("field \"error_steps\": write the numbers of wrong steps, from 1")
        })?;
        let step = steps.get_mut(at - 1).ok_or_else(|| {
            Reason::with(
                "field \"error_steps\": points past the last step",
                format!("step {at} of {count}"),
            )
        })?;
        // Steps that are not listed stay right: the original solution was right.
        step.right = Some(false);
    }
    Ok(vec![LabelledChain {
        source: Some("prmbench".to_owned()),
        ..field::chain(record, problem, steps)
    }])
}
