//! `steps` in problem files, `beamgen refine` and `beamgen guard`.

use serde_json::{Value, json};

use crate::run::Place;

const SHELLS: &str = "Ana has 16 shells. Kim has 1 more shells than Ana. Ben has 10 fewer shells than Kim. \
                      How many shells does Ben have?";
const WRONG: [&str; 4] = [
    "Ana has 16 shells: 16.",
    "Kim has 1 more shells than Ana: 16 + 1 = 17.",
    "Ben has 10 fewer shells than Kim: 17 + 10 = 27.",
    "The answer is 27.",
];

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().map(serde_json::from_str);
    lines.map(|line| line.expect("JSON")).collect()
}

/// A place with an answer as steps and the same one as text.
fn place() -> Place {
    let place = Place::new();
    let steps = json!({"id": "a", "problem": SHELLS, "steps": WRONG, "answer": "7"});
    let text = json!({"id": "b", "problem": SHELLS, "response": WRONG.join("\n"), "answer": "7"});
    place.write("answers.jsonl", format!("{steps}\n{text}\n"));
    place
}

#[test]
fn chains_begin_with_the_steps_of_a_problem_file() {
    let place = place();
    let problem = json!({"id": "a", "problem": SHELLS, "answer": 7, "steps": &WRONG[..2]});
    place.write("given.jsonl", format!("{problem}\n"));
    let ran = place.run(&["solve", "given.jsonl", "--json", "-n", "16"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("1 problem gives \"steps\""),
        "{}",
        ran.stderr
    );
    let record = &lines(&ran.stdout)[0];
    assert_eq!(record["answer"], "7");
    for (at, step) in WRONG[..2].iter().enumerate() {
        assert_eq!(record["steps"][at]["text"], *step);
        assert!(record["steps"][at]["score"].is_number());
    }
    // A run file is of these steps alone.
    let out = ["solve", "given.jsonl", "--out", "run.jsonl"];
    assert_eq!(place.run(&out).code, Some(0));
    let problem = json!({"id": "a", "problem": SHELLS, "answer": 7});
    place.write("given.jsonl", format!("{problem}\n"));
    let again = place.run(&[&out[..], &["--resume"]].concat());
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    for (steps, fault) in [
        (json!(3), "given.jsonl:1: field \"steps\": found a number"),
        (json!(["a", ""]), "given.jsonl:1: field \"steps[1]\": empty"),
        (json!(vec!["a"; 40]), "max_steps"),
    ] {
        let problem = json!({"problem": SHELLS, "answer": 7, "steps": steps});
        place.write("given.jsonl", format!("{problem}\n"));
        let ran = place.run(&["solve", "given.jsonl"]);
        assert_ne!(ran.code, Some(0), "{steps}");
        let said = ran.stdout + &ran.stderr;
        assert!(said.contains(fault), "{said}");
    }
    let label = place.run(&["label", "given.jsonl", "--out", "labels.jsonl"]);
    assert_eq!(label.code, Some(2));
    assert!(
        label.stderr.contains("given.jsonl:1: field \"steps\""),
        "{}",
        label.stderr
    );
}

#[test]
fn answers_are_written_again_from_their_weakest_step() {
    let place = place();
    let ran = place.run(&[
        "refine",
        "answers.jsonl",
        "--rounds",
        "2",
        "--out",
        "refined.jsonl",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("2 of 2 answers changed"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stdout.contains("  - Ben has 10 fewer"),
        "{}",
        ran.stdout
    );
    let refined = lines(&place.read("refined.jsonl"));
    for line in &refined {
        assert_eq!(line["before"]["steps"], json!(WRONG));
        assert_eq!(
            (&line["before"]["correct"], &line["after"]["correct"]),
            (&json!(false), &json!(true))
        );
        assert_eq!(line["rounds"][0]["step"], 3);
        assert_eq!(line["after"], refined[0]["after"]);
    }
    let printed = place.run(&[
        "refine",
        "answers.jsonl",
        "--rounds",
        "2",
        "--in-flight",
        "1",
    ]);
    for (line, alone) in refined.iter().zip(lines(&printed.stdout)) {
        assert_eq!(line["difference"], alone["difference"]);
    }
    let kept = place.run(&["refine", "answers.jsonl", "--below", "0"]);
    assert!(
        kept.stderr.contains("0 of 2 answers changed"),
        "{}",
        kept.stderr
    );
    let score = place.run(&["score", "answers.jsonl"]);
    let scores = lines(&score.stdout);
    assert_eq!(scores[0]["scores"], scores[1]["scores"]);
}

#[test]
fn answers_are_accepted_mended_or_withheld() {
    let place = place();
    let guard = |more: &[&str]| {
        let ran = place.run(&[&["guard", "answers.jsonl"], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        (lines(&ran.stdout), ran.stderr)
    };
    let (lines, said) = guard(&["--rounds", "3"]);
    assert!(
        said.contains("2 answers: 0 accepted, 2 mended, 0 withheld"),
        "{said}"
    );
    assert_eq!(
        (&lines[0]["verdict"], &lines[0]["answer"]),
        (&json!("mend"), &json!("7"))
    );
    assert_eq!(
        (
            &lines[0]["reasons"][0]["code"],
            &lines[0]["reasons"][0]["step"]
        ),
        (&json!("unsound"), &json!(3))
    );
    let (lines, said) = guard(&["--rounds", "0", "--samples", "0", "--limit", "1"]);
    assert!(
        said.contains("1 answer: 0 accepted, 0 mended, 1 withheld"),
        "{said}"
    );
    assert_eq!(
        (&lines[0]["verdict"], &lines[0]["answer"]),
        (&json!("withhold"), &json!(null))
    );
}

#[test]
fn what_cannot_be_mended_is_refused_in_a_line() {
    let place = place();
    place.write("none.jsonl", format!("{}\n", json!({"problem": SHELLS})));
    for (arguments, word) in [
        (&["refine", "answers.jsonl", "--below", "2"][..], "--below"),
        (&["guard", "answers.jsonl", "--bound", "2"][..], "--bound"),
        (
            &[
                "refine",
                "answers.jsonl",
                "--scorer",
                "none",
                "--strategy",
                "majority",
            ],
            "scorer",
        ),
        (
            &["refine", "answers.jsonl", "--out", "answers.jsonl"],
            "is an input, too",
        ),
        (&["guard", "none.jsonl"], "\"response\""),
        (&["refine", "absent.jsonl"], "absent.jsonl"),
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(word), "{arguments:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.trim_end().lines().count(), 1, "{}", ran.stderr);
    }
}

/// Closing the pipe ends the printing of differences. The file still gets all results.
#[test]
fn the_results_survive_the_reader_of_the_differences() {
    let place = Place::new();
    // More answers than are processed at the same time.
    let answer = |id| json!({"id": format!("{id}"), "problem": SHELLS, "steps": WRONG});
    let answers: Vec<String> = (0..70).map(|id| answer(id).to_string() + "\n").collect();
    place.write("answers.jsonl", answers.concat());
    let mut command = place.command(&[
        "guard",
        "answers.jsonl",
        "--samples",
        "0",
        "--out",
        "o.jsonl",
    ]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = command.stdout(writer).status().expect("the binary starts");
    assert_eq!(status.code(), Some(0));
    let kept = lines(&place.read("o.jsonl"));
    assert_eq!(kept.len(), 64);
    assert!(kept.iter().all(|kept| kept["mended"]["answer"] == "7"));
}
