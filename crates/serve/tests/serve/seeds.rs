//! Tests that requests without a seed get different seeds, and that the reported seed reproduces an
//! answer.

use std::collections::BTreeSet;

use beamgen::Settings;
use beamgen_serve::{Presets, ServeOptions};
use serde_json::{Value, json};

use crate::client::{Running, essence, problem};

/// Returns the request of a best-of-N client, which sends many of them: for one chain, and without
/// a seed.
fn unseeded() -> Value {
    json!({"model": "single", "messages": [{"role": "user", "content": problem(3)}], "temperature": 1.0})
}

fn text(answer: &Value) -> String {
    answer["choices"][0]["message"]["content"].to_string()
}

#[test]
fn sixteen_unseeded_requests_differ_and_each_repeats_by_its_seed() {
    let server = Running::start(ServeOptions::default());
    let answers: Vec<Value> = (0..16).map(|_| server.chat(&unseeded()).ok()).collect();
    let seeds: BTreeSet<u64> = answers
        .iter()
        .map(|answer| answer["beamgen"]["seed"].as_u64().unwrap())
        .collect();
    assert_eq!(seeds.len(), 16);
    assert!(seeds.iter().all(|seed| *seed < 1 << 53));
    let texts: BTreeSet<String> = answers.iter().map(text).collect();
    assert!(texts.len() > 1, "{texts:?}");
    // The same requests again, now concurrently and with the reported seeds.
    std::thread::scope(|scope| {
        for answer in &answers {
            let server = &server;
            scope.spawn(move || {
                for by_field in [true, false] {
                    let (mut body, seed) = (unseeded(), answer["beamgen"]["seed"].clone());
                    if by_field {
                        body["seed"] = seed;
                    } else {
                        body["beamgen"] = json!({"seed": seed});
                    }
                    assert_eq!(essence(&server.chat(&body).ok()), essence(answer));
                }
            });
        }
    });
}

#[test]
fn a_server_and_a_preset_can_fix_the_seed() {
    let server = Running::start(ServeOptions {
        fixed_seed: Some(7),
        ..ServeOptions::default()
    });
    let (first, again) = (server.chat(&unseeded()).ok(), server.chat(&unseeded()).ok());
    assert_eq!(first["beamgen"]["seed"], 7);
    assert_eq!(essence(&first), essence(&again));
    let mut other = unseeded();
    other["seed"] = json!(8);
    assert_eq!(server.chat(&other).ok()["beamgen"]["seed"], 8);

    let text = "[fixed]\nsummary = 's'\ngenerator.seed = 3\n[free]\nsummary = 's'\nsearch.n = 4";
    let presets = Presets::parse(text, "p", &Settings::default()).unwrap();
    let pins = |name| presets.find(name).unwrap().pins_seed;
    assert!(pins("fixed") && !pins("free") && !pins("beamgen"));
}
