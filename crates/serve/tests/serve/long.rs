//! Requests as long as a body may be: they are refused by their length, and nobody waits for them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use beamgen::Config;
use beamgen_serve::ServeOptions;
use serde_json::{Value, json};

use crate::client::{Running, ask, essence, problem, request};
use crate::pair::changed_pair;

const ATTACKERS: usize = 30;
const HONEST: usize = 30;

/// Requests of about 1 MB, each with the status and the field of its refusal.
fn long_requests() -> Vec<(Vec<u8>, u16, Value)> {
    let numbers = "7 ".repeat(500_000);
    let words = "pens ".repeat(200_000);
    let marks: Vec<String> = (0..80_000).map(|at| format!("m{at}")).collect();
    let own = |key: &str, value: Value| ask("1 + 1?", json!({"generator": {key: value}}));
    let refused = |path: &str, body: Value, field: &str| {
        (request(path, &body.to_string(), ""), 400, json!(field))
    };
    let (chat, text) = ("/v1/chat/completions", "/v1/completions");
    let chains = json!({"chains": [
        {"problem": "1 + 1?", "steps": [words]},
        {"problem": "1 + 1?", "steps": vec!["x"; 4000]},
    ]});
    vec![
        refused(chat, ask(&numbers, json!({})), "messages"),
        refused(chat, ask(&words, json!({"n": 64})), "messages"),
        refused(text, json!({"prompt": numbers}), "prompt"),
        refused(chat, own("system_prompt", json!(words)), "messages"),
        refused(
            chat,
            own("boundaries", json!(marks)),
            "beamgen.generator.boundaries",
        ),
        refused(
            chat,
            own("starts", json!(marks)),
            "beamgen.generator.starts",
        ),
        refused(
            chat,
            own("answer_markers", json!(marks)),
            "beamgen.generator.answer_markers",
        ),
        refused(
            chat,
            own("boundaries", json!([numbers])),
            "beamgen.generator.boundaries",
        ),
        (
            request("/v1/score", &chains.to_string(), ""),
            200,
            Value::Null,
        ),
    ]
}

/// The longest wait for an honest answer; no more are asked for after one that took longer than
/// `most`.
fn longest_wait(server: &Running, wanted: &Value, most: Duration) -> Duration {
    let body = ask(&problem(5), json!({"n": 4, "m": 2}));
    let mut longest = Duration::ZERO;
    for _ in 0..HONEST {
        let begun = Instant::now();
        assert_eq!(essence(&server.chat(&body).ok()), *wanted);
        longest = longest.max(begun.elapsed());
        if longest > most {
            break;
        }
    }
    longest
}

#[test]
fn nobody_waits_for_requests_that_are_too_long() {
    nobody_waits(Config::default());
}

/// Their length in bytes says nothing where a context holds more than they have: the tokens of long
/// texts are counted, on no thread that anybody waits for.
#[test]
fn nobody_waits_for_requests_that_are_too_long_for_a_long_context() {
    let folder = tempfile::tempdir().unwrap();
    nobody_waits(long_context(folder.path(), 1 << 17));
}

/// Writes the bundled pair as models that hold `context` tokens.
fn long_context(folder: &Path, context: usize) -> Config {
    changed_pair(folder, |_, file, content| {
        if file == "config.json" {
            content["max_position_embeddings"] = json!(context);
        }
    })
}

fn nobody_waits(config: Config) {
    let mut server = Running::with(config, ServeOptions::default());
    let body = ask(&problem(5), json!({"n": 4, "m": 2}));
    let wanted = essence(&server.chat(&body).ok());
    let calm = longest_wait(&server, &wanted, Duration::MAX);
    let most = 2 * calm + Duration::from_secs(4);
    let (over, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    let long = long_requests();
    let busy = std::thread::scope(|scope| {
        for attacker in 0..ATTACKERS {
            let (server, long, over, refused) = (&server, &long, &over, &refused);
            scope.spawn(move || {
                for (bytes, status, field) in long.iter().cycle().skip(attacker) {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let reply = server.send(bytes).unwrap();
                    assert_eq!(reply.status, *status, "{}", reply.text());
                    if *status == 400 {
                        assert_eq!(reply.refusal().2, *field, "{}", reply.text());
                    } else {
                        let data = &reply.json()["data"];
                        assert!(data[0]["error"].is_string() && data[1]["error"].is_string());
                    }
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while refused.load(Ordering::Relaxed) < ATTACKERS {
            std::thread::sleep(Duration::from_millis(1));
        }
        let busy = longest_wait(&server, &wanted, most);
        over.store(true, Ordering::Relaxed);
        busy
    });
    let refused = refused.into_inner();
    println!("longest wait: calm {calm:?}, beside {refused} long requests {busy:?}");
    // On the engine's thread each of them took 0.65 s and more, so the wait was some 20 s.
    assert!(busy <= most, "{busy:?} against {calm:?}");
    // None of them came to the engine's thread.
    server.stop.begin();
    assert_eq!(server.join().problems, 1 + 2 * HONEST);
}
