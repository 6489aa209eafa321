//! PRM800K (<https://arxiv.org/abs/2305.20050>), phases 1 and 2. People rated several completions
//! of each step, and the chain continues from one of them.

use serde_json::Value;

use crate::field::{self, Record};
use crate::format::ratings;
use crate::{Format, LabelledChain, LabelledStep, Reason};

pub(super) static FORMAT: Format = Format {
    name: "prm800k",
    about: "PRM800K: rated completions of each step, phases 1 and 2",
    fits: |record| {
        let has =
            |field: &str, inner: &str| record.get(field).is_some_and(|v| v.get(inner).is_some());
        has("question", "problem") && has("label", "steps")
    },
    import,
    export: None,
};

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    // OpenAI used these questions to test the people who rated.
    for (field, what) in [
        ("is_quality_control_question", "a quality control question"),
        (
            "is_initial_screening_question",
            "an initial screening question",
        ),
    ] {
        if record.get(field) == Some(&Value::Bool(true)) {
            return Err(Reason::new(what));
        }
    }
    let (name, question) = field::needed(record, &["question"])?;
    let question = field::object(question, name, "an object")?;
    let (name, label) = field::needed(record, &["label"])?;
    let label = field::object(label, name, "an object")?;
    let finish = field::scalar(label, &["finish_reason"]);
    if let Some(finish @ ("bad_problem" | "give_up")) = finish.as_deref() {
        return Err(Reason::new(format!("finish_reason {finish}")));
    }
    let mut steps = Vec::new();
    for (i, step) in field::list(label, &["steps"])?.iter().enumerate() {
        let (step, continues) =
            path(step).map_err(|reason| Reason::with(reason.what, format!("step {}", i + 1)))?;
        steps.extend(step);
        // No completion was chosen here, so later steps would not continue this chain.
        if !continues {
            break;
        }
    }
    let phase = if record.get("generation").is_some_and(Value::is_number)
        || question.contains_key("pre_generated_steps")
    {
        "prm800k/phase2"
    } else {
        "prm800k/phase1"
    };
    let problem = field::text(question, &["problem"])?;
    Ok(vec![LabelledChain {
        source: Some(phase.to_owned()),
        ..field::chain(question, problem, steps)
    }])
}

/// Returns a step of the chain with its alternatives, and whether the chain continues after the
/// step. The chain continues from the chosen completion, or else from the one that a person wrote.
fn path(step: &Value) -> Result<(Option<LabelledStep>, bool), Reason> {
    let step = field::object(step, "steps", "objects")?;
    let mut completions = match field::any(step, &["completions"]) {
        None => Vec::new(),
        Some(_) => field::list(step, &["completions"])?
            .iter()
            .map(completion)
            .collect::<Result<_, _>>()?,
    };
    let human = field::any(step, &["human_completion"]).map(|(_, human)| completion(human));
    let chosen = match field::any(step, &["chosen_completion"]) {
        None => None,
        Some((_, chosen)) => Some(
            chosen
                .as_u64()
                .filter(|&at| at < completions.len() as u64)
                .ok_or_else(|| {
                    Reason::new("field \"chosen_completion\": write the index of a completion")
                })? as usize,
        ),
    };
    let (taken, continues) = match (chosen, human) {
        (Some(at), _) => (completions.remove(at), true),
        (None, Some(human)) => (human?, true),
        // Nothing was chosen: the chain ends with the first completion, if there is any.
        (None, None) if completions.is_empty() => return Ok((None, false)),
        (None, None) => (completions.remove(0), false),
    };
    let alternatives = completions
        .into_iter()
        // An alternative without a rating has no fact that could label it.
        .filter(|other| other.rating.is_some())
        .collect();
    let step = LabelledStep {
        alternatives,
        ..taken
    };
    Ok((Some(step), continues))
}

fn completion(value: &Value) -> Result<LabelledStep, Reason> {
    let value = field::object(value, "completions", "objects")?;
    Ok(LabelledStep {
        rating: ratings::rating(value.get("rating").unwrap_or(&Value::Null), "rating")?,
        ..LabelledStep::unlabelled(field::text(value, &["text"])?)
    })
}
