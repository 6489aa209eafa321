//! `beamgen show`: a run file for people.

use serde_json::{Value, json};

use crate::run::Place;

/// A place with a run of two problems with trees, and its records.
fn run() -> (Place, Vec<Value>) {
    let place = Place::new();
    let args = ["solve", "--limit", "2", "--out", "run.jsonl", "--tree"];
    place.run(&args).ok();
    let text = place.read("run.jsonl");
    let records = text.lines().skip(1);
    let records = records.map(|line| serde_json::from_str(line).expect("JSON"));
    let records = records.collect();
    (place, records)
}

#[test]
fn a_run_is_a_line_for_each_problem() {
    let (place, records) = run();
    let shown = place.run(&["show", "run.jsonl"]).ok().stdout;
    for record in &records {
        let id = record["id"].as_str().expect("an id");
        let line = shown.lines().find(|line| line.contains(id)).expect(id);
        assert!(line.contains(record["answer"].as_str().expect("an answer")));
        assert!(line.contains("right") || line.contains("wrong"), "{line}");
    }
}

#[test]
fn a_problem_has_its_steps_answers_and_tree() {
    let (place, records) = run();
    let record = &records[1];
    let id = record["id"].as_str().expect("an id");
    let shown = place.run(&["show", "run.jsonl", "--id", id]).ok().stdout;
    assert!(shown.contains(record["problem"].as_str().expect("its text")));
    let nodes = record["tree"].as_array().expect("a tree");
    let of_state = |state: &str| nodes.iter().filter(|node| node["state"] == state).count();
    let drawn = shown.lines().filter(|line| line.contains("  (#")).count();
    assert_eq!(drawn, nodes.len() - 1 - of_state("duplicate"), "{shown}");
    let pruned = shown
        .lines()
        .filter(|line| line.contains("pruned in round "));
    assert_eq!(pruned.count(), of_state("pruned"), "{shown}");
    assert!(shown.contains(": rank "), "{shown}");
    assert!(shown.contains("end: answer"), "{shown}");
    // The chosen chain is marked, from its first step to its last.
    let starred = shown.lines().filter(|line| line.starts_with("* "));
    let chosen = starred.filter(|line| !line.contains("(no text)")).count();
    assert_eq!(
        chosen,
        record["steps"].as_array().expect("steps").len(),
        "{shown}"
    );
    let votes = record["answers"][0]["votes"].to_string();
    let mut answers = shown
        .lines()
        .skip_while(|line| !line.contains("sum of scores"));
    let first = answers.nth(1).expect("the chosen answer");
    assert!(
        first.split_whitespace().any(|word| word == votes),
        "{first}"
    );
}

#[test]
fn what_is_not_there_is_named() {
    let (place, _) = run();
    place
        .run(&["show", "run.jsonl", "--id", "nobody"])
        .assert_refused("no such id", &["nobody", "run.jsonl", "world-"]);
    place
        .run(&["show", "missing.jsonl"])
        .assert_refused("no file", &["missing.jsonl"]);
    place.write("notes.txt", "my notes\n");
    place
        .run(&["show", "notes.txt"])
        .assert_refused("no run file", &["notes.txt:1:", "not a line of a run file"]);
}

#[test]
fn a_context_and_given_steps_are_shown() {
    let place = Place::new();
    let problem = json!({
        "id": "a", "problem": "How many?", "context": ["Mia has 34 pens."],
        "steps": ["Mia has 34 pens: 34."],
    });
    place.write("p.jsonl", problem.to_string());
    place.run(&["solve", "p.jsonl", "--out", "run.jsonl"]).ok();
    let shown = place.run(&["show", "run.jsonl", "--id", "a"]).ok().stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "Mia has 34 pens.", "{shown}");
    assert_eq!(lines[2], "[a] How many?", "{shown}");
    assert!(
        lines[3].ends_with("Mia has 34 pens: 34.  (given)"),
        "{shown}"
    );
    let given = lines.iter().filter(|line| line.contains("(given)"));
    assert_eq!(given.count(), 1, "{shown}");
}
