//! `beamgen show --html`: a page in one file that holds whatever models write.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::run::Place;
use crate::verifiers::EVEN;

/// A text that would end its script or attribute in a page if it were not escaped.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)><!--<script>\u{202e}\"'&amp;";

/// The parts of `page` between `from` and `to`.
fn between<'a>(page: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    let parts = page.split(from).skip(1);
    parts
        .map(|part| part.split(to).next().expect("an end"))
        .collect()
}

fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

/// One file: its policy allows its own style and script by their hashes, and nothing else.
#[track_caller]
pub(crate) fn assert_self_contained(page: &str) {
    let policy = between(page, "content-security-policy\" content=\"", "\"");
    let [policy] = policy[..] else {
        panic!("{} policies", policy.len());
    };
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    let styles = between(page, "<style>", "</style>");
    assert_eq!(styles.len(), 1);
    assert!(
        policy.contains(&format!("style-src '{}'", hash(styles[0]))),
        "{policy}"
    );
    let scripts = between(page, "<script>", "</script>");
    assert!(scripts.len() <= 1, "{} scripts", scripts.len());
    match scripts.first() {
        Some(script) => assert!(
            policy.contains(&format!("script-src '{}'", hash(script))),
            "{policy}"
        ),
        None => assert!(!policy.contains("script-src"), "{policy}"),
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let data = page.matches("<script type=\"application/json\"").count();
    assert_eq!(page.matches("<script").count(), scripts.len() + data);
    for outside in [
        "http://",
        "https://",
        "<link rel=\"stylesheet",
        "@import",
        "url(",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    let markup = page.split("<script").next().expect("a beginning");
    for tag in between(&markup.to_lowercase(), "<", ">") {
        for attribute in [" onerror=", " onload=", " onclick=", " style="] {
            assert!(!tag.contains(attribute), "{tag}");
        }
    }
}

/// The JSON block of a page.
fn block(page: &str, id: &str) -> Value {
    let from = format!("<script type=\"application/json\" id=\"{id}\">");
    let text = between(page, &from, "</script>");
    serde_json::from_str(text.first().expect("the block")).expect("JSON")
}

/// The page of a run of the bundled problems, and the run's records.
fn page(more: &[&str]) -> (String, Vec<Value>) {
    let place = Place::new();
    let solve = [
        "solve",
        "--limit",
        "3",
        "-n",
        "8",
        "--out",
        "run.jsonl",
        "--quiet",
    ];
    place.run(&[&solve[..], more].concat()).ok();
    let shown = place.run(&["show", "run.jsonl", "--html", "out.html"]).ok();
    assert_eq!(shown.stdout, "");
    let text = place.read("run.jsonl");
    let records = text.lines().skip(1);
    let records = records.map(|line| serde_json::from_str(line).expect("JSON"));
    (place.read("out.html"), records.collect())
}

#[test]
fn a_page_is_one_file_with_every_step_of_every_search() {
    let (page, records) = page(&["--tree"]);
    assert_self_contained(&page);
    let run = block(&page, "run");
    for (at, record) in records.iter().enumerate() {
        let told = &run["problems"][at];
        for key in ["id", "problem", "reference", "answer", "finish"] {
            assert_eq!(told[key], record[key], "{key}");
        }
        let nodes = block(&page, &format!("nodes-{at}"));
        let tree = record["tree"].as_array().expect("a tree");
        assert_eq!(nodes.as_array().map(Vec::len), Some(tree.len()));
        for (node, wanted) in nodes.as_array().expect("nodes").iter().zip(tree) {
            for key in ["parent", "text", "score", "state", "pruned", "copies"] {
                assert_eq!(node[key], wanted[key], "{key}");
            }
            assert_eq!(
                node["tokens"],
                wanted["tokens"].as_array().map_or(0, Vec::len)
            );
        }
        assert_eq!(told["chosen"], record["answers"][0]["node"]);
    }
    let pruned = page.matches("\"reason\":\"not-chosen\"").count();
    assert!(pruned > 0, "pruned steps say why");
}

#[test]
fn a_page_has_the_words_of_the_verifier_and_not_the_reference() {
    let (page, records) = page(&["--verifier", EVEN]);
    let run = block(&page, "run");
    for (at, record) in records.iter().enumerate() {
        let told = &run["problems"][at];
        let words = match record["outcome"]["kind"].as_str() {
            Some("right") => "right",
            _ => "wrong, 0 of 1: it is odd",
        };
        assert_eq!(
            (&told["verified"], &told["reference"]),
            (&words.into(), &Value::Null)
        );
    }
    // The list of the page shows one of the two.
    assert!(page.contains("problem.verified ??"));
}

#[test]
fn a_page_of_a_run_without_trees_has_the_chosen_chains() {
    let (page, records) = page(&[]);
    assert_self_contained(&page);
    for (at, record) in records.iter().enumerate() {
        let nodes = block(&page, &format!("nodes-{at}"));
        let texts: Vec<&Value> = nodes.as_array().expect("nodes")[1..]
            .iter()
            .map(|node| &node["text"])
            .collect();
        let steps = record["steps"].as_array().expect("steps");
        let wanted: Vec<&Value> = steps.iter().map(|step| &step["text"]).collect();
        assert_eq!(texts, wanted);
    }
    assert_eq!(block(&page, "run")["problems"][0]["tree"], false);
}

#[test]
fn hostile_text_stays_text() {
    let place = Place::new();
    place
        .run(&[
            "solve",
            "--limit",
            "1",
            "-n",
            "4",
            "--out",
            "run.jsonl",
            "--tree",
            "--quiet",
        ])
        .ok();
    let text = place.read("run.jsonl");
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let mut header: Value = lines.next().expect("a header");
    let mut record: Value = lines.next().expect("a record");
    header["settings"]["search"]["strategy"] = json!(HOSTILE);
    for key in ["id", "problem", "reference", "answer"] {
        record[key] = json!(HOSTILE);
    }
    record["answers"][0]["answer"] = json!(HOSTILE);
    record["steps"][0]["text"] = json!(HOSTILE);
    for node in record["tree"].as_array_mut().expect("nodes") {
        node["text"] = json!(HOSTILE);
    }
    place.write("run <img src=x>.jsonl", format!("{header}\n{record}\n"));
    place
        .run(&["show", "run <img src=x>.jsonl", "--html", "out.html"])
        .ok();
    let page = place.read("out.html");
    assert_self_contained(&page);
    assert!(!page.contains("<img"), "no markup of others");
    assert_eq!(page.matches("<!--").count(), 0);
    assert_eq!(block(&page, "run")["problems"][0]["problem"], HOSTILE);
    assert_eq!(block(&page, "nodes-0")[1]["text"], HOSTILE);
}

#[test]
fn one_problem_has_a_page_and_unknown_ones_are_refused() {
    let place = Place::new();
    place
        .run(&[
            "solve",
            "--limit",
            "2",
            "-n",
            "4",
            "--out",
            "run.jsonl",
            "--quiet",
        ])
        .ok();
    let record: Value =
        serde_json::from_str(place.read("run.jsonl").lines().nth(2).expect("a record"))
            .expect("JSON");
    let id = record["id"].as_str().expect("an id");
    place
        .run(&["show", "run.jsonl", "--id", id, "--html", "one.html"])
        .ok();
    let problems = block(&place.read("one.html"), "run")["problems"].clone();
    assert_eq!(problems.as_array().map(Vec::len), Some(1));
    assert_eq!(problems[0]["id"], id);
    place
        .run(&["show", "run.jsonl", "--id", "nobody", "--html", "no.html"])
        .assert_refused("no such id", &["nobody"]);
    assert!(!place.path("no.html").exists());
}
