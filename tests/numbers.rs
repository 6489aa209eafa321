//! Numbers that nobody can mean: one line, or simply done, at once.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::run::Place;

const HUGE: &str = "18446744073709551615";

#[test]
fn counts_that_no_machine_has_are_refused() {
    let place = Place::new();
    let nested = format!("{}=1", vec!["a"; 60_000].join("."));
    let value = format!("search.n={}", "[".repeat(60_000));
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["solve", "--threads", "65536"],
            &["threads", "at most 1024"],
        ),
        (&["solve", "--threads", HUGE], &["threads", "at most 1024"]),
        (
            &["bench-engine", "--threads", HUGE],
            &["threads", "at most 1024"],
        ),
        (&["score", "none.jsonl", "--threads", HUGE], &["none.jsonl"]),
        (&["solve", "-n", "65537"], &["n = 65537", "at most 65536"]),
        (&["solve", "-n", HUGE], &["at most 65536"]),
        (
            &[
                "solve",
                "--strategy",
                "mcts",
                "--set",
                "search.mcts.simulations=4000000000",
            ],
            &["mcts.simulations", "at most 1000000"],
        ),
        (
            &[
                "solve",
                "--strategy",
                "refine",
                "--set",
                "search.refine.rounds=4000000000",
            ],
            &["refine.rounds", "at most 1000"],
        ),
        (&["solve", "--set", &nested], &["--set a.a.a", "8 parts"]),
        (
            &["solve", "--set", &value],
            &["--set search.n=[", "whole number"],
        ),
    ];
    for (args, words) in cases {
        let ran = place.run_within_a_minute(args);
        ran.assert_refused(&format!("{:.80}", args.join(" ")), words);
    }
    place.write("deep.toml", format!("{}= 1\n", "a.".repeat(60_000)));
    let ran = place.run_within_a_minute(&["solve", "--config", "deep.toml"]);
    ran.assert_refused("a deep file", &["deep.toml:1:"]);
    let set = format!(
        "[[set]]\nname = \"s\"\ncount = {}\n[[run]]\nname = \"r\"\n",
        i64::MAX
    );
    place.write("bench.toml", set);
    let ran = place.run_within_a_minute(&["bench", "--config", "bench.toml"]);
    ran.assert_refused("a huge set", &["bench.toml:2:", "1 to 1000000"]);
}

/// The tree of a short problem has few leaves, and once all are complete there is nothing to look
/// at.
#[test]
fn a_search_that_has_seen_everything_stops() {
    let place = Place::new();
    let tokens = |simulations: &str| {
        let set = format!("search.mcts.simulations={simulations}");
        let args = [
            "solve",
            "--limit",
            "1",
            "--strategy",
            "mcts",
            "--json",
            "--set",
            &set,
        ];
        let ran = place.run_within_a_minute(&args).ok();
        ran.json()[0]["ledger"]["generated_tokens"].as_u64()
    };
    assert_eq!(tokens("1000000"), tokens("20000"));
}

#[test]
fn problems_are_written_as_they_are_drawn() {
    let place = Place::new();
    for (count, more) in [(HUGE, None), ("1000000000", Some("--steps"))] {
        let args = ["problems", "--count", count].into_iter().chain(more);
        let mut child = place
            .command(&args.collect::<Vec<_>>())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        for _ in 0..100 {
            let line = lines.next().expect("a line").expect("UTF-8");
            serde_json::from_str::<serde_json::Value>(&line).expect("JSON");
        }
        drop(lines);
        let mut stderr = String::new();
        let mut pipe = child.stderr.take().expect("a pipe");
        pipe.read_to_string(&mut stderr).expect("UTF-8");
        assert_eq!(child.wait().expect("a child").code(), Some(0), "{stderr}");
        assert_eq!(stderr, "");
    }
    let few = |count: &str| place.run(&["problems", "--count", count]).ok().stdout;
    assert!(few("20").starts_with(&few("7")));
}
