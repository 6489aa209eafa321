//! Tests that keys and tokens of other services appear in no written file and in no message.

use std::path::{Path, PathBuf};

use crate::bad_hub::file;
use crate::real_checkpoints::SHORT;
use crate::run::{Place, Ran};
use crate::server::{REPO, Server, Trick};

/// Returns all files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Checks that neither the output nor any file except `given` contains the secret.
fn assert_hidden(place: &Place, ran: &Ran, secret: &str, given: Option<&str>) {
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains(secret), "{text}");
    }
    for path in files(&place.path("")) {
        let bytes = std::fs::read(&path).expect("a file");
        let mut parts = bytes.windows(secret.len());
        let has_secret = parts.any(|part| part == secret.as_bytes());
        let is_given = given.is_some_and(|name| path.ends_with(name));
        assert!(is_given || !has_secret, "{}", path.display());
    }
}

#[test]
fn the_token_of_a_hub() {
    const TOKEN: &str = "hf_in_no_file";
    let server = Server::start();
    for name in [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "model.safetensors",
    ] {
        server.put(name, &file(name));
    }
    let variables = [
        ("HF_ENDPOINT", server.endpoint.as_str()),
        ("HF_HUB_OFFLINE", "0"),
        ("HF_TOKEN", TOKEN),
    ];
    let args = [
        "solve",
        "p.jsonl",
        "--generator",
        REPO,
        "--scorer",
        "none",
        "--strategy",
        "greedy",
        "--set",
        "generator.max_chain_tokens=8",
        "--verbose",
        "--tree",
        "--out",
        "run.jsonl",
    ];
    for is_refused in [false, true] {
        if is_refused {
            server.trick("/api/models/", 99, Trick::Status(401, "GatedRepo"));
        }
        // The new folder has an empty cache, so the hub gets a request.
        let place = Place::new();
        place.write("p.jsonl", SHORT);
        let ran = place.run_with(&variables, &args);
        let code = if is_refused { 2 } else { 0 };
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        let sent = format!("Bearer {TOKEN}");
        let mut seen = server.seen().into_iter();
        assert!(seen.any(|seen| seen.token.as_ref() == Some(&sent)));
        assert_hidden(&place, &ran, TOKEN, None);
    }
}

#[cfg(feature = "remote")]
mod servers {
    use serde_json::json;

    use super::assert_hidden;
    use crate::fake::{Fake, Reply, Seen};
    use crate::real_checkpoints::SHORT;
    use crate::run::{Place, root};

    const KEY: &str = "sk-in-no-file";
    const KEY_FILE: [&str; 2] = ["--set", "models.generator_server.key_file=key"];
    const SOLVE: [&str; 11] = [
        "solve",
        "p.jsonl",
        "--scorer",
        "none",
        "--strategy",
        "majority",
        "-n",
        "2",
        "--verbose",
        "--tree",
        "--out",
    ];
    const BENCH: [&str; 7] = [
        "bench",
        "p.jsonl",
        "--strategies",
        "majority",
        "--n",
        "2",
        "--out",
    ];

    /// Plays a vLLM server whose model always samples the same token.
    fn vllm(seen: &Seen) -> Reply {
        if seen.header("authorization") != Some(format!("Bearer {KEY}").as_str()) {
            return Reply::Json(401, json!({"error": "Unauthorized"}));
        }
        match seen.path.as_str() {
            "/v1/models" => Reply::Json(
                200,
                json!({"object": "list", "data": [{"id": "tiny", "owned_by": "vllm", "root": "/models/tiny",
                    "max_model_len": 256}]}),
            ),
            "/v1/completions" => {
                let count = seen.body["max_tokens"].as_u64().expect("a limit") as usize;
                let logprobs = json!({"token_logprobs": vec![-0.5; count]});
                let choice = json!({"index": 0, "text": "", "token_ids": vec![65; count], "logprobs": logprobs,
                    "finish_reason": "length", "stop_reason": null});
                Reply::Json(200, json!({"id": "cmpl-1", "choices": [choice]}))
            }
            _ => Reply::Json(404, json!({"detail": "Not Found"})),
        }
    }

    #[test]
    fn the_key_of_a_server() {
        let server = Fake::start(vllm);
        // Some servers repeat the refused key in their answer.
        let refusing =
            Fake::start(|_| Reply::Json(401, json!({"error": format!("no such key: {KEY}")})));
        let model = root().join("tests/fixtures/prm/reference");
        let model = model.to_str().expect("a path in UTF-8");
        let by_variable = [("BEAMGEN_GENERATOR_KEY", KEY)];
        let ways = [
            (&by_variable[..], &KEY_FILE[..0]),
            (&by_variable[..0], &KEY_FILE[..]),
        ];
        for (url, code) in [(server.url(), 0), (refusing.url(), 2)] {
            let models = [
                "--generator",
                model,
                "--generator-url",
                &url,
                "--set",
                "generator.max_chain_tokens=8",
                "--set",
                "generator.max_step_tokens=4",
            ];
            for (variables, flags) in ways {
                for (command, out) in [(&SOLVE[..], "run.jsonl"), (&BENCH[..], "report")] {
                    let place = Place::new();
                    place.write("p.jsonl", SHORT);
                    place.write("key", KEY);
                    let args = [command, &[out], &models, flags].concat();
                    let ran = place.run_with(variables, &args);
                    assert_eq!(ran.code, Some(code), "{}", ran.stderr);
                    assert_eq!(place.path(out).exists(), code == 0);
                    assert_hidden(&place, &ran, KEY, Some("key"));
                }
            }
        }
    }

    /// A report contains the settings and the command line, so even the address of an unused server
    /// could reveal a password.
    #[test]
    fn a_password_in_the_address_of_a_server() {
        let place = Place::new();
        place.write("p.jsonl", SHORT);
        let url = ["--prm-url", "http://me:hidden-word@127.0.0.1:9"];
        let ran = place.run(&[&BENCH[..], &["report"], &url].concat());
        ran.assert_refused("an address with a password", &["cannot contain a key"]);
        assert_hidden(&place, &ran, "hidden-word", None);
    }
}
