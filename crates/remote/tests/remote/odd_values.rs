//! Answers with invalid numbers or with more values than requested. Each fails only its own
//! problem, with an error that names the field.

use beamgen_remote::{Remote, Servers};
use serde_json::{Value, json};

use crate::brain::{Brain, ENGINES, Plays};
use crate::fake::{Fake, Reply, Seen};
use crate::runs::*;

/// Starts a server that changes the JSON of its answers to steps of the first problem.
fn spoiled(plays: Plays, spoil: impl Fn(&mut Value) + Send + Sync + 'static) -> Fake {
    replaced(plays, move |reply| match reply {
        Reply::Json(status, mut value) => {
            spoil(&mut value);
            Reply::Json(status, value)
        }
        Reply::Events(mut events) => {
            spoil(&mut events[0]);
            Reply::Events(events)
        }
        other => other,
    })
}

/// Starts a server that replaces its answers to steps of the first problem.
fn replaced(plays: Plays, change: impl Fn(Reply) -> Reply + Send + Sync + 'static) -> Fake {
    let brain = Brain::new(plays);
    let first = std::sync::OnceLock::new();
    Fake::start(move |seen: &Seen| {
        let reply = brain.reply(seen);
        let session = seen.header("x-session-id").unwrap_or_default().to_owned();
        let is_step = !session.is_empty() && !seen.body.is_null();
        if is_step && *first.get_or_init(|| session.clone()) == session {
            change(reply)
        } else {
            reply
        }
    })
}

fn of(server: &Fake, plays: Plays) -> Servers {
    let mut servers = servers([server.url()]);
    servers.engine = (plays == Plays::OpenAi).then(|| "openai".to_owned());
    servers
}

/// Returns the error of the problem that fails; exactly one must fail.
fn error_of_one(plays: Plays, spoil: impl Fn(&mut Value) + Send + Sync + 'static) -> String {
    error_over(&spoiled(plays, spoil), plays)
}

fn error_over(server: &Fake, plays: Plays) -> String {
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &of(server, plays)).unwrap();
    let (results, outcome) = run(&mut generator, &settings("beam", 4, 1.0), &problems(6));
    outcome.unwrap();
    assert_eq!(results.len(), 6);
    let failed: Vec<String> = results
        .into_iter()
        .filter_map(|result| {
            assert!(result.error.is_none() || result.answer.is_none());
            result.error
        })
        // The tiny model may sample half a character, which gives no text and so another error.
        .filter(|error| plays != Plays::OpenAi || !error.ends_with("has no tokens"))
        .collect();
    let [error] = &failed[..] else {
        panic!("{plays:?}: {failed:?}");
    };
    assert!(
        error.contains(&server.url()) && !error.contains('\n'),
        "{error}"
    );
    error.clone()
}

/// Returns the field of an answer that has the log-probability of the first token.
fn first_logprob(plays: Plays, answer: &mut Value) -> &mut Value {
    match plays {
        Plays::Vllm | Plays::OpenAi => &mut answer["choices"][0]["logprobs"]["token_logprobs"][0],
        Plays::SgLang => &mut answer["meta_info"]["output_token_logprobs"][0][0],
        Plays::LlamaCpp => &mut answer["completion_probabilities"][0]["logprob"],
    }
}

#[test]
fn a_log_probability_that_is_none_fails_its_problem_and_is_named() {
    for plays in [ENGINES[0], ENGINES[1], ENGINES[2], Plays::OpenAi] {
        let field = match plays {
            Plays::Vllm | Plays::OpenAi => "`choices.0.logprobs.token_logprobs.0`",
            Plays::SgLang => "`meta_info.output_token_logprobs.0.0`",
            Plays::LlamaCpp => "`completion_probabilities.0.logprob`",
        };
        for (value, shown) in [(-1e308, "-1e308"), (5.0, "5e0"), (0.01, "1e-2")] {
            let error = error_of_one(plays, move |answer| {
                let is_there = first_logprob(plays, answer).is_number();
                if is_there || plays != Plays::LlamaCpp {
                    *first_logprob(plays, answer) = value.into();
                }
            });
            let words = format!("{field} is {shown}, which is not a log-probability");
            assert!(error.contains(&words), "{error}");
        }
    }
    for value in [json!("x"), json!([]), Value::Null] {
        let error = error_of_one(Plays::Vllm, move |answer| {
            *first_logprob(Plays::Vllm, answer) = value.clone();
        });
        assert!(error.contains("token_logprobs`: invalid type"), "{error}");
    }
}

#[test]
fn rounding_above_zero_is_taken_back() {
    let server = spoiled(Plays::Vllm, |answer| {
        *first_logprob(Plays::Vllm, answer) = 5e-4.into();
    });
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &servers([server.url()])).unwrap();
    let (results, outcome) = run(&mut generator, &settings("beam", 4, 1.0), &problems(3));
    assert_eq!(outcome.unwrap().failed, 0);
    let nodes = results.iter().flat_map(|result| result.tree.nodes());
    assert!(
        nodes
            .map(|(_, node)| node.logprob)
            .all(|logprob| logprob <= 0.0)
    );
}

#[test]
fn more_tokens_than_were_asked_for_are_not_taken() {
    let error = error_of_one(Plays::Vllm, |answer| {
        answer["choices"][0]["token_ids"] = vec![1; 41].into();
    });
    assert!(
        error.contains("`choices.0.token_ids`: more than "),
        "{error}"
    );
    let error = error_of_one(Plays::Vllm, |answer| {
        answer["choices"][0]["token_ids"][0] = 999_999.into();
    });
    assert!(
        error.contains("token 999999, which the tokenizer"),
        "{error}"
    );
    let error = error_of_one(Plays::SgLang, |answer| {
        answer["output_ids"] = json!([1, -1]);
    });
    assert!(error.contains("`output_ids`: invalid value"), "{error}");
}

#[test]
fn an_answer_that_is_too_long_fails_its_problem() {
    let server = replaced(Plays::Vllm, |_| {
        Reply::Zeros(r#"{"choices":[{"token_ids":["#, 4_000_000, "]}]}")
    });
    let error = error_over(&server, Plays::Vllm);
    assert!(error.contains("the limit for this request"), "{error}");
}
