//! Tests that an invalid request is refused, with a message that names the field.

use beamgen_serve::ServeOptions;
use serde_json::{Value, json};

use crate::client::{Running, ask, problem, request};

#[test]
fn what_a_search_cannot_do_is_a_400_that_names_the_field() {
    let server = Running::start(ServeOptions::default());
    let with = |key: &str, value: Value| {
        let mut body = ask("1 + 1?", json!({}));
        body[key] = value;
        body
    };
    for (body, code, param) in [
        (with("n", json!(0)), "invalid_value", "n"),
        (with("n", json!(129)), "invalid_value", "n"),
        (with("n", json!("many")), "invalid_value", "n"),
        (with("best_of", json!(2)), "unsupported_field", "best_of"),
        (with("seed", json!(-2)), "invalid_value", "seed"),
        (with("top_k", json!(-2)), "invalid_value", "top_k"),
        (
            with("frequency_penalty", json!(0.5)),
            "unsupported_field",
            "frequency_penalty",
        ),
        (
            with("skip_special_tokens", json!(false)),
            "unsupported_field",
            "skip_special_tokens",
        ),
        (
            with("guided_choice", json!(["a", "b"])),
            "unsupported_field",
            "guided_choice",
        ),
        (
            with("functions", json!([{"name": "f"}])),
            "unsupported_field",
            "functions",
        ),
        (
            with("stop_token_ids", json!([3])),
            "unsupported_field",
            "stop_token_ids",
        ),
        (
            with("min_tokens", json!(5)),
            "unsupported_field",
            "min_tokens",
        ),
        (with("echo", json!(true)), "unsupported_field", "echo"),
        (
            with("add_generation_prompt", json!(false)),
            "unsupported_field",
            "add_generation_prompt",
        ),
        (
            with("temperature", json!("hot")),
            "invalid_value",
            "temperature",
        ),
        (with("max_tokens", json!(-2)), "invalid_value", "max_tokens"),
        (
            with("stream_options", json!({"include_usage": true})),
            "invalid_value",
            "stream_options",
        ),
        (with("messages", json!([])), "invalid_value", "messages"),
        (
            with(
                "messages",
                json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]),
            ),
            "unsupported_field",
            "messages[1]",
        ),
        (
            ask("x", json!({"width": 3})),
            "unknown_field",
            "beamgen.width",
        ),
        (ask("x", json!({"n": "many"})), "invalid_value", "beamgen.n"),
        (
            ask("x", json!({"strategy": "beem"})),
            "invalid_value",
            "beamgen.strategy",
        ),
        (ask("x", json!({"n": 0})), "invalid_value", "beamgen.n"),
        (ask("x", json!({"n": 60000})), "invalid_value", "beamgen.n"),
        (
            with("temperature", json!(-1)),
            "invalid_value",
            "temperature",
        ),
        (with("max_tokens", json!(0)), "invalid_value", "max_tokens"),
        (
            with("max_tokens", json!(10_000_000)),
            "invalid_value",
            "max_tokens",
        ),
        (
            ask("x", json!({"threshold": 2})),
            "invalid_value",
            "beamgen.threshold",
        ),
        (
            ask("x", json!({"search": {"max_steps": 0}})),
            "invalid_value",
            "beamgen.search.max_steps",
        ),
        (
            ask("x", json!({"reference": "7".repeat(5000)})),
            "invalid_value",
            "beamgen.reference",
        ),
        (
            ask("x", json!({"generator": {"date": "tomorrow"}})),
            "invalid_request",
            "beamgen.generator.date",
        ),
        (
            ask("x", json!({"generator": {"boundaries": vec!["x"; 65]}})),
            "invalid_value",
            "beamgen.generator.boundaries",
        ),
        (
            ask("x", json!({"generator": {"starts": ["x".repeat(5000)]}})),
            "invalid_value",
            "beamgen.generator.starts",
        ),
        (
            ask("x", json!({"timeout": 0})),
            "invalid_value",
            "beamgen.timeout",
        ),
        (
            ask("x", json!({"events": true})),
            "invalid_value",
            "beamgen.events",
        ),
        (
            ask("x", json!({"search": {"mcts": {"exploration": "x"}}})),
            "invalid_value",
            "beamgen.search.mcts.exploration",
        ),
        (
            ask("x", json!({"search": {"width": 1}})),
            "unknown_field",
            "beamgen.search.width",
        ),
        (
            ask("x", json!({"search": {"in_flight": 1}})),
            "unsupported_field",
            "beamgen.search.in_flight",
        ),
    ] {
        let reply = server.chat(&body);
        assert_eq!(reply.header("x-should-retry"), Some("false"));
        let wanted = (400, code.to_owned(), json!(param));
        assert_eq!(reply.refusal(), wanted, "{}", reply.text());
    }
    let least = server.chat(&with("max_new_tokens", json!(3))).text();
    assert!(least.contains("not supported: use max_tokens"), "{least}");
    let long = server.chat(&ask(&"pens ".repeat(5000), json!({})));
    assert_eq!(
        long.refusal(),
        (400, "context_length_exceeded".to_owned(), json!("messages"))
    );
    let body = json!({"prompt": "pens ".repeat(5000)});
    assert_eq!(
        server.post("/v1/completions", &body).refusal().2,
        json!("prompt")
    );
    // A text that only its tokens show to be too long.
    let long = server.chat(&ask(&"7 ".repeat(1000), json!({})));
    assert_eq!(
        long.refusal(),
        (400, "context_length_exceeded".to_owned(), json!("messages"))
    );
    let model = server.chat(&with("model", json!("gpt-4")));
    assert_eq!(
        model.refusal(),
        (404, "model_not_found".to_owned(), json!("model"))
    );
}

