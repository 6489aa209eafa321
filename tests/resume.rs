//! A killed run continues where it was: no finished problem is lost, none is done twice.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::run::Place;

const RUN: [&str; 6] = [
    "solve",
    "--limit",
    "40",
    "--out",
    "run.jsonl",
    "--in-flight",
];

fn records(text: &str) -> BTreeMap<String, Value> {
    let mut by_id = BTreeMap::new();
    for line in text.lines().skip(1) {
        let record: Value = serde_json::from_str(line).expect("whole lines only");
        let id = record["id"].as_str().expect("an id").to_owned();
        assert!(by_id.insert(id, record).is_none(), "a problem twice");
    }
    by_id
}

fn whole_lines(text: &str) -> &str {
    &text[..text.rfind('\n').map_or(0, |at| at + 1)]
}

fn without_seconds(mut record: Value) -> Value {
    record["ledger"]
        .as_object_mut()
        .expect("a ledger")
        .retain(|key, _| !key.ends_with("seconds"));
    record
}

#[test]
fn kill_minus_nine_then_resume() {
    let place = Place::new();
    let args = [&RUN[..], &["2"]].concat();
    let mut child = place
        .command(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let path = place.path("run.jsonl");
    let started = Instant::now();
    loop {
        let lines = std::fs::read_to_string(&path).map_or(0, |text| text.lines().count());
        let ended = child.try_wait().expect("a child").is_some();
        assert!(
            !ended,
            "the run ended before it could be killed: give it more problems"
        );
        if lines > 4 {
            break;
        }
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "no line was written"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("a child");

    // Whatever the kill left, let there be a torn line too.
    let mut left = place.read("run.jsonl");
    let finished = records(whole_lines(&left));
    left.push_str("{\"id\": \"torn\", \"answ");
    place.write("run.jsonl", &left);

    let ran = place
        .run(&[&args[..], &["--resume", "--json"]].concat())
        .ok();
    let all = records(&place.read("run.jsonl"));
    assert_eq!(all.len(), 40);
    for (id, record) in &finished {
        assert_eq!(all.get(id), Some(record), "problem {id} was kept as it was");
    }
    let lines = ran.json();
    assert_eq!(
        lines.len(),
        40 - finished.len() + 1,
        "only what was missing is solved"
    );
    assert_eq!(lines.last().expect("a summary")["summary"]["problems"], 40);

    // The pieces are what one uninterrupted run gives.
    let whole = Place::new();
    whole.run(&[&RUN[..], &["16"]].concat()).ok();
    for (id, record) in records(&whole.read("run.jsonl")) {
        assert_eq!(
            without_seconds(all[&id].clone()),
            without_seconds(record),
            "problem {id}"
        );
    }
}

#[test]
fn a_finished_run_resumes_to_nothing_and_a_longer_one_to_the_rest() {
    let place = Place::new();
    let solve = |limit: &str| {
        let args = [
            "solve",
            "--limit",
            limit,
            "--out",
            "run.jsonl",
            "--resume",
            "--json",
        ];
        place.run(&args).ok().json().len() - 1
    };
    assert_eq!(solve("3"), 3);
    assert_eq!(solve("3"), 0);
    assert_eq!(solve("5"), 2);
}

/// The summary tells the costs of a call from those that the file held before.
#[test]
fn the_costs_of_a_resumed_run_are_told_apart() {
    let place = Place::new();
    let solve = |limit: &str, more: &[&str]| {
        let run = ["solve", "--limit", limit, "--out", "run.jsonl", "--resume"];
        place.run(&[&run[..], more].concat()).ok()
    };
    let summary = |limit: &str| solve(limit, &["--json"]).json().pop().expect("a summary");
    let first = summary("3");
    assert!(first["summary"].get("before").is_none(), "{first}");
    let more = summary("5");
    assert_eq!(more["summary"]["problems"], 5);
    assert_eq!(more["summary"]["before"]["problems"], 3);
    let tokens = |of: &Value| of["ledger"]["generated_tokens"].as_u64().expect("a count");
    let before = &more["summary"]["before"];
    assert_eq!(
        tokens(before),
        tokens(&first["summary"]),
        "tokens are shared by no two problems"
    );
    let all: u64 = records(&place.read("run.jsonl")).values().map(tokens).sum();
    assert_eq!(tokens(&more["summary"]) + tokens(before), all);
    let none = summary("5");
    assert_eq!(none["summary"]["ledger"]["forward_passes"], 0);
    assert_eq!(tokens(&none["summary"]["before"]), all);
    let told = solve("5", &[]).stdout;
    assert!(
        told.contains("5 of 5 problems were finished before"),
        "{told}"
    );
    assert!(
        told.contains("nothing was left to do") && !told.contains("forward passes"),
        "{told}"
    );
}

#[test]
fn another_run_is_not_continued() {
    let place = Place::new();
    place
        .run(&["solve", "--limit", "2", "--out", "run.jsonl"])
        .ok();
    let before = place.read("run.jsonl");
    place.write(
        "other.jsonl",
        "{\"problem\": \"Mia has 3 pens. How many pens does Mia have?\"}\n",
    );
    let cases: &[(&[&str], &[&str])] = &[
        (&["--limit", "2"], &["run.jsonl", "exists", "--resume"]),
        (
            &["--limit", "2", "--resume", "-n", "8"],
            &["run.jsonl:1:", "search.n", "16", "8"],
        ),
        (
            &["--limit", "2", "--resume", "--seed", "9"],
            &["run.jsonl:1:", "seed"],
        ),
        (
            &["--limit", "2", "--resume", "--scorer", "orm"],
            &["run.jsonl:1:", "scorer"],
        ),
        (&["other.jsonl", "--resume"], &["run.jsonl:1:", "problems"]),
    ];
    for (args, words) in cases {
        let args = [&["solve", "--out", "run.jsonl"], *args].concat();
        place.run(&args).assert_refused(&args.join(" "), words);
        assert_eq!(place.read("run.jsonl"), before, "the file is left alone");
    }
}

/// The settings that a build of November 2026 wrote into the header of a run with the defaults. A key
/// that is younger may stand in a header only if it was set.
const EARLIER: &str = r#####"{
    "search": {"strategy": "beam", "choose": "weighted", "n": 16, "m": 4, "aggregation": "min", "max_steps": 40,
        "budget_tokens": 0, "threshold": 0.0, "consensus": false, "early_rejection": 0, "speculate": false,
        "refine": {"rounds": 2}, "lookahead": {"steps": 1}, "variable_granularity": {"granularity": 2},
        "rebase": {"temperature": 0.20000000298023224, "balance": "fair"}, "particle": {"temperature": 1.0},
        "mcts": {"simulations": 0, "exploration": 1.25, "virtual_loss": 1.0},
        "speculative_rejection": {"memory_tokens": 0, "fraction": 0.5}},
    "generator": {"sampling": {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0},
        "seed": 0, "max_step_tokens": 256, "max_chain_tokens": 2048, "step_tokens": 0, "boundaries": ["\n"], "starts": [],
        "answer_markers": ["The answer is", "\\boxed{", "####"], "system_prompt": null, "date": null}
}"#####;

/// Builds before there were problem texts and answers in run files wrote these fields only.
#[test]
fn a_run_file_of_an_older_build_resumes() {
    let place = Place::new();
    let solve = |limit: &str, extra: &[&str]| {
        let args = ["solve", "--limit", limit, "--out", "run.jsonl", "--json"];
        place.run(&[&args[..], extra].concat()).ok().json()
    };
    solve("3", &[]);
    let text = place.read("run.jsonl");
    let (header, records) = text.split_once('\n').expect("a header");
    let mut header: Value = serde_json::from_str(header).expect("JSON");
    let earlier: Value = serde_json::from_str(EARLIER).expect("JSON");
    for (part, settings) in earlier.as_object().expect("an object") {
        header["settings"][part] = settings.clone();
    }
    let mut old = format!("{header}\n");
    for line in records.lines() {
        let mut record: Value = serde_json::from_str(line).expect("JSON");
        let object = record.as_object_mut().expect("an object");
        object.retain(|key, _| !["problem", "reference", "answers"].contains(&key.as_str()));
        old.push_str(&format!("{record}\n"));
    }
    place.write("run.jsonl", &old);
    let lines = solve("4", &["--resume"]);
    assert_eq!(lines.len(), 2, "one problem is new");
    assert_eq!(lines[1]["summary"]["problems"], 4);
    assert!(place.read("run.jsonl").starts_with(&old), "old lines stay");
    place.run(&["show", "run.jsonl"]).ok();
}

/// Too little memory costs chains; a later call with enough of it makes the result good.
#[test]
fn what_memory_cost_is_said_marked_and_tried_again() {
    let place = Place::new();
    let solve = ["solve", "--limit", "6", "-n", "16", "--json"];
    let short = ["--out", "r.jsonl", "--kv-memory", "1500KiB"];
    let ran = place.run(&[&solve[..], &short].concat()).ok();
    let summary = ran.json().pop().expect("a summary");
    let limited = summary["summary"]["memory_limited"].as_u64();
    assert!(limited.is_some_and(|count| count > 0), "{summary}");
    assert!(
        ran.stderr.contains("lost chains because memory was short"),
        "{}",
        ran.stderr
    );
    let header: Value =
        serde_json::from_str(place.read("r.jsonl").lines().next().expect("a header")).unwrap();
    assert!(
        header["effective"]["kv_bytes"]
            .as_u64()
            .is_some_and(|bytes| bytes < 1_600_000)
    );
    assert_ne!(header["effective"]["isa"], "auto");

    let again = place
        .run(&[&solve[..], &["--out", "r.jsonl", "--resume"]].concat())
        .ok();
    assert!(again.stderr.contains("note: trying "), "{}", again.stderr);
    let fresh = place
        .run(&[&solve[..], &["--out", "fresh.jsonl"]].concat())
        .ok();
    let last = |name: &str| {
        let text = place.read(name);
        let lines = text.lines().skip(1).map(|line| {
            let record: Value = serde_json::from_str(line).expect("JSON");
            (record["id"].to_string(), without_seconds(record))
        });
        lines.collect::<BTreeMap<_, _>>()
    };
    let answers = |name: &str| -> Vec<(Value, Value)> {
        let records = last(name).into_values();
        records
            .map(|r| (r["answer"].clone(), r["steps"].clone()))
            .collect()
    };
    assert_eq!(answers("r.jsonl"), answers("fresh.jsonl"));
    let summary = again.json().pop().expect("a summary");
    assert_eq!(summary["summary"]["memory_limited"], 0);
    assert_eq!(fresh.code, Some(0));
}

/// A checker that fails costs verdicts; a later call with one that works makes the results good.
#[test]
fn what_a_checker_cost_is_said_marked_and_tried_again() {
    let place = Place::new();
    let checker = r#"test -e mended || exit 3; exec sed -u 's/^{"id":\([0-9]*\).*/{"id":\1,"verdict":"fail"}/'"#;
    let solve = ["solve", "--limit", "4", "-n", "4", "--json"];
    let checked = ["--checker-command", checker];
    let solve = [&solve[..], &checked].concat();
    let ran = place
        .run(&[&solve[..], &["--out", "r.jsonl"]].concat())
        .ok();
    let mut records = ran.json();
    let summary = records.pop().expect("a summary");
    let lost = |record: &Value| record["lost_verdicts"].as_u64().unwrap_or_default();
    assert!(records.len() == 4 && records.iter().all(|record| lost(record) > 0));
    assert_eq!(summary["summary"]["checker_limited"], 4);
    assert!(
        ran.stderr.contains("4 problems lost verdicts"),
        "{}",
        ran.stderr
    );
    let all: u64 = records.iter().map(lost).sum();
    assert!(
        ran.stderr.contains(&format!(": {all} verdicts missing")),
        "{}",
        ran.stderr
    );
    let text = place.read("r.jsonl");
    let kept = text
        .lines()
        .skip(1)
        .map(|line| lost(&serde_json::from_str(line).expect("JSON")));
    assert_eq!(kept.sum::<u64>(), all);

    place.write("mended", "");
    let again = place
        .run(&[&solve[..], &["--out", "r.jsonl", "--resume"]].concat())
        .ok();
    assert!(again.stderr.contains("4 problems"), "{}", again.stderr);
    let fresh = place
        .run(&[&solve[..], &["--out", "fresh.jsonl"]].concat())
        .ok();
    let results = |name: &str| -> BTreeMap<String, [Value; 5]> {
        let text = place.read(name);
        let records = text.lines().skip(1).map(|line| {
            let record: Value = serde_json::from_str(line).expect("JSON");
            let keys = ["answer", "score", "steps", "answers", "lost_verdicts"];
            (
                record["id"].to_string(),
                keys.map(|key| record[key].clone()),
            )
        });
        records.collect()
    };
    assert_eq!(results("r.jsonl"), results("fresh.jsonl"));
    // What is checked differs from what was not.
    let other =
        |record: &Value| results("fresh.jsonl")[&record["id"].to_string()][1] != record["score"];
    assert!(records.iter().all(other));
    for ran in [again, fresh] {
        let summary = ran.json().pop().expect("a summary");
        assert_eq!(summary["summary"]["checker_limited"], 0);
    }
    // Nothing is left to try again.
    let done = place
        .run(&[&solve[..], &["--out", "r.jsonl", "--resume"]].concat())
        .ok();
    assert_eq!(done.json().len(), 1, "the summary alone");
}

/// A record belongs to the problem whose text it has.
#[test]
fn edited_records_are_refused_by_their_line() {
    let place = Place::new();
    let args = ["solve", "--limit", "3", "-n", "4", "--out", "run.jsonl"];
    place.run(&args).ok();
    let whole = place.read("run.jsonl");
    let resume = || place.run(&[&args[..], &["--resume"]].concat());
    let edit = |edit: &dyn Fn(&mut [Value])| {
        let lines = whole.lines();
        let mut lines: Vec<Value> = lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        edit(&mut lines);
        let lines = lines.iter().map(|line| format!("{line}\n"));
        place.write("run.jsonl", lines.collect::<String>());
    };
    edit(&|_| ());
    resume().ok();
    edit(&|lines| lines[2]["problem"] = "What is 1 + 1?".into());
    resume().assert_refused("another text", &["run.jsonl:3:", "\"problem\""]);
    edit(&|lines| lines[3]["id"] = "nobody".into());
    resume().assert_refused("an unknown id", &["run.jsonl:4:", "\"id\"", "nobody"]);
    edit(&|lines| {
        let first = lines[1]["id"].take();
        lines[1]["id"] = std::mem::replace(&mut lines[2]["id"], first);
    });
    resume().assert_refused("swapped ids", &["run.jsonl:2:", "\"problem\""]);
}
