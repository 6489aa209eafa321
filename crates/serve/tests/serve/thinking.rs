//! Thoughts before an answer: the bundled model's first line stands for one.

use beamgen::Config;
use beamgen_serve::ServeOptions;
use serde_json::{Value, json};

use crate::client::{Running, ask, problem};

/// A server for which the first line of an answer is a thought.
fn server() -> Running {
    let mut config = Config::default();
    let thinking = &mut config.generator.thinking;
    (thinking.open, thinking.close) = (Some(".".into()), Some("\n".into()));
    thinking.message = String::new();
    thinking.answer_reserve = 30;
    Running::with(config, ServeOptions::default())
}

fn question() -> String {
    // The prompt has to end with the opening tag.
    problem(2).replace('?', ".")
}

fn message(answer: &Value) -> (String, String) {
    let message = &answer["choices"][0]["message"];
    let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
    (text("reasoning_content"), text("content"))
}

#[test]
fn thoughts_are_sent_apart_from_the_answer() {
    let server = server();
    let own = json!({"strategy": "single", "seed": 3});
    let answer = server.chat(&ask(&question(), own.clone())).ok();
    let (thought, content) = message(&answer);
    assert!(!thought.is_empty() && !thought.contains('\n'), "{answer}");
    assert!(!content.contains(&thought) && !content.is_empty());
    let usage = &answer["usage"];
    let thinking = usage["completion_tokens_details"]["reasoning_tokens"].as_u64();
    assert!(thinking.is_some_and(|tokens| tokens > 1), "{usage}");
    assert_eq!(
        answer["beamgen"]["ledger"]["thought_tokens"],
        json!(thinking)
    );
    assert_eq!(answer["beamgen"]["steps"][0]["thought"], thought.as_str());

    let mut body = ask(&question(), own.clone());
    body["stream"] = json!(true);
    let chunks = server.chat(&body).chunks();
    let said = |key: &str| -> String {
        let deltas = chunks
            .iter()
            .map(|chunk| &chunk["choices"][0]["delta"][key]);
        deltas.filter_map(Value::as_str).collect()
    };
    assert_eq!(
        (said("reasoning_content"), said("content")),
        (thought.clone(), content.clone())
    );

    let mut body = ask(&question(), own.clone());
    body["include_reasoning"] = json!(false);
    let silent = server.chat(&body).ok();
    assert_eq!(message(&silent), (String::new(), content.clone()));

    // A completion has no place for a thought but its text.
    let body = json!({"prompt": question(), "beamgen": own});
    let text = server.post("/v1/completions", &body).ok();
    let text = text["choices"][0]["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(text.starts_with(&thought) && text.ends_with(&content));
}

#[test]
fn requests_bound_thoughts_and_turn_them_off() {
    let server = server();
    let own = json!({"strategy": "single", "seed": 3});
    let with = |field: &str, value: Value| {
        let mut body = ask(&question(), own.clone());
        body[field] = value;
        server.chat(&body)
    };
    let (whole, _) = message(&with("seed", json!(3)).ok());
    let bounded = with("thinking_token_budget", json!(2)).ok();
    let (thought, content) = message(&bounded);
    assert!(whole.starts_with(&thought) && thought.len() < whole.len());
    assert!(!content.is_empty());
    assert_eq!(
        bounded["usage"]["completion_tokens_details"]["reasoning_tokens"],
        2
    );
    for (field, value) in [
        ("thinking_token_budget", json!(0)),
        ("reasoning_effort", json!("none")),
    ] {
        let off = with(field, value).ok();
        assert_eq!(message(&off).0, "");
        assert!(off["usage"].get("completion_tokens_details").is_none());
    }
    // `max_tokens` is for thought and answer together.
    let short = with("max_tokens", json!(40)).ok();
    assert!(
        short["usage"]["completion_tokens"].as_u64() <= Some(40),
        "{short}"
    );

    // The template does not name the variable.
    let kwargs = json!({"enable_thinking": false});
    assert_eq!(message(&with("chat_template_kwargs", kwargs).ok()).0, whole);
    let refused = with("chat_template_kwargs", json!({"messages": []}));
    assert_eq!(refused.status, 400);
    let text = refused.json().to_string();
    assert!(text.contains("`messages`"), "{text}");
    let refused = with("thinking_token_budget", json!("many"));
    assert_eq!(refused.json()["error"]["param"], "thinking_token_budget");
}
