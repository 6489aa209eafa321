//! `beamgen check`: checkers against labels.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::run::Place;

/// Four chains: a found mistake, a mistake that is none of arithmetic, a right chain that is labelled
/// right, and a wrong equation that is labelled right.
fn chains(place: &Place) {
    let chain = |id: &str, steps: &[&str], label: i64| json!({"id": id, "problem": "How many?", "steps": steps, "label": label});
    let lines = [
        chain("found", &["3 * 4 = 12", "12 + 5 = 18", "18 + 1 = 20"], 1),
        chain("missed", &["It has 5 sides.", "5 * 2 = 10"], 0),
        chain("right", &["1 + 1 = 2", "Done."], -1),
        chain("false", &["2 + 2 = 5"], -1),
    ];
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    place.write("chains.jsonl", text.join("\n"));
}

#[test]
fn verdicts_are_held_against_labels() {
    let place = Place::new();
    chains(&place);
    let ran = place
        .run(&["check", "chains.jsonl", "--checker", "arithmetic", "--json"])
        .ok();
    let row = ran.json().remove(0);
    for (field, want) in [
        ("steps", json!(8)),
        ("pass", json!(3)),
        ("fail", json!(3)),
        ("abstain", json!(2)),
        ("coverage", json!(0.75)),
        ("true_fails", json!(1)),
        ("unlabelled_fails", json!(1)),
        ("precision", json!(0.5)),
        ("wrong_chains", json!(2)),
        ("first_mistakes", json!(1)),
        ("recall", json!(0.5)),
    ] {
        assert_eq!(row[field], want, "{field}: {row}");
    }
    assert_eq!(
        row["false_fails"],
        json!([{"chain": "false", "step": 0, "reason": "2 + 2 is 4, not 5", "text": "2 + 2 = 5"}])
    );
}

