//! beamgen's own format: a list `chains`, each with its own entry in the answer.

use beamgen::Problem;
use beamgen::eval::{GivenChain, context_of};
use serde_json::{Value, json};

use super::{Asked, Chain, Cutter, Format, parse};
use crate::app::App;
use crate::fields::Fields;
use crate::refusal::Refusal;

pub(super) const FORMAT: Format = Format {
    routes: &["/v1/score"],
    marks: &["chains"],
    tells_errors: true,
    read,
};

fn read(app: &App, fields: &mut Fields) -> Result<Asked, Refusal> {
    fields.take("model");
    let cutter = Cutter::new(app, parse::step_separator(fields)?);
    let Some(Value::Array(chains)) = fields.take("chains") else {
        return Err(fields.wrong("chains", "not an array of chains: send one"));
    };
    let ids: Vec<String> = chains
        .iter()
        .enumerate()
        .map(|(at, chain)| id(chain, at))
        .collect();
    let chains = chains.into_iter().enumerate();
    let chains = chains
        .map(|(at, value)| chain(&cutter, value, at + 1))
        .collect();
    Ok(Asked::new(chains, move |answered| {
        let data = answered.chains.into_iter().zip(ids).enumerate();
        let data = data.map(|(index, (chain, id))| match chain {
            Ok(scored) => {
                let mut entry = json!({
                    "index": index,
                    "id": id,
                    "score": scored.score,
                    "scores": scored.steps,
                });
                if let Some(offsets) = scored.offsets {
                    entry["offsets"] = json!(offsets);
                }
                entry
            }
            Err(fault) => json!({"index": index, "id": id, "error": fault.reason()}),
        });
        json!({"object": "list", "data": data.collect::<Vec<Value>>()})
    }))
}

/// Returns the `id` of a chain; without one, its position in the list, counted from 1.
fn id(chain: &Value, index: usize) -> String {
    match &chain["id"] {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => (index + 1).to_string(),
    }
}

/// Reads a chain from `steps`, from a `response` to split, or from `messages` that end with a
/// response.
fn chain(cutter: &Cutter, mut value: Value, number: usize) -> Result<Chain, String> {
    let has = |key| value.get(key).is_some_and(|value: &Value| !value.is_null());
    let has_steps = has("steps") || has("completions");
    if has("messages") && !has_steps {
        let mut chain = cutter.messages(&value["messages"])?;
        let problem = Problem {
            context: context_of(&value["context"], "context")?,
            ..Problem::from(chain.problem)
        };
        chain.problem = problem.with_context().into_owned();
        return Ok(chain);
    }
    let mut offsets = None;
    if let (false, Some(response)) = (has_steps, value["response"].as_str()) {
        let separator = match &value["step_separator"] {
            Value::Null => None,
            Value::String(text) if !text.is_empty() => Some(text.as_str()),
            _ => return Err("field \"step_separator\": write a text that is not empty".to_owned()),
        };
        let (steps, places) = cutter.steps(response, separator)?;
        offsets = Some(places);
        value["steps"] = steps.into();
    }
    let problem = Problem::from(GivenChain::of(&value, number)?);
    Ok(Chain {
        problem: problem.with_context().into_owned(),
        steps: problem.steps,
        offsets,
    })
}
