//! `/v1/score`: the scores of given chains.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::StatusCode;
use beamgen::eval::{GivenChain, cut_response};
use beamgen::mend::steps_of;
use beamgen::{Aggregation, Problem};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::app::App;
use crate::fields::Fields;
use crate::refusal::Refusal;
use crate::search::not_taken;

/// Scores the chains of a request one after the other, so that searches continue in between. A chain
/// that cannot be scored gets an error in place of scores, and the next one follows.
pub(crate) async fn score(app: &Arc<App>, body: Map<String, Value>) -> Result<Value, Refusal> {
    let mut fields = Fields::new(body, "");
    // Clients send a model to every route; here there is only one reward model to choose.
    fields.take("model");
    let aggregation = match fields.text("aggregation")? {
        None => Aggregation::Min,
        Some(text) => {
            let parsed = text.parse::<Aggregation>();
            parsed.map_err(|error| fields.wrong("aggregation", &error.to_string()))?
        }
    };
    let Some(Value::Array(chains)) = fields.take("chains") else {
        return Err(fields.wrong("chains", "not an array of chains: send one"));
    };
    let most = app.limits.chains_to_score;
    if chains.is_empty() || chains.len() > most {
        return Err(fields.wrong("chains", &format!("write 1 to {most} chains")));
    }
    fields.end()?;
    if !app.models.has_scorer {
        let message = "this server has no reward model, which this route needs";
        return Err(Refusal::input("no_reward_model", message));
    }
    let mut data = Vec::new();
    for (index, chain) in chains.iter().enumerate() {
        let mut scored = json!({"index": index, "id": id(chain, index)});
        let mut chain = chain.clone();
        let generator = &app.service.request("").settings.generator;
        cut_response(&mut chain, &|answer| steps_of(answer, generator));
        let scores = match GivenChain::of(&chain, index + 1) {
            Ok(chain) => {
                let problem = Problem::from(chain);
                let text = problem.with_context().into_owned();
                one(app, text, problem.steps).await?
            }
            Err(fault) => Err(fault),
        };
        match scores {
            Ok(scores) => {
                let steps = scores.len() as u64;
                app.metrics.scored_steps.fetch_add(steps, Ordering::Relaxed);
                scored["score"] = json!(aggregation.fold(scores.iter().copied()));
                scored["scores"] = json!(scores);
            }
            Err(reason) => scored["error"] = reason.into(),
        }
        data.push(scored);
    }
    Ok(json!({"object": "list", "data": data}))
}

/// Returns the id of a chain, or its number, counted from 1.
fn id(chain: &Value, index: usize) -> String {
    match &chain["id"] {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => (index + 1).to_string(),
    }
}

/// Scores a chain.
async fn one(
    app: &Arc<App>,
    problem: String,
    steps: Vec<String>,
) -> Result<Result<Vec<f32>, String>, Refusal> {
    let (tell, told) = oneshot::channel();
    let bytes = problem.len() + steps.iter().map(String::len).sum::<usize>();
    let taker = Arc::clone(app);
    let taken = app.long_texts.run(bytes, move || {
        taker.service.score(problem, steps, move |scores| {
            // A failed send means that the client is gone: nobody waits for the scores.
            drop(tell.send(scores));
        })
    });
    taken.await?.map_err(|error| not_taken(app, &error))?;
    let scores = tokio::time::timeout(app.limits.search_time, told);
    let scores = scores.await.map_err(|_| {
        let message = "the deadline passed before the chain was scored";
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, "deadline_exceeded", message)
    })?;
    let scores = scores.map_err(|_| Refusal::stopping())?;
    Ok(scores.map_err(|error| error.to_string()))
}