#[test]
fn all_checkers_are_asked_without_a_flag_and_false_fails_are_listed() {
    let place = Place::new();
    chains(&place);
    let ran = place
        .run(&["check", "chains.jsonl", "--out", "verdicts.jsonl"])
        .ok();
    for text in [
        "arithmetic",
        "consistency",
        "all",
        "chain false, step 1",
        "2 + 2 is 4, not 5",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    let first: Value =
        serde_json::from_str(place.read("verdicts.jsonl").lines().next().expect("a line"))
            .expect("JSON");
    assert_eq!(first["id"], "found");
    assert_eq!(
        first["steps"][0][0],
        json!({"checker": "arithmetic", "verdict": "pass"})
    );
    assert_eq!(
        first["steps"][1][0],
        json!({"checker": "arithmetic", "verdict": "fail", "reason": "12 + 5 is 17, not 18"})
    );
}

/// The world labels its own chains, so its checker finds each first mistake and fails no right step.
#[test]
fn the_exact_checker_agrees_with_the_labels_of_its_world() {
    let place = Place::new();
    let made = place.run(&["problems", "--count", "60", "--steps"]).ok();
    place.write("world.jsonl", made.stdout);
    let args = ["check", "world.jsonl", "--checker", "exact", "--json"];
    let row = place.run(&args).ok().json().remove(0);
    let wrong = row["wrong_chains"].as_u64().expect("a count");
    assert!(wrong > 10, "{row}");
    for (field, want) in [
        ("precision", json!(1.0)),
        ("recall", json!(1.0)),
        ("abstain", json!(0)),
    ] {
        assert_eq!(row[field], want, "{field}: {row}");
    }
    chains(&place);
    let args = ["check", "chains.jsonl", "--checker", "exact", "--json"];
    let row = place.run(&args).ok().json().remove(0);
    assert_eq!((&row["abstain"], &row["fail"]), (&row["steps"], &json!(0)));
}

#[test]
fn a_command_that_crashes_costs_its_verdicts_and_is_told() {
    let place = Place::new();
    chains(&place);
    let ran = place
        .run(&[
            "check",
            "chains.jsonl",
            "--checker",
            "arithmetic",
            "--checker-command",
            "exit 3",
            "--json",
        ])
        .ok();
    let rows = ran.json();
    assert_eq!(
        (&rows[0]["fail"], &rows[1]["lost"], &rows[2]["fail"]),
        (&json!(3), &json!(8), &json!(3))
    );
    assert!(
        ran.stderr.contains("8 verdicts missing") && ran.stderr.contains("exit status: 3"),
        "{}",
        ran.stderr
    );
}

#[test]
fn wrong_checkers_are_refused_in_one_line() {
    let place = Place::new();
    chains(&place);
    for (args, message) in [
        (&["--checker", "algebra"][..], "algebra"),
        (&["--checker", "arithmetic,arithmetic"], "named twice"),
        (&["--checker-command", " "], "a command is empty"),
        (
            &["--checker", "arithmetic", "--checker-timeout", "0"],
            "checkers.timeout",
        ),
    ] {
        let args = [&["check", "chains.jsonl"][..], args].concat();
        let ran = place.run(&args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.trim().lines().count(), 1, "{}", ran.stderr);
    }
}

/// The nodes of all trees that a judge was asked about, each with whether a checker failed a step
/// before it; the records; and what was told.
fn searched(place: &Place, flags: &[&str]) -> (Vec<(Value, bool)>, Vec<Value>, String) {
    let args = [
        "solve",
        "--limit",
        "6",
        "--strategy",
        "best-of-n",
        "-n",
        "16",
        "--seed",
        "5",
        "--tree",
        "--quiet",
        "--out",
        "run.jsonl",
    ];
    let _ = std::fs::remove_file(place.path("run.jsonl"));
    let ran = place.run(&[&args[..], flags].concat()).ok();
    let text = place.read("run.jsonl");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let records: Vec<Value> = lines.filter(|line| line.get("tree").is_some()).collect();
    assert_eq!(records.len(), 6);
    let nodes = records.iter().flat_map(|record| {
        let tree = record["tree"].as_array().expect("nodes");
        let mut after_fail: Vec<bool> = Vec::new();
        let nodes = tree.iter().map(|node| {
            let parent = node["parent"].as_u64().map(|parent| parent as usize);
            let follows = parent.is_some_and(|at| after_fail[at] || fails(&tree[at]));
            after_fail.push(follows);
            (node.clone(), follows)
        });
        nodes.collect::<Vec<_>>()
    });
    let judged = nodes.filter(|(node, _)| node.get("judges").is_some());
    (judged.collect(), records, ran.stderr)
}

/// Whether a built-in checker failed a node's step.
fn fails(node: &Value) -> bool {
    let failed = |name: &str| node["judges"][name] == json!(0.0);
    failed("arithmetic") || failed("consistency")
}

#[test]
fn a_checker_alone_drops_what_it_proves_wrong() {
    let place = Place::new();
    let (nodes, records, _) = searched(&place, &["--scorer", "none", "--checker", "arithmetic"]);
    let said = |want: Value| {
        let said = |(node, _): &&(Value, bool)| node["judges"]["arithmetic"] == want;
        nodes.iter().filter(said).count()
    };
    assert!(
        said(json!(0.0)) > 5 && said(json!(1.0)) > 50,
        "{} {}",
        said(json!(0.0)),
        said(json!(1.0))
    );
    for (node, after_fail) in &nodes {
        let failed = *after_fail || fails(node);
        assert_eq!(
            node["score"],
            json!(if failed { 0.0 } else { 1.0 }),
            "{node}"
        );
    }
    let spent = |what: &str| -> u64 {
        let of = |record: &Value| record["ledger"]["judges"]["arithmetic"][what].as_u64();
        records.iter().map(|record| of(record).expect(what)).sum()
    };
    // Equal siblings are asked about once.
    let (steps, failed) = (spent("steps"), spent("failed"));
    assert!(steps > 5 && steps <= nodes.len() as u64, "{steps}");
    assert!(failed > 5 && failed <= said(json!(0.0)) as u64, "{failed}");
    assert!(failed + spent("abstained") < steps);
}

#[test]
fn beside_the_reward_model_a_fail_is_a_veto_and_all_else_leaves_its_score() {
    let place = Place::new();
    let (nodes, ..) = searched(&place, &["--checker", "arithmetic,consistency"]);
    let (mut vetoes, mut later) = (0, 0);
    for (node, after_fail) in &nodes {
        vetoes += u32::from(fails(node));
        later += u32::from(*after_fail);
        if *after_fail || fails(node) {
            assert_eq!(node["score"], json!(0.0), "{node}");
        } else {
            assert_eq!(node["score"], node["judges"]["prm"], "{node}");
        }
    }
    let all = nodes.len();
    assert!(
        vetoes > 5 && later > 5 && all > 100,
        "{vetoes} {later} {all}"
    );
}

#[test]
fn a_program_changes_nothing_in_a_search_unless_it_fails_steps() {
    let place = Place::new();
    // Problems end in any order where a program has to be waited for.
    let answers = |records: &[Value]| -> BTreeMap<String, Value> {
        let answer = |record: &Value| {
            let id = record["id"].as_str().expect("an id").to_owned();
            (id, json!([record["answer"], record["score"]]))
        };
        records.iter().map(answer).collect()
    };
    let with = |command: &str| {
        let flags = ["--checker", "arithmetic", "--checker-command", command];
        searched(&place, &flags)
    };
    let (_, without, _) = searched(&place, &["--checker", "arithmetic"]);
    // It crashes, which is told.
    let (nodes, crashed, stderr) = with("exit 3");
    assert_eq!(answers(&crashed), answers(&without));
    // Nobody need be asked about what follows a fail.
    let abstains = |(node, after_fail): &(Value, bool)| {
        let said = node["judges"].get("exit 3");
        said == Some(&Value::Null) || (*after_fail && said.is_none())
    };
    assert!(nodes.iter().all(abstains));
    assert!(stderr.contains(r#""exit 3" failed"#), "{stderr}");
    // It passes all steps, some time later.
    let passes = r#"sed -u 's/^{"id":\([0-9]*\).*/{"id":\1,"verdict":"pass"}/'"#;
    let (nodes, passed, stderr) = with(passes);
    assert_eq!(answers(&passed), answers(&without));
    let said = |(node, _): &(Value, bool)| node["judges"][passes] == json!(1.0);
    assert!(nodes.len() > 100 && nodes.iter().all(said));
    assert!(!stderr.contains("the program"), "{stderr}");
}
