//! Tests requests for scores with many chains: batches, the order of large bodies, limits, and
//! clients that disconnect.

use std::io::Write;
use std::time::{Duration, Instant};

use beamgen_serve::{Limits, ServeOptions};
use serde_json::{Value, json};

use crate::client::{Running, ask, essence, problem, request};
use crate::rewards::{PROBLEM, STEPS, scored, sent};

/// Returns chains of several problems. In each ten, number 3 has no steps and number 7 is too long.
fn many(count: usize) -> Vec<Value> {
    let chain = |at: usize| match at % 10 {
        3 => json!({"problem": problem(at % 4), "steps": []}),
        7 => json!({"problem": problem(at % 4), "steps": ["x ".repeat(100_000)]}),
        _ => {
            let steps: Vec<String> = (0..1 + at % 5)
                .map(|step| format!("{at} + {step} = {}.", at + step))
                .collect();
            json!({"problem": problem(at % 4), "steps": steps})
        }
    };
    (0..count).map(chain).collect()
}

#[test]
fn chains_have_the_same_scores_alone_and_together_beside_searches() {
    let server = Running::start(ServeOptions::default());
    let chains = many(60);
    let alone: Vec<Value> = chains
        .iter()
        .map(|chain| {
            let mut data =
                server.post("/v1/score", &json!({"chains": [chain]})).ok()["data"].clone();
            let entry = data[0].take();
            if let Some(error) = entry["error"].as_str() {
                return json!(error);
            }
            let steps: Vec<&str> = chain["steps"]
                .as_array()
                .unwrap()
                .iter()
                .map(|s| s.as_str().unwrap())
                .collect();
            assert_eq!(
                entry["scores"],
                sent(json!(scored(chain["problem"].as_str().unwrap(), &steps)))
            );
            entry["scores"].clone()
        })
        .collect();
    let search = ask(&problem(5), json!({"n": 8, "m": 4}));
    let wanted = essence(&server.chat(&search).ok());
    std::thread::scope(|scope| {
        let searches = scope.spawn(|| {
            for _ in 0..6 {
                assert_eq!(essence(&server.chat(&search).ok()), wanted);
            }
        });
        for turn in 0..6 {
            let rotated = [&chains[turn * 9..], &chains[..turn * 9]].concat();
            let data = server.post("/v1/score", &json!({"chains": rotated})).ok()["data"].clone();
            for (at, entry) in data.as_array().unwrap().iter().enumerate() {
                let wanted = &alone[(at + turn * 9) % chains.len()];
                let found = entry.get("error").unwrap_or(&entry["scores"]);
                assert_eq!(found, wanted, "{turn} {at}");
            }
        }
        searches.join().unwrap();
    });
}

#[test]
fn large_requests_hold_nobody_up() {
    let server = Running::start(ServeOptions::default());
    let padding = " ".repeat(4096);
    let chains: Vec<Value> = many(2000)
        .into_iter()
        .map(|mut chain| {
            // The padding makes the body large, but the scorer never reads it.
            chain["note"] = json!(padding);
            chain
        })
        .collect();
    let body = json!({"chains": chains}).to_string();
    assert!(body.len() > 8 << 20);
    let search = ask(&problem(5), json!({"n": 4, "m": 2}));
    let wanted = essence(&server.chat(&search).ok());
    std::thread::scope(|scope| {
        let large = scope.spawn(|| server.send(&request("/v1/score", &body, "")).unwrap().ok());
        let mut longest = Duration::ZERO;
        while !large.is_finished() {
            let begun = Instant::now();
            assert_eq!(server.get("/health").status, 200);
            assert_eq!(essence(&server.chat(&search).ok()), wanted);
            longest = longest.max(begun.elapsed());
        }
        assert!(longest < Duration::from_secs(5), "{longest:?}");
        let data = large.join().unwrap()["data"].clone();
        assert_eq!(data.as_array().unwrap().len(), 2000);
        assert!(data[0]["score"].is_number() && data[3]["error"].is_string());
    });
}

#[test]
fn whoever_goes_away_takes_the_chains_along() {
    let server = Running::start(ServeOptions {
        limits: Limits {
            queue: 1,
            ..Limits::default()
        },
        ..ServeOptions::default()
    });
    let chain = |steps| json!({"problem": PROBLEM, "steps": vec![STEPS[1]; steps]});
    let many = json!({"chains": vec![chain(10); 4096]}).to_string();
    let begin = || {
        let mut stream = server.connect();
        let bytes = request("/v1/score", &many, "");
        stream.write_all(&bytes).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let mut stream = begin();
    // The queue has a place for one request for scores, which the large request holds until it is
    // done.
    let status = || {
        server
            .post("/v1/score", &json!({"chains": [chain(1)]}))
            .status
    };
    let started = Instant::now();
    while status() != 429 {
        assert!(started.elapsed() < Duration::from_secs(20), "no 429");
        // If a small request held the place, the large one was refused.
        if stream.peek(&mut [0]).is_ok() {
            stream = begin();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(stream);
    let started = Instant::now();
    while status() != 200 {
        std::thread::sleep(Duration::from_millis(1));
        assert!(started.elapsed() < Duration::from_secs(20), "no 200");
    }
    let waited = started.elapsed();
    // Without the cancelling, 4096 chains take half a minute.
    assert!(waited < Duration::from_secs(5), "{waited:?}");
}

#[test]
fn limits_of_requests_for_scores_are_their_own() {
    let limits = Limits {
        body_bytes: 1000,
        score_body_bytes: 20_000,
        chains_to_score: 3,
        ..Limits::default()
    };
    let server = Running::start(ServeOptions {
        limits,
        ..ServeOptions::default()
    });
    let padded = |bytes: usize| json!({"chains": [{"problem": PROBLEM, "steps": STEPS, "note": "x".repeat(bytes)}]});
    server.post("/v1/score", &padded(15_000)).ok();
    let refused = server.post("/v1/score", &padded(20_000));
    assert_eq!(
        refused.refusal(),
        (413, "body_too_large".to_owned(), Value::Null)
    );
    let refused = server.post("/v1/refine", &padded(15_000));
    assert_eq!(refused.refusal().0, 413);
    let four = json!([PROBLEM, PROBLEM, PROBLEM, PROBLEM]);
    for (route, body, field) in [
        ("/v1/score", json!({"chains": four}), "chains"),
        (
            "/score",
            json!({"text_1": PROBLEM, "text_2": four}),
            "text_1",
        ),
        (
            "/rerank",
            json!({"query": PROBLEM, "documents": four}),
            "documents",
        ),
        ("/pooling", json!({"input": []}), "messages"),
    ] {
        let refused = server.post(route, &body);
        assert_eq!(
            refused.refusal(),
            (400, "invalid_value".to_owned(), json!(field))
        );
    }
}
