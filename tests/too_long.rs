//! `--skip-too-long`: a problem that does not fit into a model's context stops nothing.

use serde_json::{Value, json};

use crate::run::Place;

/// Three problems of the bundled sample, the second made far too long.
fn place() -> Place {
    let place = Place::new();
    let sample = beamgen::bundled::sample().expect("the sample");
    let mut problems: Vec<Value> = sample.problems[..3]
        .iter()
        .map(|p| json!({"id": p.id, "problem": p.text, "answer": p.answer}))
        .collect();
    problems[1]["problem"] = "Mia has 34 pens. ".repeat(1000).into();
    let lines: Vec<String> = problems.iter().map(Value::to_string).collect();
    place.write("p.jsonl", lines.join("\n"));
    place
}

#[test]
fn without_the_flag_it_is_refused_with_its_line_and_the_flag() {
    let words = ["p.jsonl:2:", "tokens", "--skip-too-long"];
    place()
        .run(&["solve", "p.jsonl"])
        .assert_refused("too long", &words);
}

#[test]
fn with_the_flag_it_is_marked_and_counted_and_the_others_are_solved() {
    let place = place();
    let solve = ["solve", "p.jsonl", "--skip-too-long", "--out", "run.jsonl"];
    let ran = place.run(&[&solve[..], &["--json"]].concat()).ok();
    assert!(ran.stderr.contains("skipped: "), "{}", ran.stderr);
    let lines = ran.json();
    assert_eq!(lines.len(), 4);
    let long = &lines[1];
    assert_eq!(long["finish"], "too-long");
    assert!(
        long["error"].as_str().expect("why").contains("tokens"),
        "{long}"
    );
    assert_eq!(
        (&long["answer"], &long["correct"]),
        (&Value::Null, &json!(false))
    );
    let summary = &lines[3]["summary"];
    assert_eq!(
        (&summary["problems"], &summary["too_long"]),
        (&json!(3), &json!(1))
    );
    let right = [0, 2]
        .iter()
        .filter(|&&at| lines[at]["correct"] == true)
        .count();
    assert_eq!(summary["correct"], right);

    // It is in the run file, so a resumed run has it too and does not try again.
    let ran = place.run(&[&solve[..], &["--resume"]].concat()).ok();
    assert!(!ran.stderr.contains("skipped: "), "{}", ran.stderr);
    assert!(ran.stdout.contains("1 problem skipped"), "{}", ran.stdout);

    // The others are what they are alone.
    let sample = place.run(&["solve", "--limit", "3", "--json"]).ok().json();
    for at in [0, 2] {
        assert_eq!(lines[at]["steps"], sample[at]["steps"]);
    }
}
