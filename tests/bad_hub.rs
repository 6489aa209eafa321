//! A hub that refuses, lies or goes away: one clear line, exit code 2, and a cache in which no
//! model looks whole that is not.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::run::{Place, Ran, root};
use crate::server::{REPO, Server, Trick, etag_of};

const WEIGHTS: &str = "model.safetensors";
const MODEL: &str = "tests/fixtures/prm/reference";

/// A hub with a tiny generator, and a folder with an empty cache.
fn hub() -> (Place, Server) {
    let place = Place::new();
    place.write("p.jsonl", "{\"problem\": \"What is 1 + 1?\"}\n");
    let server = Server::start();
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        server.put(name, &file(name));
    }
    server.put_large(WEIGHTS, &file(WEIGHTS));
    (place, server)
}

/// A file of the generator.
pub(crate) fn file(name: &str) -> Vec<u8> {
    std::fs::read(root().join(MODEL).join(name)).expect("a fixture")
}

fn solve(place: &Place, endpoint: &str, name: &str) -> Ran {
    online_solve(place, &[("HF_ENDPOINT", endpoint)], name)
}

/// Solves `p.jsonl` with a generator of the hub.
pub(crate) fn online_solve(place: &Place, variables: &[(&str, &str)], name: &str) -> Ran {
    let online = [variables, &[("HF_HUB_OFFLINE", "0")]].concat();
    let args = [
        "solve",
        "p.jsonl",
        "--scorer",
        "none",
        "--strategy",
        "greedy",
        "--json",
    ];
    let limit = ["--set", "generator.max_chain_tokens=8"];
    place.run_with(
        &online,
        &[&args[..], &limit, &["--generator", name]].concat(),
    )
}

/// The files below a folder of the cache.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let below = |path: PathBuf| {
        if path.is_dir() {
            below(&path)
        } else {
            vec![path]
        }
    };
    entries.flat_map(|entry| below(entry.path())).collect()
}

fn assert_nothing_whole(place: &Place, name: &str) {
    for repo in ["tiny", "other"] {
        let repo = place.path(&format!("hf/hub/models--org--{repo}"));
        let linked = below(&repo.join("snapshots"));
        assert!(linked.is_empty(), "{name}: {linked:?}");
        let blob = repo.join("blobs").join(etag_of(&file(WEIGHTS), true));
        assert!(!blob.exists(), "{name}: {}", blob.display());
    }
    // The next run without a network finds no model, not half of one.
    let args = ["solve", "p.jsonl", "--generator", REPO, "--prm", REPO];
    place
        .run(&args)
        .assert_refused(name, &[REPO, "offline", "not in the cache"]);
}

#[test]
fn a_model_is_downloaded_once() {
    let (place, server) = hub();
    let first = solve(&place, &server.endpoint, REPO).ok();
    assert!(server.seen().iter().any(|seen| seen.on_cdn));
    let again = solve(&place, &server.endpoint, REPO).ok();
    assert!(
        !server.seen().iter().any(|seen| seen.on_cdn),
        "downloaded twice"
    );
    let line = |ran: &Ran| {
        ran.stdout
            .lines()
            .next()
            .map(|line| line.split("\"ledger\"").next().map(str::to_owned))
    };
    assert_eq!(line(&first), line(&again));
}

