//! The shape of `--json`, which programs rely on.

use serde_json::Value;

use crate::run::Place;

const LEDGER: [&str; 14] = [
    "prompt_tokens",
    "generated_tokens",
    "scored_tokens",
    "reused_tokens",
    "forward_passes",
    "peak_kv_bytes",
    "generate_flops",
    "score_flops",
    "executed_flops",
    "least_flops",
    "width",
    "seconds",
    "generate_seconds",
    "score_seconds",
];

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn an_object_a_problem_and_a_summary() {
    let place = Place::new();
    let ran = place.run(&["solve", "--json", "--limit", "5"]).ok();
    let lines = ran.json();
    let (summary, problems) = lines.split_last().expect("lines");
    assert_eq!(problems.len(), 5);
    let mut correct = 0;
    for problem in problems {
        assert_eq!(
            keys(problem),
            [
                "id",
                "problem",
                "reference",
                "answer",
                "correct",
                "steps",
                "score",
                "finish",
                "answers",
                "ledger",
            ]
        );
        assert!(problem["id"].is_string());
        assert!(problem["answer"].is_string() || problem["answer"].is_null());
        correct += usize::from(
            problem["correct"]
                .as_bool()
                .expect("the samples have answers"),
        );
        let steps = problem["steps"].as_array().expect("steps");
        assert!(!steps.is_empty());
        for step in steps {
            assert_eq!(keys(step), ["text", "score"]);
            let score = step["score"].as_f64().expect("the PRM scores every step");
            assert!((0.0..=1.0).contains(&score));
            assert!(
                !step["text"].as_str().expect("text").trim().is_empty(),
                "no empty step is scored"
            );
        }
        assert!(problem["score"].is_number());
        assert!(problem["finish"].is_string());
        let of_runs = ["executed_flops", "least_flops"];
        let own = LEDGER.into_iter().filter(|key| !of_runs.contains(key));
        assert_eq!(keys(&problem["ledger"]), own.collect::<Vec<_>>());
    }
    assert_eq!(keys(summary), ["summary"]);
    let summary = &summary["summary"];
    assert_eq!(
        keys(summary),
        [
            "problems",
            "correct",
            "accuracy",
            "unsound",
            "withheld",
            "cannot_tell",
            "too_long",
            "memory_limited",
            "checker_limited",
            "ledger"
        ]
    );
    assert_eq!(summary["problems"], 5);
    assert_eq!(summary["correct"], correct);
    assert!((summary["accuracy"].as_f64().expect("a number") - correct as f64 / 5.0).abs() < 1e-9);
    assert_eq!(keys(&summary["ledger"]), LEDGER);
    for key in [
        "prompt_tokens",
        "generated_tokens",
        "scored_tokens",
        "reused_tokens",
    ] {
        let sum: u64 = problems
            .iter()
            .map(|p| p["ledger"][key].as_u64().expect("a count"))
            .sum();
        assert_eq!(
            summary["ledger"][key], sum,
            "{key}: the problems add up to the whole"
        );
    }
}

#[test]
fn without_reference_answers_nothing_is_graded() {
    let place = Place::new();
    place.write(
        "p.txt",
        "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?\n",
    );
    let lines = place.run(&["solve", "p.txt", "--json"]).ok().json();
    assert_eq!(lines[0]["correct"], Value::Null);
    let summary = &lines[1]["summary"];
    assert_eq!(
        (&summary["correct"], &summary["accuracy"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn the_tree_comes_when_asked() {
    let place = Place::new();
    place
        .run(&["solve", "--limit", "2", "--out", "run.jsonl", "--tree"])
        .ok();
    let text = place.read("run.jsonl");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(keys(&lines[0])[0], "beamgen_run");
    assert_eq!(lines.len(), 3);
    for line in &lines[1..] {
        let nodes = line["tree"].as_array().expect("the tree's nodes");
        assert_eq!(nodes[0]["parent"], Value::Null);
        for (at, node) in nodes.iter().enumerate().skip(1) {
            assert!(
                node["parent"].as_u64().expect("a parent") < at as u64,
                "parents come first"
            );
        }
    }
}

/// A chain that ends at its first step states no answer.
#[test]
fn an_answer_that_the_chain_does_not_state_is_marked_as_a_guess() {
    let place = Place::new();
    let marker = "generator.answer_markers=[\":\"]";
    let args = ["solve", "--limit", "1", "--set", marker];
    let guessed = &place.run(&[&args[..], &["--json"]].concat()).ok().json()[0];
    assert_eq!(guessed["finish"], "answer");
    assert_eq!(guessed["guess"], true, "{guessed}");
    let shown = place.run(&args).ok().stdout;
    assert!(shown.contains(" (a guess: the last number"), "{shown}");

    let stated = &place.run(&["solve", "--limit", "1", "--json"]).ok().json()[0];
    assert!(
        stated["answer"].is_string() && stated.get("guess").is_none(),
        "{stated}"
    );
}
