//! Tests fields that clients of other servers send. A field that changes answers takes effect;
//! other fields are listed as ignored.

use std::sync::{Arc, Mutex};

use beamgen_serve::{Event, ServeOptions};
use serde_json::{Value, json};

use crate::client::{Running, ask, essence, problem, request};

/// Returns a chat request with the object `beamgen` (`own`) and further fields (`more`).
fn with(own: Value, more: Value) -> Value {
    let mut body = ask(&problem(0), own);
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[test]
fn fields_without_effect_are_named_counted_and_logged_once() {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let teller = Arc::clone(&told);
    let server = Running::start(ServeOptions {
        observe: Some(Arc::new(move |event: &Event<'_>| {
            if let Event::FieldIgnored { field } = event {
                teller.lock().unwrap().push((*field).to_owned());
            }
        })),
        ..ServeOptions::default()
    });
    let plain = server.chat(&with(json!({"n": 4}), json!({}))).ok();
    assert!(plain["beamgen"].get("ignored").is_none());
    // `its_hub` sends the first body; the second has fields of vLLM's benchmark client.
    let its_hub = json!({"model": "beamgen", "extra_body": {}});
    let vllm =
        json!({"user": "mia", "ignore_eos": true, "priority": null, "my field": 1, "nonesuch": {}});
    for (more, ignored) in [
        (its_hub, json!(["extra_body"])),
        (vllm, json!(["user", "ignore_eos", "my field", "nonesuch"])),
        (json!({"user": ""}), json!(["user"])),
    ] {
        let answer = server.chat(&with(json!({"n": 4}), more)).ok();
        assert_eq!(answer["beamgen"]["ignored"], ignored);
        assert_eq!(essence(&answer), essence(&plain));
    }
    let wanted = ["extra_body", "user", "ignore_eos", "other", "nonesuch"];
    assert_eq!(*told.lock().unwrap(), wanted);
    for (field, count) in [("user", 2.0), ("extra_body", 1.0), ("other", 2.0)] {
        let name = format!("beamgen_ignored_fields_total{{field=\"{field}\"}} ");
        assert_eq!(server.metric(&name), count, "{field}");
    }
    let refused = server.chat(&ask("x", json!({"nonesuch": 1}))).refusal();
    assert_eq!(
        (refused.1.as_str(), refused.2),
        ("unknown_field", json!("beamgen.nonesuch"))
    );
}

#[test]
fn a_misspelt_field_is_told_with_the_nearest_one() {
    let server = Running::start(ServeOptions::default());
    let answer = server
        .chat(&with(json!({"n": 4}), json!({"temprature": 1})))
        .ok();
    assert_eq!(answer["beamgen"]["ignored"], json!(["temprature"]));
    let note = "there is no field \"temprature\": the nearest is temperature";
    assert_eq!(answer["beamgen"]["note"], note);
}

#[test]
fn a_search_keeps_its_sampling_and_a_single_chain_takes_the_clients() {
    let server = Running::start(ServeOptions::default());
    let model = |name: &str, own: Value, more: Value| {
        let mut body = with(own, more);
        body["model"] = name.into();
        server.chat(&body).ok()
    };
    // The body that lm-eval 0.4.13 sends. Its temperature once made a beam greedy.
    let lm_eval = json!({"max_tokens": 256, "temperature": 0, "top_p": 0.5, "top_k": 3});
    for preset in ["fast", "vote", "beamgen"] {
        let plain = model(preset, json!({}), json!({"max_tokens": 256}));
        let pinned = model(preset, json!({}), lm_eval.clone());
        assert_eq!(essence(&plain), essence(&pinned), "{preset}");
        let ignored = json!(["temperature", "top_p", "top_k"]);
        assert_eq!(pinned["beamgen"]["ignored"], ignored, "{preset}");
        // A temperature in the object `beamgen` does apply to a search.
        let own = json!({"generator": {"sampling": {"temperature": 0.0}}, "tree": true});
        let meant = model(preset, own, lm_eval.clone());
        let short = model(preset, json!({"temperature": 0, "tree": true}), json!({}));
        assert_eq!(meant["beamgen"]["tree"], short["beamgen"]["tree"]);
        assert_ne!(meant["beamgen"]["score"], Value::Null);
    }
    let greedy = model("beamgen", json!({"strategy": "greedy"}), lm_eval.clone());
    let cold = model("single", json!({}), lm_eval);
    assert_eq!(essence(&cold), essence(&greedy));
    assert!(cold["beamgen"].get("ignored").is_none());
    // A value out of range is refused even where the field would be ignored.
    let mut wrong = with(json!({}), json!({"temperature": -1}));
    wrong["model"] = "fast".into();
    assert_eq!(server.chat(&wrong).refusal().2, json!("temperature"));
}

#[test]
fn minus_one_is_off() {
    let server = Running::start(ServeOptions::default());
    let own = || json!({"strategy": "best-of-n", "n": 1});
    let plain = server.chat(&with(own(), json!({"top_k": 0}))).ok();
    let off = json!({"top_k": -1, "max_tokens": -1, "max_completion_tokens": -1});
    let off = server.chat(&with(own(), off)).ok();
    assert_eq!(essence(&plain), essence(&off));
    let random = json!({"seed": -1});
    let seeds: Vec<Value> = (0..2)
        .map(|_| server.chat(&with(own(), random.clone())).ok()["beamgen"]["seed"].clone())
        .collect();
    assert_ne!(seeds[0], seeds[1]);
}

#[test]
fn many_unknown_fields_are_named_up_to_a_limit() {
    let server = Running::start(ServeOptions::default());
    let mut body = with(json!({"n": 4}), json!({}));
    for i in 0..300 {
        body[format!("x{i}")] = json!(i);
    }
    let reply = server
        .send(&request("/v1/chat/completions", &body.to_string(), ""))
        .unwrap();
    let ignored = reply.ok()["beamgen"]["ignored"].clone();
    assert_eq!(ignored.as_array().unwrap().len(), 64);
}
