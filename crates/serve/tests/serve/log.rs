//! Tests the ids of requests, and the events for the log.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use beamgen_serve::{Event, ServeOptions, Served};
use serde_json::{Value, json};

use crate::client::{Running, ask, problem, request};

const CHAT: &str = "/v1/chat/completions";

/// Starts a server, and collects its events of answered requests.
fn observed() -> (Running, Arc<Mutex<Vec<Served>>>) {
    let told: Arc<Mutex<Vec<Served>>> = Arc::default();
    let teller = Arc::clone(&told);
    let server = Running::start(ServeOptions {
        observe: Some(Arc::new(move |event: &Event<'_>| {
            if let Event::Served(served) = event {
                teller.lock().unwrap().push((*served).clone());
            }
        })),
        ..ServeOptions::default()
    });
    (server, told)
}

/// Waits for `count` events. A request is counted only when its connection has finished the answer,
/// which may be after the client has read it.
fn all(told: &Mutex<Vec<Served>>, count: usize) -> Vec<Served> {
    let started = Instant::now();
    loop {
        let told = told.lock().unwrap().clone();
        if told.len() >= count {
            return told;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{told:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_id_of_a_request_comes_back_with_every_answer_and_stands_in_the_log() {
    let (server, told) = observed();
    let solved = ask(&problem(0), json!({"n": 2, "m": 1}));
    let mut streamed = solved.clone();
    streamed["stream"] = json!(true);
    for (id, path, body, status) in [
        ("answer-1", CHAT, &solved, 200),
        ("stream-2", CHAT, &streamed, 200),
        ("wrong-3", CHAT, &json!({"messages": 3}), 400),
        ("nowhere-4", "/nowhere", &json!({}), 404),
    ] {
        let headers = format!("X-Request-ID: {id}\r\n");
        let reply = server
            .send(&request(path, &body.to_string(), &headers))
            .unwrap();
        assert_eq!(
            (reply.status, reply.header("x-request-id")),
            (status, Some(id))
        );
        assert!(!reply.text().contains(id), "the id is a header only");
    }
    // The Host header is refused before the server reads the rest of the request; the refusal still
    // has the id.
    let bytes = b"GET /ready HTTP/1.1\r\nHost: evil.example\r\nX-Request-ID: host-5\r\nConnection: close\r\n\r\n";
    let reply = server.send(bytes).unwrap();
    assert_eq!(
        (reply.status, reply.header("x-request-id")),
        (421, Some("host-5"))
    );
    let told = all(&told, 5);
    let told: Vec<(&str, u16)> = told
        .iter()
        .map(|served| (served.request_id.as_str(), served.status))
        .collect();
    let wanted = [
        ("answer-1", 200),
        ("stream-2", 200),
        ("wrong-3", 400),
        ("nowhere-4", 404),
        ("host-5", 421),
    ];
    assert_eq!(told, wanted);
}

#[test]
fn an_unfit_id_is_replaced_by_one_that_no_other_request_has() {
    let (server, _) = observed();
    let long = "x".repeat(129);
    let mut seen = std::collections::BTreeSet::new();
    for lines in [
        String::new(),
        "X-Request-ID:\r\n".to_owned(),
        "X-Request-ID: two words\r\n".to_owned(),
        "X-Request-ID: \u{e9}\r\n".to_owned(),
        format!("X-Request-ID: {long}\r\n"),
        "X-Request-ID: a\r\nX-Request-ID: b\r\n".to_owned(),
    ] {
        let reply = server.send(&request("/v1/score", "{}", &lines)).unwrap();
        let id = reply.header("x-request-id").unwrap().to_owned();
        assert!(id.starts_with("req-") && id.len() < 64, "{lines}: {id}");
        assert!(seen.insert(id), "{lines}");
    }
}

#[test]
fn the_log_has_the_tokens_of_searches_streamed_or_not() {
    let (server, told) = observed();
    let mut body = ask(&problem(0), json!({"n": 4, "m": 2, "seed": 1}));
    let answer = server.chat(&body).ok();
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let chunks = server.chat(&body).chunks();
    server
        .post(
            "/v1/score",
            &json!({"chains": [{"problem": problem(0), "steps": ["x"]}]}),
        )
        .ok();
    let told = all(&told, 3);
    let [whole, streamed, scored] = &told[..] else {
        panic!("{told:?}");
    };
    let ledger = &answer["beamgen"]["ledger"];
    let last = chunks
        .iter()
        .rfind(|chunk| chunk["beamgen"]["ledger"].is_object());
    assert_eq!(
        &last.unwrap()["beamgen"]["ledger"]["generated_tokens"],
        &ledger["generated_tokens"]
    );
    for served in [whole, streamed] {
        let tokens = served.tokens.unwrap();
        assert_eq!(Value::from(tokens.generated), ledger["generated_tokens"]);
        assert_eq!(Value::from(tokens.prompt), ledger["prompt_tokens"]);
        assert_eq!(Value::from(tokens.scored), ledger["scored_tokens"]);
    }
    assert_eq!((scored.route, scored.tokens), ("score", None));
}
