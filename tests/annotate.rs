//! `beamgen annotate`: in the terminal, and what its page's server answers.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::run::{Place, Ran};

/// A place with two chains.
fn place() -> Place {
    let place = Place::new();
    let chains = [
        json!({"problem": "3 times 4?", "steps": ["3 * 4 = 12.", "So 12."], "labels": [1, 1]}),
        json!({"problem": "6 and 6?", "steps": ["6 + 6 = 11.", "So 11."], "labels": [0, 0]}),
    ];
    let lines: Vec<String> = chains.iter().map(Value::to_string).collect();
    place.write("chains.jsonl", lines.join("\n"));
    place
}

/// Rates in the terminal, with lines for keys.
fn rate(place: &Place, rater: &str, more: &[&str], typed: &str) -> Ran {
    let own = [
        "annotate",
        "chains.jsonl",
        "--out",
        "rated.jsonl",
        "--terminal",
    ];
    let mut child = place
        .command(&[&own[..], &["--rater", rater], more].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A call that is refused reads nothing.
    let _ = stdin.write_all(typed.as_bytes());
    drop(stdin);
    Ran::of(child.wait_with_output().expect("the binary ends"))
}

fn facts(place: &Place) -> Value {
    let stat = place.run(&["labels", "stat", "rated.jsonl", "--json"]);
    stat.ok().json().remove(0)["facts"].take()
}

#[test]
fn steps_are_rated_in_the_terminal_and_the_file_goes_on() {
    let place = place();
    let ran = rate(&place, "anna", &[], "1\nc 12 is right\nx\nq\n").ok();
    assert!(
        ran.stdout.contains("> [+]") || ran.stdout.contains("  [+] 1. 3 * 4"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains("0 of 2 chains done"), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 right, 0 neutral"), "{}", ran.stderr);
    let before = place.read("rated.jsonl");
    let ran = rate(&place, "anna", &[], "1\n-1\n").ok();
    assert!(ran.stderr.contains("2 of 2 chains done"), "{}", ran.stderr);
    assert!(place.read("rated.jsonl").starts_with(&before));
    // Going through wants the step after the wrong one.
    let ran = rate(&place, "anna", &["--through"], "").ok();
    assert!(ran.stderr.contains("1 of 2 chains done"), "{}", ran.stderr);
    rate(&place, "ben", &[], "1\n1\nright\nleft\ndown\n0\nu\n").ok();
    assert_eq!(
        facts(&place),
        json!({"rating by anna": 3, "comment by anna": 1, "rating by ben": 2, "right or wrong": 4})
    );
    let lines = place.read("rated.jsonl");
    let last: Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    // What was undone has the rating of before.
    assert_eq!(
        (&last["rater"], &last["step"], &last["rating"]),
        (&json!("ben"), &json!(1), &json!(1))
    );
    // Labels are those of the people, then those that were there.
    let convert = [
        "labels",
        "convert",
        "rated.jsonl",
        "--to",
        "trl",
        "--out",
        "-",
    ];
    let chains = place.run(&convert).ok().json();
    assert_eq!(chains[0]["labels"], json!([true, true]));
    assert_eq!(chains[1]["labels"], json!([false, false]));
}

#[test]
fn chains_without_labels_are_rated_too() {
    let place = Place::new();
    place.write("chains.jsonl", r#"{"problem": "1 + 1?", "steps": ["2"]}"#);
    rate(&place, "anna", &[], "0\n").ok();
    assert_eq!(facts(&place), json!({"rating by anna": 1}));
}

#[test]
fn what_cannot_be_rated_is_refused() {
    let place = place();
    let refused = |more: &[&str], told: &[&str]| {
        rate(&place, "anna", more, "1\n").assert_refused(&more.join(" "), told);
        assert!(!place.path("rated.jsonl").exists() || place.read("rated.jsonl").is_empty());
    };
    refused(&["--order", "unsure"], &["unsure", "judge"]);
    refused(&["--order", "apart"], &["apart", "rollouts"]);
    refused(&["--order", "best"], &["--order", "convincing"]);
    rate(&place, " ", &[], "1\n").assert_refused("no name", &["--rater", "rater's name"]);
    place.write("rated.jsonl", "{\"a\": 1}\n");
    rate(&place, "anna", &[], "1\n").assert_refused("other things", &["rated.jsonl:1:"]);
    assert_eq!(place.read("rated.jsonl"), "{\"a\": 1}\n");
    let over = [
        "annotate",
        "chains.jsonl",
        "--out",
        "chains.jsonl",
        "--rater",
        "anna",
    ];
    place
        .run(&over)
        .assert_refused("over the input", &["chains.jsonl", "is an input, too"]);
    let none = [
        "annotate",
        "none.jsonl",
        "--out",
        "rated.jsonl",
        "--rater",
        "anna",
    ];
    place.run(&none).assert_refused("no file", &["none.jsonl"]);
}

#[cfg(feature = "serve")]
#[test]
fn the_page_answers_its_own_address_alone() {
    use std::io::{BufRead, BufReader};

    let place = place();
    let own = [
        "annotate",
        "chains.jsonl",
        "--out",
        "rated.jsonl",
        "--rater",
        "anna",
    ];
    let mut child = place
        .command(&own)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let line = lines.find_map(|line| line.ok().filter(|line| line.contains("http://")));
    let line = line.expect("an address");
    let url = &line[line.find("http://").expect("an address")..];
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let agent: ureq::Agent = config.build().into();
    let mut page = agent.get(url).call().expect("a page");
    let policy = page.headers()["content-security-policy"]
        .to_str()
        .expect("text");
    assert!(
        policy.contains("default-src 'none'") && policy.contains("script-src 'sha256-"),
        "{policy}"
    );
    let html = page.body_mut().read_to_string().expect("text");
    assert!(html.contains("Rate the steps"));
    let root = &url[..url[7..].find('/').expect("a path") + 8];
    for other in ["", "act", "0123456789abcdef0123456789abcdef/"] {
        let reply = agent
            .get(format!("{root}{other}"))
            .call()
            .expect("an answer");
        assert_eq!(reply.status(), 404, "{other}");
    }
    let post = |kind: &str, body: &str| {
        let reply = agent
            .post(format!("{url}act"))
            .content_type(kind)
            .send(body);
        let mut reply = reply.expect("an answer");
        let text = reply.body_mut().read_to_string().expect("text");
        (reply.status().as_u16(), text)
    };
    let (status, text) = post("application/json", r#"[{"do": "rate", "rating": -1}]"#);
    let view: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (status, &view["chain"], &view["done"]),
        (200, &json!(1), &json!(1))
    );
    // Another site cannot send this kind without asking first.
    assert_eq!(post("text/plain", r#"[{"do": "undo"}]"#).0, 415);
    for (acts, told) in [
        (r#"[{"do": "rate", "rating": 3}]"#, "invalid rating 3"),
        (r#"[{"do": "sing"}]"#, "sing"),
        (r#"[{"do": "go", "chain": 7}]"#, "chain 7"),
    ] {
        let (status, text) = post("application/json", acts);
        assert!(status == 400 && text.contains(told), "{status} {text}");
    }
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it is ours");
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(child.wait().expect("it ends").success());
    assert!(
        rest.iter().any(|line| line.contains("1 of 2 chains done")),
        "{rest:?}"
    );
    assert_eq!(facts(&place)["rating by anna"], 1);
}
