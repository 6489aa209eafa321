//! Tests that a running server reads presets and keys again.

use std::io::{BufReader, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use beamgen::Settings;
use beamgen_serve::{BUILT_IN_PRESETS, Event, Loaded, Presets, Reload, ServeOptions};
use serde_json::json;

use crate::client::{Reply, Running, ask, problem, request};

const KEY: &str = "correct-horse-battery";
const NEW_KEY: &str = "another-long-key-42";

/// The text of the presets file, and the keys: what the server reads.
type Files = Arc<Mutex<(String, Vec<&'static str>)>>;

fn start(keys: &[&'static str]) -> (Running, Files, Reload, Arc<Mutex<Vec<String>>>) {
    let files: Files = Arc::new(Mutex::new((BUILT_IN_PRESETS.to_owned(), keys.to_vec())));
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let (read, teller) = (Arc::clone(&files), Arc::clone(&told));
    let reload = Reload::new(move || {
        let files = read.lock().unwrap();
        let own = Settings::default();
        let presets = Presets::parse(&files.0, "presets.toml", &own);
        Ok(Loaded {
            presets: presets.map_err(|error| error.to_string())?,
            keys: files.1.iter().map(|key| key.parse().unwrap()).collect(),
        })
    });
    let server = Running::start(ServeOptions {
        keys: keys.iter().map(|key| key.parse().unwrap()).collect(),
        observe: Some(Arc::new(move |event: &Event<'_>| match event {
            Event::Reloaded { presets, keys } => {
                teller.lock().unwrap().push(format!("{presets} {keys}"));
            }
            Event::NotReloaded { reason } => teller.lock().unwrap().push((*reason).to_owned()),
            _ => {}
        })),
        reload: Some(reload.clone()),
        ..ServeOptions::default()
    });
    (server, files, reload, told)
}

fn send(server: &Running, method: &str, path: &str, key: &str) -> Reply {
    let bytes = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n\
         Content-Length: 0\r\n\r\n"
    );
    server.send(bytes.as_bytes()).unwrap()
}

fn models(server: &Running, key: &str) -> Vec<String> {
    let list = send(server, "GET", "/v1/models", key).ok();
    let data = list["data"].as_array().unwrap();
    data.iter()
        .map(|model| model["id"].as_str().unwrap().to_owned())
        .collect()
}

const NEW: &str = "[quick]\nsummary = \"s\"\nsearch.n = 2\nsearch.m = 1\n";

#[test]
fn presets_and_keys_are_replaced_and_the_former_ones_are_gone() {
    let (server, files, _, told) = start(&[KEY]);
    *files.lock().unwrap() = (NEW.to_owned(), vec![NEW_KEY]);
    let before = models(&server, KEY);
    assert!(before.contains(&"careful".to_owned()), "{before:?}");
    let done = send(&server, "POST", "/v1/reload", KEY).ok();
    assert_eq!(
        done,
        json!({"object": "reload", "models": ["beamgen", "quick"], "keys": 1})
    );
    assert_eq!(models(&server, NEW_KEY), ["beamgen", "quick"]);
    assert_eq!(send(&server, "GET", "/v1/models", KEY).status, 401);
    let mut body = ask(&problem(0), json!({}));
    let headers = format!("Authorization: Bearer {NEW_KEY}\r\n");
    for (model, status) in [("quick", 200), ("careful", 404)] {
        body["model"] = json!(model);
        let bytes = request("/v1/chat/completions", &body.to_string(), &headers);
        let reply = server.send(&bytes).unwrap();
        assert_eq!(reply.status, status, "{model}");
        if status == 200 {
            assert_eq!(reply.json()["beamgen"]["n"], 2);
        }
    }
    assert_eq!(*told.lock().unwrap(), ["2 1"]);
}

#[test]
fn a_wrong_file_changes_nothing_and_the_fault_is_named_with_its_place() {
    let (server, files, _, told) = start(&[KEY]);
    let before = models(&server, KEY);
    for (presets, keys, words) in [
        (
            "[quick]\nsummary = \"s\"\n[quick\n",
            vec![NEW_KEY],
            "presets.toml: line 3: ",
        ),
        (
            "[quick]\nsummary = \"s\"\nsearch.n = 0\n",
            vec![NEW_KEY],
            "presets.toml: [quick]: ",
        ),
        (NEW, vec![], "no key is left"),
    ] {
        *files.lock().unwrap() = (presets.to_owned(), keys);
        let reply = send(&server, "POST", "/v1/reload", KEY);
        assert_eq!(
            (reply.status, reply.refusal().1.as_str()),
            (400, "reload_failed")
        );
        assert!(reply.text().contains(words), "{}", reply.text());
        assert_eq!(models(&server, KEY), before);
        assert!(told.lock().unwrap().last().unwrap().starts_with(words));
        assert_eq!(send(&server, "GET", "/v1/models", NEW_KEY).status, 401);
    }
}

#[test]
fn a_running_request_keeps_its_settings() {
    let (server, files, reload, told) = start(&[]);
    let mut body = ask(
        &problem(0),
        json!({"strategy": "best-of-n", "n": 200, "m": 1}),
    );
    body["model"] = json!("careful");
    let mut stream = server.connect();
    let bytes = request("/v1/chat/completions", &body.to_string(), "");
    stream.write_all(&bytes).unwrap();
    let started = Instant::now();
    while server.metric("beamgen_in_flight ") < 1.0 {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    files.lock().unwrap().0 = NEW.to_owned();
    reload.begin();
    while told.lock().unwrap().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(models(&server, ""), ["beamgen", "quick"]);
    let answer = Reply::read(&mut BufReader::new(stream)).unwrap().ok();
    assert_eq!(
        (&answer["model"], &answer["beamgen"]["n"]),
        (&json!("careful"), &json!(200))
    );
    assert_eq!(server.chat(&body).refusal().1, "model_not_found");
}

#[test]
fn without_a_key_nobody_reloads_over_http() {
    let (server, files, reload, told) = start(&[]);
    files.lock().unwrap().0 = NEW.to_owned();
    let reply = server.post("/v1/reload", &json!({}));
    assert_eq!(
        (reply.status, reply.refusal().1.as_str()),
        (403, "reload_refused")
    );
    assert!(reply.text().contains("SIGUSR1"), "{}", reply.text());
    assert!(models(&server, "").contains(&"careful".to_owned()));
    // The process itself may reload a server that has no key.
    reload.begin();
    let started = Instant::now();
    while told.lock().unwrap().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(models(&server, ""), ["beamgen", "quick"]);
}

#[test]
fn a_server_with_nothing_to_read_says_so() {
    let server = Running::start(ServeOptions {
        keys: vec![KEY.parse().unwrap()],
        ..ServeOptions::default()
    });
    let reply = send(&server, "POST", "/v1/reload", KEY);
    assert_eq!(reply.refusal().1, "reload_refused");
    assert!(reply.text().contains("nothing to read again"));
}
