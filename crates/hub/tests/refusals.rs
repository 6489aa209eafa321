//! Refusals, and answers that make no sense: one line each, and nothing in the cache.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use beamgen_hub::{Hub, HubError, RequestError};

use crate::server::{COMMIT, REPO, Trick, etag_of};
use crate::setup::{Setup, WEIGHTS_FILE, setup, weights};

fn refused(prepare: impl FnOnce(&mut Setup)) -> String {
    refused_as(REPO, prepare)
}

fn refused_as(id: &str, prepare: impl FnOnce(&mut Setup)) -> String {
    let mut setup = setup();
    prepare(&mut setup);
    let text = setup.refusal(id);
    assert!(
        !setup
            .blobs()
            .iter()
            .any(|name| name.ends_with(".incomplete"))
    );
    text
}

#[test]
fn access() {
    let gated = refused(|s| s.server.trick("HEAD", 1, Trick::Status(403, "GatedRepo")));
    assert!(gated.contains("config.json"), "{gated}");
    assert!(
        gated.contains("(403), the model is gated: accept its licence"),
        "{gated}"
    );
    assert!(gated.contains("set HF_TOKEN"), "{gated}");
    assert!(gated.contains("; its page: http://"), "{gated}");
    let unknown = refused(|s| {
        s.server
            .trick("revision", 1, Trick::Status(401, "RepoNotFound"));
    });
    assert!(
        unknown.contains("(401): the repository is private or does not exist"),
        "{unknown}"
    );
    let with_token = refused(|s| {
        s.config.token = Some("hf_x".to_owned());
        s.server.trick("revision", 1, Trick::Status(401, ""));
    });
    assert!(
        with_token.contains("a token of an account with access"),
        "{with_token}"
    );
    assert!(!with_token.contains("hf_x"), "{with_token}");
}

#[test]
fn what_is_not_there() {
    let repo = refused_as("org/other", |_| ());
    assert!(
        repo.contains("org/other@main") && repo.contains("no such repository (404)"),
        "{repo}"
    );
    let revision = refused_as("org/tiny@v9", |_| ());
    assert!(
        revision.contains("org/tiny@v9") && revision.contains("no such revision"),
        "{revision}"
    );
    let file = refused_as("org/tiny:none.gguf", |_| ());
    assert!(
        file.contains("none.gguf") && file.contains("no such file"),
        "{file}"
    );
    let config = refused(|s| s.server.remove("config.json"));
    assert!(config.contains("config.json"), "{config}");
    let late = refused(|s| s.server.trick("config.json", 1, Trick::Status(404, "")));
    assert!(
        late.contains("config.json") && late.contains("no such file"),
        "{late}"
    );
    let weights = refused(|s| {
        s.server.remove("model.safetensors");
        s.server.remove("pytorch_model.bin");
        s.server.put("tiny.gguf", b"x");
    });
    assert!(
        weights.contains(
            "no safetensors and no PyTorch weights; name its GGUF file as ORG/NAME:tiny.gguf"
        ),
        "{weights}"
    );
}

#[test]
fn a_hub_that_is_ill_or_away() {
    let ill = refused(|s| s.server.trick("revision", 1, Trick::Status(500, "")));
    assert!(
        ill.contains("the hub answered 500; try again later"),
        "{ill}"
    );
    let ill = refused(|s| s.server.trick("GET /store", 1, Trick::Status(503, "")));
    assert!(ill.contains(WEIGHTS_FILE) && ill.contains("503"), "{ill}");

    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a port");
    let closed = refused(|s| s.config.endpoint = format!("http://{port}"));
    assert!(closed.contains("cannot be reached"), "{closed}");
    assert!(closed.to_lowercase().contains("refused"), "{closed}");
    // Names that end in `.invalid` never resolve (RFC 6761).
    let nameless = refused(|s| s.config.endpoint = "http://hub.invalid".to_owned());
    assert!(
        nameless.contains("cannot be reached") || nameless.contains("no answer"),
        "{nameless}"
    );
    // The server does not speak TLS.
    let plain = refused(|s| s.config.endpoint = s.config.endpoint.replace("http:", "https:"));
    assert!(plain.contains("cannot be reached"), "{plain}");
}