#[test]
fn fields_that_say_what_is_done_anyway_are_taken() {
    let server = Running::start(ServeOptions::default());
    let mut body = ask("1 + 1?", json!({"n": 2, "m": 1}));
    for (key, value) in [
        ("n", json!(1)),
        ("best_of", json!(1)),
        ("suffix", Value::Null),
        ("functions", json!([])),
        ("presence_penalty", json!(0)),
        ("length_penalty", json!(1.0)),
        ("skip_special_tokens", json!(true)),
        ("add_generation_prompt", json!(true)),
        ("chat_template_kwargs", json!({})),
        ("max_completion_tokens", json!(40)),
    ] {
        body[key] = value;
    }
    let answer = server.chat(&body).ok();
    assert!(answer["beamgen"].get("ignored").is_none(), "{answer}");
    let note = answer["beamgen"]["note"].as_str().unwrap();
    assert!(note.contains("bundled models"), "{note}");
}

#[test]
fn a_body_that_is_no_json_object_is_refused() {
    let server = Running::start(ServeOptions::default());
    let path = "/v1/chat/completions";
    for (body, code) in [
        ("", "invalid_json"),
        ("{", "invalid_json"),
        ("[]", "invalid_request"),
        ("3", "invalid_request"),
        ("{\"messages\": \"\u{1}\"}", "invalid_json"),
        (&"[".repeat(100_000), "invalid_json"),
        (&"{\"a\":".repeat(100_000), "invalid_json"),
    ] {
        let reply = server.send(&request(path, body, "")).unwrap();
        let (status, found, _) = reply.refusal();
        assert_eq!((status, found.as_str()), (400, code), "{}", reply.text());
    }
    let mut form = request(path, "{}", "");
    let at = form
        .windows(16)
        .position(|w| w == b"application/json")
        .unwrap();
    form.splice(at..at + 16, *b"text/plain");
    assert_eq!(server.send(&form).unwrap().refusal().0, 415);
    let coded = request(path, "{}", "Content-Encoding: gzip\r\n");
    assert_eq!(server.send(&coded).unwrap().refusal().0, 415);
}

#[test]
fn other_paths_and_methods_are_refused() {
    let server = Running::start(ServeOptions::default());
    assert_eq!(server.get("/v1/chat").refusal().1, "not_found");
    assert_eq!(server.get("/v1/chat/completions").refusal().0, 405);
    assert_eq!(
        server.post("/health", &json!({})).refusal().1,
        "method_not_allowed"
    );
    for chains in [json!([]), json!(3), json!(vec![Value::Null; 4097])] {
        let refused = server.post("/v1/score", &json!({"chains": chains}));
        let (status, _, param) = refused.refusal();
        assert_eq!((status, param), (400, json!("chains")));
    }
}

#[test]
fn the_fields_of_a_search_are_the_settings_of_a_request() {
    let server = Running::start(ServeOptions::default());
    for row in beamgen::settings::SETTINGS {
        let refused = server.chat(&ask("x", json!({row.name: [{}]}))).json();
        let (code, param) = match (row.scope, row.name) {
            (beamgen::settings::Scope::Request, name) => {
                ("invalid_value", format!("beamgen.{name}"))
            }
            // These are fields of a request, too: a table of keys, and the problem's verifier.
            (_, name @ ("generator" | "verifier")) => ("invalid_value", format!("beamgen.{name}")),
            (_, name) => ("unknown_field", format!("beamgen.{name}")),
        };
        assert_eq!(refused["error"]["code"], code, "{}: {refused}", row.name);
        assert_eq!(refused["error"]["param"], param, "{refused}");
    }
}

#[test]
fn earlier_names_of_fields_are_taken_with_a_note() {
    let server = Running::start(ServeOptions::default());
    let answer = |own| server.chat(&ask(&problem(0), own)).ok()["beamgen"].clone();
    let new = answer(json!({"n": 4, "budget_tokens": 60, "timeout": 500}));
    let old = answer(json!({"n": 4, "budget": 60, "deadline": 500}));
    assert_eq!(
        old["ledger"]["generated_tokens"],
        new["ledger"]["generated_tokens"]
    );
    assert_eq!(new["note"], serde_json::Value::Null);
    let note = old["note"].as_str().unwrap();
    assert!(
        note.contains("beamgen.budget is now called beamgen.budget_tokens"),
        "{note}"
    );
    assert!(note.contains("beamgen.timeout"), "{note}");
    let both = server
        .chat(&ask("x", json!({"budget": 60, "budget_tokens": 60})))
        .json();
    assert_eq!(both["error"]["param"], "beamgen.budget");
}
