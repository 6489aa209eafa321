//! Ctrl-C ends a run with what is there.

use serde_json::Value;

use crate::run::{Place, Ran};

#[test]
fn the_first_interrupt_ends_the_run_with_a_summary_and_says_how_to_go_on() {
    let place = Place::new();
    let problems = place.run(&["problems", "--count", "120"]).ok().stdout;
    place.write("p.jsonl", problems);
    let args = ["solve", "p.jsonl", "--out", "run.jsonl", "--in-flight", "2"];
    let args_json = [&args[..], &["--json"]].concat();
    let Ran {
        code,
        stdout,
        stderr,
    } = place.interrupted(&args_json, "run.jsonl", 2);
    assert_eq!(code, Some(130), "{stderr}");
    assert!(
        stderr.contains("interrupted") && stderr.contains("--resume"),
        "{stderr}"
    );
    let lines: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let (summary, problems) = lines.split_last().expect("a summary");
    assert_eq!(summary["summary"]["interrupted"], true);
    assert_eq!(summary["summary"]["problems"], problems.len());
    assert!(
        !problems.is_empty() && problems.len() < 120,
        "{}",
        problems.len()
    );
    // What is printed is what the run file has, and nothing of what was not finished.
    let file = place.read("run.jsonl");
    assert_eq!(file.lines().count(), 1 + problems.len());

    let ran = place
        .run(&[&args[..], &["--resume", "--json"]].concat())
        .ok();
    let summary = ran.json().pop().expect("a summary");
    assert_eq!(summary["summary"]["problems"], 120);
    assert!(summary["summary"].get("interrupted").is_none());
}

/// The search of one problem with so many chains takes far longer than it takes to press Ctrl-C.
#[test]
fn an_interrupt_acts_within_a_problem() {
    let place = Place::new();
    let args = [
        "solve",
        "-n",
        "1024",
        "--out",
        "run.jsonl",
        "--in-flight",
        "1",
    ];
    let args_json = [&args[..], &["--json"]].concat();
    let Ran {
        code,
        stdout,
        stderr,
    } = place.interrupted(&args_json, "run.jsonl", 1);
    assert_eq!(code, Some(130), "{stderr}");
    assert!(stderr.contains("0 of 40 problems are done"), "{stderr}");
    let summary: Value = serde_json::from_str(stdout.trim()).expect("the summary alone");
    assert_eq!(summary["summary"]["problems"], 0);
    assert_eq!(
        place.read("run.jsonl").lines().count(),
        1,
        "the header alone"
    );
}