#[test]
fn a_slow_hub() {
    let begin = Instant::now();
    let slow = refused(|s| {
        s.config.timeout = Duration::from_millis(200);
        s.server
            .trick("revision", 1, Trick::Late(Duration::from_secs(30)));
    });
    assert!(slow.contains("no answer within 200ms"), "{slow}");
    assert!(begin.elapsed() < Duration::from_secs(20));
    // Here the listing has to be answered in time, so the limit leaves room for a busy machine.
    let slow = refused(|s| {
        s.config.timeout = Duration::from_secs(2);
        s.server
            .trick("HEAD", 1, Trick::Late(Duration::from_secs(30)));
    });
    assert!(
        slow.contains("config.json") && slow.contains("no answer within 2s"),
        "{slow}"
    );
}

/// `timeout` limits listings and headers; `download_timeout` limits the bytes of files.
#[test]
fn a_slow_download() {
    let mut setup = setup();
    setup.config.download_timeout = Duration::from_millis(700);
    let late = |time| Trick::Late(Duration::from_millis(time));
    setup.server.trick("revision", 1, late(900));
    setup.server.trick("HEAD", 1, late(900));
    setup.fetch(REPO).expect("the model");
    setup.server.put_large("a.gguf", b"bytes");
    setup.server.trick("GET /store", 1, late(30_000));
    let slow = setup
        .fetch("org/tiny:a.gguf")
        .expect_err("late")
        .to_string();
    assert!(slow.contains("no answer within 700ms"), "{slow}");
}

