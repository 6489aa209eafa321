//! `/v1/refine` and `/v1/guard`: rewrite, accept or withhold given answers.

use std::sync::Arc;

use beamgen::eval::{GivenChain, cut_response};
use beamgen::mend::{Guard, Guarding, Refine, Refining, Task, steps_of};
use beamgen::{Problem, bundled};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::ask::Ask;
use crate::fields::Fields;
use crate::own::MOST_REFERENCE;
use crate::refusal::Refusal;
use crate::search::Search;

/// The route `/v1/refine`: rewrites given answers from their weakest steps.
pub(crate) async fn refine(app: &Arc<App>, body: Map<String, Value>) -> Result<Value, Refusal> {
    let mut fields = Fields::new(body, "");
    let usual = Refine::default();
    let how = Refine {
        rounds: fields.count("rounds")?.unwrap_or(usual.rounds),
        below: score(&mut fields, "below")?,
    };
    let answers = Answers::read(app, fields, how.rounds, 0)?;
    let settings = &answers.ask.settings;
    let refined = answers.each(
        app,
        |problem| Refining::new(problem, settings.clone(), how),
        Refining::done,
    );
    refined.await
}

/// The route `/v1/guard`: accepts, rewrites or withholds given answers.
pub(crate) async fn guard(app: &Arc<App>, body: Map<String, Value>) -> Result<Value, Refusal> {
    let mut fields = Fields::new(body, "");
    let usual = Guard::default();
    let how = Guard {
        bound: score(&mut fields, "bound")?.unwrap_or(usual.bound),
        samples: fields.count("samples")?.unwrap_or(usual.samples),
        rounds: fields.count("rounds")?.unwrap_or(usual.rounds),
    };
    let answers = Answers::read(app, fields, how.rounds, how.samples)?;
    let task = |problem: Problem| {
        let is_foreign = app.models.has_bundled && !bundled::knows(&problem.with_context());
        Guarding::new(
            problem,
            &app.models.config,
            answers.ask.settings.clone(),
            how,
            is_foreign,
        )
    };
    answers.each(app, task, Guarding::done).await
}

fn score(fields: &mut Fields, key: &'static str) -> Result<Option<f32>, Refusal> {
    match fields.number(key)? {
        Some(score) if !(0.0..=1.0).contains(&score) => {
            Err(fields.wrong(key, "not a score: use a number from 0 to 1"))
        }
        score => Ok(score.map(|score| score as f32)),
    }
}

/// The given answers, and the settings of their searches.
struct Answers {
    ask: Ask,
    chains: Vec<Value>,
}

impl Answers {
    fn read(app: &App, mut fields: Fields, rounds: usize, samples: usize) -> Result<Self, Refusal> {
        let ask = Ask::of_answers(app, &mut fields)?;
        let Some(Value::Array(chains)) = fields.take("chains") else {
            return Err(fields.wrong("chains", "not an array of answers: send one"));
        };
        let most = app.limits.answers_to_mend;
        if chains.is_empty() || chains.len() > most {
            return Err(fields.wrong("chains", &format!("write 1 to {most} answers")));
        }
        let (search, generator) = (&ask.settings.search, &ask.settings.generator);
        let written = rounds
            .saturating_mul(search.chains())
            .saturating_add(samples);
        if written.saturating_mul(generator.most_tokens()) > app.limits.tokens {
            let reason = format!(
                "{written} chains of {} tokens for each answer exceed the limit of {} tokens per request: use fewer",
                generator.most_tokens(),
                app.limits.tokens
            );
            return Err(fields.wrong("rounds", &reason));
        }
        fields.end()?;
        if !app.models.has_scorer {
            let message = "this server has no reward model, which this route needs";
            return Err(Refusal::input("no_reward_model", message));
        }
        Ok(Self { ask, chains })
    }

    /// Runs a task on each answer in turn, so that other requests are served in between. An answer
    /// that cannot be read gets an error in its place.
    async fn each<T: Task, D: Serialize>(
        &self,
        app: &Arc<App>,
        task: impl Fn(Problem) -> T,
        done: impl Fn(T) -> D,
    ) -> Result<Value, Refusal> {
        let mut data = Vec::new();
        for (index, chain) in self.chains.iter().enumerate() {
            let mut worked = match self.problem(chain, index + 1) {
                Ok(problem) => {
                    let mut task = task(problem);
                    while let Some(request) = task.next() {
                        let search = Search::of(app, request, &self.ask, 0);
                        // A search without a result is an outcome for the task, not an error of the
                        // request.
                        task.take(search.await?.any_result().await?);
                    }
                    json!(done(task))
                }
                Err(fault) => json!({"error": fault}),
            };
            worked["index"] = index.into();
            data.push(worked);
        }
        Ok(json!({"object": "list", "data": data}))
    }

    /// Reads an answer as its problem with the answer's steps. `number` counts from 1, for errors.
    fn problem(&self, chain: &Value, number: usize) -> Result<Problem, String> {
        let mut chain = chain.clone();
        let generator = &self.ask.settings.generator;
        cut_response(&mut chain, &|answer| steps_of(answer, generator));
        let given = GivenChain::of(&chain, number)?;
        // Some data sets write reference answers as numbers.
        let reference = match &chain["answer"] {
            Value::Number(answer) => Some(answer.to_string()),
            Value::String(answer) => Some(answer.clone()),
            _ => None,
        };
        if reference.as_ref().is_some_and(|a| a.len() > MOST_REFERENCE) {
            return Err(format!(
                "field \"answer\": an answer has at most {MOST_REFERENCE} bytes"
            ));
        }
        Ok(Problem {
            answer: reference,
            ..given.into()
        })
    }
}
