//! Whoever gives the bundled models problems of another world is told so.

use serde_json::{Value, json};

use crate::run::Place;

const FOREIGN: &str = "What is 17 times 23?";
const OF_THE_WORLD: &str = "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. \
                            How many pens does Kim have?";

/// The hints on stderr.
fn hints(stderr: &str) -> Vec<&str> {
    let is_hint = |line: &&str| line.contains("not of the world that the bundled models know");
    stderr.lines().filter(is_hint).collect()
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

#[test]
fn solve_says_once_how_many_problems_are_foreign() {
    let place = Place::new();
    let problems = [FOREIGN, OF_THE_WORLD, FOREIGN].map(|text| json!({"problem": text}));
    place.write("p.jsonl", lines(&problems));
    for extra in [&["--json"][..], &["--quiet"], &[]] {
        let ran = place.run(&[&["solve", "p.jsonl"], extra].concat()).ok();
        let hints = hints(&ran.stderr);
        assert_eq!(hints.len(), 1, "{}", ran.stderr);
        assert!(
            hints[0].starts_with("note: 2 of 3 problems "),
            "{}",
            hints[0]
        );
        assert!(hints[0].contains("beamgen models") && hints[0].contains("--pair NAME"));
        assert!(!ran.stdout.contains("not of the world"), "{}", ran.stdout);
    }
}

#[test]
fn bench_says_so_too() {
    let place = Place::new();
    let problem = json!({"problem": FOREIGN, "answer": 391});
    place.write("p.jsonl", lines(&[problem]));
    let args = [
        "bench",
        "p.jsonl",
        "--strategies",
        "single,majority",
        "--n",
        "2",
    ];
    let ran = place.run(&args).ok();
    assert_eq!(hints(&ran.stderr).len(), 1, "{}", ran.stderr);
}

#[test]
fn chains_of_foreign_problems_are_told_so_too() {
    let place = Place::new();
    let chain = |problem| json!({"problem": problem, "steps": ["17 * 23 = 391."], "label": -1});
    place.write("c.jsonl", lines(&[chain(FOREIGN), chain(OF_THE_WORLD)]));
    for args in [
        &["score", "c.jsonl"][..],
        &["eval-prm", "--data", "c.jsonl"],
    ] {
        let ran = place.run(args).ok();
        let hints = hints(&ran.stderr);
        assert_eq!(hints.len(), 1, "{args:?}: {}", ran.stderr);
        assert!(hints[0].starts_with("note: 1 of 2 chains "), "{}", hints[0]);
        assert!(!ran.stdout.contains("not of the world"), "{}", ran.stdout);
    }
}

#[test]
fn problems_of_the_bundled_world_bring_no_hint() {
    let place = Place::new();
    for args in [
        &["solve", "--limit", "3"][..],
        &["solve", "--limit", "3", "--scorer", "exact"],
    ] {
        let ran = place.run(args).ok();
        assert_eq!(hints(&ran.stderr), [""; 0], "{args:?}");
    }
}
