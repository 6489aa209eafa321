//! The memory for an answer is limited by its request. The only test of this file, since memory of
//! another test in the same process would be counted, too.

use std::alloc::System;

use beamgen_remote::{Remote, Servers};
use beamgen_search::GeneratorConfig;
use cap::Cap;
use serde_json::json;

#[path = "remote/fake.rs"]
#[allow(dead_code, reason = "the other tests need more of it")]
mod fake;
#[path = "../../generator/tests/tiny/mod.rs"]
mod tiny;

use fake::{Fake, Reply, Seen};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The most bytes that a connection and its threads take in this process.
const OTHERS: usize = 2 << 20;

/// Returns the error of connecting to a server, and the most bytes that were allocated meanwhile.
fn connect(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> (String, usize) {
    let tokenizer = tiny::tokenizer();
    let server = Fake::start(handler);
    let remote = Remote::new().unwrap();
    let before = ALLOCATOR.allocated();
    let connection = remote.connect("generator", &Servers::at([server.url()]));
    let error = connection.and_then(|connection| {
        let config = GeneratorConfig::default();
        remote.generator(connection, tokenizer, &config).map(drop)
    });
    let most = ALLOCATOR.max_allocated().saturating_sub(before);
    (error.unwrap_err().to_string(), most)
}

#[test]
fn long_answers_are_refused_before_they_take_memory() {
    // The smaller bounds first: the allocator remembers the largest of all.
    let (error, most) = connect(|seen| match seen.path.as_str() {
        "/v1/models" => Reply::Json(
            200,
            json!({"data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": 96}]}),
        ),
        "/v1/completions" => Reply::Zeros(r#"{"choices":[{"token_ids":["#, 60_000_000, "]}]}"),
        _ => Reply::Json(404, json!({"detail": "Not Found"})),
    });
    assert!(error.contains("the limit for this request"), "{error}");
    // The probe requests two tokens after a short prompt, so the answer may have about 80 KiB.
    assert!(most < 4 * (80 << 10) + OTHERS, "{most} bytes");

    // An answer of this size is allowed, but parsed into a tree it would take a hundred times as
    // much.
    let list = r#"{"object":"list","data":["#;
    let (error, most) = connect(move |_| Reply::Zeros(list, 4_000_000, "]}"));
    assert!(error.contains("answers as none of"), "{error}");
    assert!(most < 4 * (4 << 20) + OTHERS, "{most} bytes");

    let (error, most) = connect(move |_| Reply::Zeros(list, 40_000_000, "]}"));
    assert!(error.contains("more than 4194304 bytes"), "{error}");
    assert!(most < 4 * (4 << 20) + OTHERS, "{most} bytes");
}
