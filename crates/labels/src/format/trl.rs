//! The stepwise supervision of TRL: a prompt, completions (the steps), and one label per
//! completion.

use serde_json::{Value, json};

use crate::field::{self, Record};
use crate::targets::{Kind, Targets};
use crate::{Format, LabelledChain, LabelledStep, Reason};

pub(super) static FORMAT: Format = Format {
    name: "trl",
    about: "prompt, completions, labels: one a completion",
    fits: |record| {
        field::any(record, STEPS).is_some() && record.get("labels").is_some_and(Value::is_array)
    },
    import,
    export: Some(export),
};

const STEPS: &[&str] = &["completions", "steps"];

/// The label for "none", which the losses of `PyTorch` ignore.
const IGNORED: i64 = -100;

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    let problem = field::text(record, &["prompt", "problem", "question"])?;
    let texts = field::texts(record, STEPS)?;
    let labels = field::one_a_step(record, "labels", "label", texts.len())?;
    let steps = texts.into_iter().zip(labels).map(|(text, label)| {
        let mut step = LabelledStep::unlabelled(text);
        match (label, label.as_i64(), label.as_f64()) {
            (Value::Null, ..) => {}
            (Value::Bool(right), ..) => step.right = Some(*right),
            // An integer is a hard label and a float is a soft one, even if the float is 0.0 or
            // 1.0.
            (_, Some(right @ 0..=1), _) => step.right = Some(right == 1),
            (.., Some(ignored)) if ignored == IGNORED as f64 => {}
            (.., Some(soft)) if (0.0..=1.0).contains(&soft) => step.soft = Some(soft),
            _ => {
                return Err(Reason::with(
                    "field \"labels\": write true, false, a number from 0 to 1, or -100 for none",
                    field::shown(label),
                ));
            }
        }
        Ok(step)
    });
    let steps = steps.collect::<Result<_, _>>()?;
    Ok(vec![field::chain(record, problem, steps)])
}

fn export(chain: &LabelledChain, targets: &Targets) -> Result<Value, Reason> {
    let mut labels: Vec<Value> = Vec::with_capacity(targets.labels.len());
    for label in &targets.labels {
        // The kind is the same for the whole file: readers of columns take the type from the first
        // records.
        labels.push(match (targets.kind, label) {
            (Kind::Soft, label) => json!(label.unwrap_or(IGNORED as f64)),
            (Kind::Gaps, None) => json!(IGNORED),
            (Kind::Gaps, Some(label)) => json!(*label as i64),
            (Kind::Hard, label) => json!(*label == Some(1.0)),
        });
    }
    let texts: Vec<&str> = chain.steps.iter().map(|step| step.text.as_str()).collect();
    let texts = &texts[..labels.len()];
    Ok(json!({"prompt": chain.problem, "completions": texts, "labels": labels}))
}
