//! A signal ends a run with what is there.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::run::{Place, Ran};

#[test]
fn the_first_signal_ends_the_run_with_a_summary_and_says_how_to_go_on() {
    for (signal, code) in [
        (Signal::INT, 130),
        (Signal::TERM, 143),
        (Signal::HUP, 129),
        (Signal::QUIT, 131),
    ] {
        ends_with_what_it_has(signal, code);
    }
}

fn ends_with_what_it_has(signal: Signal, expected: i32) {
    let place = Place::new();
    let problems = place.run(&["problems", "--count", "20"]).ok().stdout;
    place.write("p.jsonl", problems);
    let args = ["solve", "p.jsonl", "--out", "run.jsonl", "--in-flight", "2"];
    let args_json = [&args[..], &["--json"]].concat();
    let Ran {
        code,
        stdout,
        stderr,
    } = place.interrupted(signal, &args_json, "run.jsonl", 2);
    assert_eq!(code, Some(expected), "{stderr}");
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
        !problems.is_empty() && problems.len() < 20,
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
    assert_eq!(summary["summary"]["problems"], 20);
    assert!(summary["summary"].get("interrupted").is_none());
}

/// `nohup` has SIGHUP ignored.
#[test]
fn a_signal_that_is_ignored_ends_nothing() {
    let place = Place::new();
    let problems = place.run(&["problems", "--count", "30"]).ok().stdout;
    place.write("p.jsonl", problems);
    let inner = place.listening(&["solve", "p.jsonl", "--out", "run.jsonl", "--json"]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]);
    // Without `env`, which would have the signal heeded again.
    let binary = inner.get_args().skip(1);
    command.args(binary).current_dir(place.path(""));
    let mut child = command.stdout(Stdio::null()).spawn().expect("it starts");
    let lines =
        || std::fs::read_to_string(place.path("run.jsonl")).map_or(0, |t| t.lines().count());
    while lines() < 2 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), Signal::HUP).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!(lines(), 31);
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
    } = place.interrupted(Signal::INT, &args_json, "run.jsonl", 1);
    assert_eq!(code, Some(130), "{stderr}");
    assert!(stderr.contains("after 0 of 40 problems"), "{stderr}");
    let summary: Value = serde_json::from_str(stdout.trim()).expect("the summary alone");
    assert_eq!(summary["summary"]["problems"], 0);
    assert_eq!(
        place.read("run.jsonl").lines().count(),
        1,
        "the header alone"
    );
}
