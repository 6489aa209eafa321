//! The reader of a pipe may leave when it likes.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::run::Place;

#[test]
fn a_closed_pipe_is_no_panic() {
    for args in [
        &["solve", "--json"][..],
        &["solve"],
        &["--help"],
        &["bench", "--limit", "4", "--n", "4"],
    ] {
        let place = Place::new();
        let mut child = place
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        stdout.read_line(&mut String::new()).expect("a line");
        drop(stdout);
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut stderr)
            .expect("UTF-8");
        let code = child.wait().expect("a child").code();
        assert!(
            !stderr.contains("panicked") && !stderr.contains("beamgen:"),
            "{args:?}: {stderr}"
        );
        assert_eq!(code, Some(0), "{args:?}: {stderr}");
    }
}

/// If a message cannot be written to stderr, the exit code stays the same.
#[test]
fn a_closed_stderr_is_no_panic() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let place = Place::new();
    let mut command = place.command(&["solve", "none.jsonl"]);
    let status = command.stderr(writer).status().expect("the binary starts");
    assert_eq!(status.code(), Some(2));
}

#[test]
fn what_is_piped_has_no_colours_and_no_bars() {
    let place = Place::new();
    let ran = place.run(&["solve", "--limit", "3"]).ok();
    assert!(
        !ran.stdout.contains('\x1b') && !ran.stderr.contains('\x1b'),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    let ran = place
        .run(&["solve", "--limit", "3", "--color", "always"])
        .ok();
    assert!(ran.stdout.contains('\x1b'));
}

/// `beamgen solve --out run.jsonl | head -1`: the run file is still written to its end.
#[test]
fn a_run_file_is_finished_when_the_reader_leaves() {
    let place = Place::new();
    // All 40 problems one by one, so that many are left to print when the reader leaves.
    let args = ["solve", "--in-flight", "1", "--out", "run.jsonl", "--json"];
    let mut child = place
        .command(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut String::new()).expect("a line");
    drop(stdout);
    let output = child.wait_with_output().expect("a child");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("the run continues"), "{stderr}");
    assert_eq!(place.read("run.jsonl").lines().count(), 1 + 40);
}

/// Results that go to a removed file are lost with the process.
#[cfg(unix)]
#[test]
fn a_removed_run_file_ends_the_run() {
    let place = Place::new();
    let args = ["solve", "--in-flight", "1", "--out", "run.jsonl", "--json"];
    let mut child = place
        .command(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut String::new()).expect("a line");
    std::fs::remove_file(place.path("run.jsonl")).expect("removed");
    stdout.read_to_string(&mut String::new()).expect("UTF-8");
    let output = child.wait_with_output().expect("a child");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("run.jsonl: was removed"), "{stderr}");
}