#[test]
fn refusals() {
    type Trouble = fn(&Server);
    let cases: [(&str, Trouble, &[&str]); 9] = [
        (
            REPO,
            |s| s.trick("revision", 99, Trick::Status(401, "RepoNotFound")),
            &["(401)", "private", "HF_TOKEN"],
        ),
        (
            REPO,
            |s| s.trick("HEAD", 99, Trick::Status(403, "GatedRepo")),
            &["(403)", "licence", "HF_TOKEN"],
        ),
        (
            "org/other",
            |_| (),
            &["no such repository (404)", "check the name"],
        ),
        ("org/tiny@v9", |_| (), &["v9", "no such revision (404)"]),
        (
            REPO,
            |s| s.remove("tokenizer.json"),
            &["tokenizer.json", "no such file"],
        ),
        (
            REPO,
            |s| s.remove(WEIGHTS),
            &["no safetensors and no PyTorch weights"],
        ),
        (
            REPO,
            |s| s.trick("revision", 99, Trick::Body("<html>")),
            &["not a response of a Hugging Face hub", "HF_ENDPOINT"],
        ),
        (
            REPO,
            |s| {
                let size = "9000000000000000000".to_owned();
                s.trick("HEAD", 99, Trick::Header("X-Linked-Size", size));
            },
            &["free", "HF_HOME"],
        ),
        (
            "org/tiny:Q4_K_M",
            |s| s.put_large("tiny.Q8_0.gguf", b"x"),
            &["no GGUF file is of Q4_K_M", "tiny.Q8_0.gguf"],
        ),
    ];
    for (name, trouble, words) in cases {
        let (place, server) = hub();
        trouble(&server);
        let repo = name.split(['@', ':']).next().expect("a name");
        // A full disk is not the hub's fault.
        let endpoint = if words.contains(&"HF_HOME") {
            "tiny"
        } else {
            &server.endpoint
        };
        let repo = repo.rsplit('/').next().expect("a name");
        let words = [&[repo, endpoint], words].concat();
        solve(&place, &server.endpoint, name).assert_refused(name, &words);
        assert_nothing_whole(&place, name);
    }
}

#[test]
fn files_that_arrive_damaged() {
    for (trick, words) in [
        (Trick::Damaged, ["damaged", "SHA-256"]),
        (Trick::Longer(9), ["promised", "nothing was kept"]),
    ] {
        let (place, server) = hub();
        server.trick("GET /store", 99, trick);
        let ran = solve(&place, &server.endpoint, REPO);
        ran.assert_refused(WEIGHTS, &[&[REPO, WEIGHTS], &words[..]].concat());
        assert_nothing_whole(&place, WEIGHTS);
    }
}

/// An interrupted download keeps its bytes, and the next run resumes after them.
#[test]
fn a_download_that_breaks_off() {
    let (place, server) = hub();
    server.trick("GET /store", 1, Trick::Cut(5000));
    server.trick("GET /store", 99, Trick::Cut(0));
    let ran = solve(&place, &server.endpoint, REPO);
    ran.assert_refused("cut", &[REPO, WEIGHTS, "broke off at 5000", "run again"]);
    assert_nothing_whole(&place, "cut");
    let (_, whole) = hub();
    solve(&place, &whole.endpoint, REPO).ok();
    let ranges: Vec<_> = whole
        .seen()
        .into_iter()
        .filter_map(|seen| seen.range)
        .collect();
    assert!(
        ranges.iter().any(|range| range.starts_with("bytes=5000")),
        "{ranges:?}"
    );
}

/// The address of a model's page is its name, too, and a limit of requests is waited for.
#[test]
fn a_busy_hub_by_the_address_of_a_page() {
    let (place, server) = hub();
    let limit = "\"api\";r=0;t=0".to_owned();
    server.trick("revision", 1, Trick::Limited("RateLimit", limit));
    let page = format!("{}/{REPO}/tree/branch", server.endpoint);
    let ran = solve(&place, &server.endpoint, &page).ok();
    let line = "org/tiny@branch: the hub limits requests; trying again in 1 s";
    let said = ran.stderr.lines().filter(|said| *said == line);
    assert_eq!(said.count(), 1, "{}", ran.stderr);
    let other = solve(&place, &server.endpoint, "https://example.org/org/tiny");
    other.assert_refused("other", &["https://example.org", &server.endpoint]);
}

#[test]
fn a_time_limit_that_is_none() {
    let (place, server) = hub();
    for name in ["HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT"] {
        let variables = [("HF_ENDPOINT", server.endpoint.as_str()), (name, "soon")];
        let ran = online_solve(&place, &variables, REPO);
        ran.assert_refused(name, &[name, "\"soon\"", "whole seconds"]);
    }
}

#[test]
fn nobody_at_the_endpoint() {
    let (place, _) = hub();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    let endpoint = format!("http://{}", port.expect("a port"));
    let ran = solve(&place, &endpoint, REPO);
    ran.assert_refused(
        "closed",
        &[REPO, &endpoint, "cannot be reached", "HF_ENDPOINT"],
    );
    assert_nothing_whole(&place, "closed");
}