/// A storage server's refusal is not about the repository. Retries ask the hub, which signs a new
/// address.
#[test]
fn a_store_that_refuses() {
    for status in [403, 404, 401] {
        let mut setup = setup();
        setup.config.retries = 1;
        let refused = Trick::Status(status, "");
        setup.server.trick("GET /store", 1, refused.clone());
        setup.fetch(REPO).expect("the model");
        let seen = setup.server.seen().into_iter().filter(|seen| seen.on_cdn);
        let [first, second] = &seen.map(|seen| seen.query).collect::<Vec<_>>()[..] else {
            panic!("two requests");
        };
        assert!(first.starts_with("signature=") && first != second);

        let text = refused_as("org/tiny", |s| {
            s.config.retries = 2;
            s.server.trick("GET /store", 3, refused);
        });
        let said = format!("storage server 127.0.0.1 refused ({status})");
        for word in [&said, WEIGHTS_FILE, "another network", "HF_ENDPOINT"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(
            !text.contains("HF_TOKEN") && !text.contains("private"),
            "{text}"
        );
    }
}

#[test]
fn a_disk_without_room() {
    let setup = setup();
    let promised = 9_000_000_000_000_000_000_u64;
    let size = Trick::Header("X-Linked-Size", promised.to_string());
    let file = format!("resolve/{COMMIT}/{WEIGHTS_FILE}");
    let needed = || {
        setup.server.trick(&file, 1, size.clone());
        let error = setup.fetch(REPO).expect_err("no room");
        let text = error.to_string();
        let folder = setup.repo_dir().display().to_string();
        for word in [&folder, "9000000000.00 GB", "free", "HF_HOME"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let got = setup.server.seen().into_iter();
        let got: Vec<_> = got
            .filter(|seen| seen.method == "GET" && seen.path.contains("resolve"))
            .collect();
        assert!(got.is_empty(), "{got:?}");
        match error {
            HubError::NoSpace { needed, free, .. } if free < needed => needed,
            error => panic!("{error}"),
        }
    };
    let all = needed();
    assert!(all > promised);
    // Bytes that an earlier call left need no more room.
    let part = format!("{}.incomplete", etag_of(&weights(), true));
    let blobs = setup.repo_dir().join("blobs");
    std::fs::create_dir_all(&blobs).expect("made");
    std::fs::write(blobs.join(part), vec![0; 1000]).expect("written");
    assert_eq!(needed(), all - 1000);
    let text = "the text of config.json";
    std::fs::write(blobs.join(etag_of(text.as_bytes(), false)), text).expect("written");
    assert_eq!(needed(), all - 1000 - text.len() as u64);
}

#[test]
fn answers_that_are_none() {
    for (body, reported) in [
        (
            "<html>Please log in</html>",
            "not a listing of a repository",
        ),
        ("{\"sha\": \"0123\"", "not a listing of a repository"),
        ("{\"siblings\": []}", "missing field `sha`"),
        (
            "{\"sha\": \"../../x\", \"siblings\": []}",
            "the commit \"../../x\"",
        ),
        (
            "{\"sha\": \"0123456789abcdef0123456789abcdef01234567\", \"siblings\": [{\"rfilename\": \"../config.json\"}]}",
            "the file name \"../config.json\"",
        ),
    ] {
        let text = refused(|s| s.server.trick("revision", 1, Trick::Body(body)));
        assert!(
            text.contains(reported) && text.contains("check HF_ENDPOINT"),
            "{text}"
        );
    }
    let no_etag = refused(|s| s.server.trick("HEAD", 1, Trick::Without("ETag")));
    assert!(no_etag.contains("no ETag"), "{no_etag}");
    let other = refused_as("org/tiny@89abcdef0123456789abcdef0123456789abcdef", |s| {
        s.server.trick(
            "revision",
            1,
            Trick::Body(
                "{\"sha\": \"0123456789abcdef0123456789abcdef01234567\", \"siblings\": []}",
            ),
        );
    });
    assert!(other.contains(COMMIT), "{other}");
}

#[test]
fn an_index_cannot_lead_out_of_the_cache() {
    for shard in ["../../../evil", "/tmp/evil", "a//b", "..\\\\evil"] {
        let text = refused(|s| {
            s.server.remove("model.safetensors");
            let index = format!(r#"{{"weight_map": {{"a": "{shard}"}}}}"#);
            s.server
                .put("model.safetensors.index.json", index.as_bytes());
        });
        assert!(
            text.contains("model.safetensors.index.json") && text.contains("evil")
                || text.contains("a//b"),
            "{text}"
        );
    }
    let broken = refused(|s| {
        s.server.remove("model.safetensors");
        s.server.put("model.safetensors.index.json", b"{");
    });
    assert!(broken.contains("not a weight index"), "{broken}");
}

#[test]
fn settings_that_cannot_be() {
    let setup = setup();
    for endpoint in ["", "huggingface.co", "ftp://x", "https://", "http://a b"] {
        let mut config = setup.config.clone();
        config.endpoint = endpoint.to_owned();
        let text = Hub::new(config).expect_err(endpoint).to_string();
        assert!(text.starts_with("HF_ENDPOINT: "), "{text}");
    }
    let mut config = setup.config.clone();
    config.token = Some("two\nlines".to_owned());
    let text = Hub::new(config).expect_err("a token").to_string();
    assert!(
        text.starts_with("HF_TOKEN: ") && !text.contains("two"),
        "{text}"
    );
}

#[test]
fn a_cache_that_cannot_be_written() {
    let mut setup = setup();
    std::fs::write(&setup.config.cache, b"a file").expect("written");
    let error = setup.fetch(REPO).expect_err("no folder");
    assert!(matches!(error, HubError::Io { .. }), "{error}");
    assert!(error.to_string().contains("hub"), "{error}");
    setup.config.cache = setup.config.cache.join("below");
    assert_eq!(setup.hub().cached(), []);
}

#[test]
fn a_fault_can_be_told_from_another() {
    let setup = setup();
    setup.server.trick("revision", 1, Trick::Status(503, ""));
    let error = setup.fetch(REPO).expect_err("busy");
    assert_eq!(error.request_error(), Some(&RequestError::Status(503)));
}
