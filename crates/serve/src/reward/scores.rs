//! Scores the chains of a request together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::StatusCode;
use beamgen::Aggregation;
use beamgen::scorer::ScoreError;
use beamgen::service::{CancelToken, GivenScores};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::Chain;
use crate::app::{App, now};
use crate::refusal::Refusal;
use crate::search::not_taken;

/// The scores of all chains of a request, and what the answer needs besides.
pub(super) struct Answered {
    /// The scores or the fault of each chain, in the order of the request.
    pub chains: Vec<Result<Scored, Fault>>,
    /// The reward for a chain that cannot be scored; `None` if the request names none.
    pub unscored: Option<f32>,
    /// The name of the reward model as JSON: a string, or null without one.
    pub model: Value,
    pub id: String,
}

/// The scores of one chain, and facts about the scored text.
#[derive(Debug, Clone)]
pub(super) struct Scored {
    pub steps: Vec<f32>,
    /// The score of the whole chain, by the rule of aggregation.
    pub score: f32,
    /// The number of tokens of the chain in the reward model's prompt format.
    pub tokens: usize,
    /// The range of each step in the response, in Unicode code points; `None` if the client sent
    /// the steps separately.
    pub offsets: Option<Vec<[usize; 2]>>,
}

/// The reason why a chain has no scores. It is also the refusal of a request in which no chain has
/// a score.
#[derive(Debug, Clone)]
pub(super) struct Fault(Refusal);

impl Fault {
    fn of(error: &ScoreError) -> Self {
        let reason = error.to_string();
        Self(match error {
            ScoreError::TooLong { .. }
            | ScoreError::TextTooLong { .. }
            | ScoreError::NoMemory { .. } => Refusal::input("context_length_exceeded", reason),
            ScoreError::Prompt(_) | ScoreError::Abstained { .. } => {
                Refusal::input("invalid_value", reason)
            }
            _ => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                Refusal::new(status, "scoring_failed", reason)
            }
        })
    }

    pub(super) fn reason(&self) -> &str {
        &self.0.message
    }
}

impl Answered {
    /// Returns the refusal of the request if no chain has a reward.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        let none = self.chains.iter().all(|chain| self.reward(chain).is_none());
        let fault = self.chains.iter().find_map(|chain| chain.as_ref().err());
        let fault = fault.filter(|_| none)?;
        Some(fault.0.clone())
    }

    /// Returns the reward of a chain: its score, or `unscored` if the chain cannot be scored. A
    /// chain without a score because the model failed has no reward.
    pub(super) fn reward(&self, chain: &Result<Scored, Fault>) -> Option<f32> {
        match chain {
            Ok(scored) => Some(scored.score),
            Err(fault) => self
                .unscored
                .filter(|_| fault.0.status == StatusCode::BAD_REQUEST),
        }
    }

    /// Returns the object `usage` of OpenAI's API. The tokens of all chains count as prompt tokens.
    pub(super) fn usage(&self) -> Value {
        let scored = self.chains.iter().filter_map(|chain| chain.as_ref().ok());
        let tokens: usize = scored.map(|scored| scored.tokens).sum();
        json!({"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0})
    }

    /// Returns a list in the form of OpenAI's API. The entry of a chain is made by `write`, or has
    /// the chain's error.
    pub(super) fn list(self, object: &str, write: impl Fn(Scored) -> Value) -> Value {
        let usage = self.usage();
        let data = self.chains.into_iter().enumerate();
        let data = data.map(|(index, chain)| {
            let mut entry = match chain {
                Ok(scored) => write(scored),
                Err(fault) => json!({"error": fault.reason()}),
            };
            (entry["index"], entry["object"]) = (index.into(), object.into());
            entry
        });
        json!({
            "id": self.id,
            "object": "list",
            "created": now(),
            "model": self.model,
            "data": data.collect::<Vec<Value>>(),
            "usage": usage,
        })
    }
}

/// Cancels the remaining scoring when dropped with the request's future: when all is scored, at the
/// deadline, or because the client disconnected.
struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Scores all chains together. A chain that cannot be read or scored gets a fault; the others are
/// still scored.
pub(super) async fn score(
    app: &Arc<App>,
    chains: Vec<Result<Chain, String>>,
    aggregation: Option<Aggregation>,
    unscored: Option<f32>,
) -> Result<Answered, Refusal> {
    let aggregation = aggregation.unwrap_or(app.models.config.search.aggregation);
    let mut answers: Vec<Option<Result<Scored, Fault>>> = Vec::with_capacity(chains.len());
    let (mut texts, mut places, mut bytes) = (Vec::new(), Vec::new(), 0);
    for chain in chains {
        answers.push(match chain {
            Ok(chain) => {
                bytes += chain.problem.len() + chain.steps.iter().map(String::len).sum::<usize>();
                places.push((answers.len(), chain.offsets));
                texts.push((chain.problem, chain.steps));
                None
            }
            Err(reason) => Some(Err(Fault(Refusal::input("invalid_value", reason)))),
        });
    }
    let (tell, mut told) = mpsc::unbounded_channel();
    let cancel = CancelOnDrop(CancelToken::new());
    // A send fails if the request was dropped, and then nobody needs the score.
    let each = move |index, scored| drop(tell.send((index, scored)));
    let (taker, token) = (Arc::clone(app), cancel.0.clone());
    let take = move || taker.service.score_all(texts, token, each);
    let taken = app.long_texts.run(bytes, take).await?;
    taken.map_err(|error| not_taken(app, &error))?;
    let all = async {
        // The service drops the sender after the last chain, which closes the channel.
        while let Some((index, scored)) = told.recv().await {
            let (place, offsets) = &mut places[index];
            answers[*place] = Some(answer(app, scored, offsets.take(), aggregation));
        }
    };
    let in_time = tokio::time::timeout(app.limits.search_time, all).await;
    in_time.map_err(|_| {
        let message = "the deadline passed before all chains were scored: send fewer";
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, "deadline_exceeded", message)
    })?;
    let chains: Option<Vec<Result<Scored, Fault>>> = answers.into_iter().collect();
    Ok(Answered {
        chains: chains.ok_or_else(Refusal::stopping)?,
        unscored,
        model: app.models.names["prm"].clone(),
        id: app.next_id("score"),
    })
}

fn answer(
    app: &App,
    scored: Result<GivenScores, ScoreError>,
    offsets: Option<Vec<[usize; 2]>>,
    aggregation: Aggregation,
) -> Result<Scored, Fault> {
    let GivenScores { scores, tokens } = scored.map_err(|error| Fault::of(&error))?;
    let score = aggregation.fold(scores.iter().copied());
    let none = || Refusal::input("invalid_value", "the chain has no step: send one");
    let score = score.ok_or_else(|| Fault(none()))?;
    let steps = scores.len() as u64;
    app.metrics.scored_steps.fetch_add(steps, Ordering::Relaxed);
    Ok(Scored {
        steps: scores,
        score,
        tokens,
        offsets,
    })
}
