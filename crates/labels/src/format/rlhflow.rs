//! The format of `RLHFlow`: a conversation in which the user writes each step and the assistant
//! answers + or -.

use serde_json::{Value, json};

use crate::field::{self, Record};
use crate::format::math_shepherd::problem_and_steps;
use crate::targets::Targets;
use crate::{Format, LabelledChain, LabelledStep, Reason};

pub(super) static FORMAT: Format = Format {
    name: "rlhflow",
    about: "conversations: a step by the user, + or - by the assistant",
    fits: |record| record.get("conversations").is_some_and(Value::is_array),
    import,
    export: Some(export),
};

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    fn pairs() -> Reason {
        Reason::new("field \"conversations\": write pairs of a user and an assistant")
    }
    let turns = field::list(record, &["conversations"])?;
    // With the field `problem` the record was written by `export`, and its texts are restored byte
    // by byte.
    let own = record.get("problem").and_then(Value::as_str);
    let mut problem = String::new();
    let mut steps = Vec::new();
    for pair in turns.chunks(2) {
        let [user, assistant] = pair else {
            return Err(pairs());
        };
        let mut text = said(user, "user").ok_or_else(pairs)?;
        let right = match said(assistant, "assistant").ok_or_else(pairs)?.trim() {
            "+" => true,
            "-" => false,
            _ => {
                return Err(Reason::new(
                    "field \"conversations\": write + or - for the assistant",
                ));
            }
        };
        // The first message of the user contains the problem and the first step.
        if steps.is_empty() {
            let parts = own.and_then(|own| Some((own, text.strip_prefix(own)?.strip_prefix(' ')?)));
            let (before, after) = match parts {
                Some(parts) => parts,
                None => problem_and_steps(text).map(|(before, after)| (before.trim(), after))?,
            };
            (problem, text) = (before.to_owned(), after);
        }
        if own.is_none() {
            text = text.trim();
        }
        steps.push(LabelledStep::labelled(text.to_owned(), right));
    }
    Ok(vec![field::chain(record, problem, steps)])
}

fn said<'a>(turn: &'a Value, role: &str) -> Option<&'a str> {
    turn.get("content")?
        .as_str()
        .filter(|_| turn.get("role").is_some_and(|own| own == role))
}

fn export(chain: &LabelledChain, targets: &Targets) -> Result<Value, Reason> {
    let mut turns = Vec::new();
    for (i, (step, right)) in chain.steps.iter().zip(targets.hard()?).enumerate() {
        let content = match i {
            0 => format!("{} {}", chain.problem, step.text),
            _ => step.text.clone(),
        };
        turns.push(json!({"role": "user", "content": content}));
        turns.push(json!({"role": "assistant", "content": if right { "+" } else { "-" }}));
    }
    Ok(json!({"conversations": turns, "problem": chain.problem}))
}
