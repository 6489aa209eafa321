//! Ctrl-C ends a run with what is there.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::run::Place;

/// Runs the binary, presses Ctrl-C once its run file has so many lines, and gives exit code, stdout
/// and stderr.
fn interrupted(place: &Place, args: &[&str], lines: usize) -> (Option<i32>, String, String) {
    let child = place
        .command(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let path = place.path("run.jsonl");
    while std::fs::read_to_string(&path).map_or(0, |text| text.lines().count()) < lines {
        std::thread::sleep(Duration::from_millis(2));
    }
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn the_first_interrupt_ends_the_run_with_a_summary_and_says_how_to_go_on() {
    let place = Place::new();
    let problems = place.run(&["problems", "--count", "120"]).ok().stdout;
    place.write("p.jsonl", problems);
    let args = ["solve", "p.jsonl", "--out", "run.jsonl", "--in-flight", "2"];
    let (code, stdout, stderr) = interrupted(&place, &[&args[..], &["--json"]].concat(), 2);
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
    let (code, stdout, stderr) = interrupted(&place, &[&args[..], &["--json"]].concat(), 1);
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
