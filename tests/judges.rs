//! Several judges from the command line, on the bundled models.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::run::{Place, Ran};

/// A run with these arguments: its records with their trees, and what it printed.
fn solved(args: &[&str]) -> (Vec<Value>, Ran) {
    let place = Place::new();
    let fixed = [
        "solve",
        "--limit",
        "6",
        "-n",
        "8",
        "--out",
        "run.jsonl",
        "--tree",
    ];
    let ran = place.run(&[&fixed, args].concat()).ok();
    let text = place.read("run.jsonl");
    let lines = text.lines().skip(1);
    let records = lines.map(|line| serde_json::from_str(line).expect("JSON"));
    (records.collect(), ran)
}

/// The nodes of all trees that have a score.
fn scored(records: &[Value]) -> impl Iterator<Item = &Value> {
    with_records(records).map(|(_, node)| node)
}

/// These, with their records.
fn with_records(records: &[Value]) -> impl Iterator<Item = (&Value, &Value)> {
    let nodes = records.iter().flat_map(|record| {
        let tree = record["tree"].as_array().expect("a tree");
        tree.iter().map(move |node| (record, node))
    });
    nodes.filter(|(_, node)| node["score"].is_number())
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn the_checker_vetoes_what_the_reward_model_believes() {
    let (records, ran) = solved(&["--judge", "exact", "--combine", "veto"]);
    let (mut passed, mut failed) = (0, 0);
    for (record, node) in with_records(&records) {
        let judges = &node["judges"];
        let Some(exact) = judges.get("exact") else {
            // Nobody is asked about a step after one that was failed.
            let before = &record["tree"][node["parent"].as_u64().expect("a parent") as usize];
            assert_eq!(
                (&node["score"], &before["score"]),
                (&json!(0.0), &json!(0.0))
            );
            continue;
        };
        if number(exact) == 0.0 {
            assert_eq!(number(&node["score"]), 0.0, "{node}");
            failed += 1;
        } else {
            assert_eq!(node["score"], judges["prm"], "{node}");
            passed += 1;
        }
    }
    assert!(passed > 0 && failed > 0, "{passed} passed, {failed} failed");
    assert!(records.iter().all(|record| record["correct"] == true));
    assert!(
        ran.stdout.contains("(exact 1.000, prm 0."),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("judge exact: "), "{}", ran.stdout);
}

#[test]
fn the_outcome_model_judges_ends_of_chains_and_reads_only_those() {
    let (records, _) = solved(&["--judge", "orm", "--combine", "min"]);
    let mut ends = 0;
    for node in scored(&records) {
        let judges = &node["judges"];
        let prm = number(&judges["prm"]);
        match judges.get("orm") {
            Some(orm) => {
                assert_eq!(node["finish"], "answer", "{node}");
                assert_eq!(number(&node["score"]), prm.min(number(orm)));
                ends += 1;
            }
            None => assert_eq!(number(&node["score"]), prm),
        }
    }
    assert!(ends > 0);
    for record in &records {
        let spent = &record["ledger"]["judges"];
        let read = |name: &str| spent[name]["scored_tokens"].as_u64().expect("tokens");
        assert!(read("orm") < read("prm"), "{spent}");
        let all = record["ledger"]["scored_tokens"].as_u64();
        assert_eq!(all, Some(read("orm") + read("prm")));
    }
}

#[test]
fn a_cascade_asks_the_second_judge_where_the_first_is_undecided() {
    let judge = "models.judges=[{judge=\"orm\",at_end=false,name=\"second\"}]";
    let (records, _) = solved(&["--set", judge, "--combine", "cascade:0.05..0.95"]);
    let mut asked = 0;
    for node in scored(&records) {
        let judges = &node["judges"];
        let first = number(&judges["prm"]);
        let undecided = (0.05f32..=0.95).contains(&(first as f32));
        assert_eq!(judges.get("second").is_some(), undecided, "{node}");
        asked += usize::from(undecided);
        if undecided {
            assert_eq!(node["score"], judges["second"]);
        }
    }
    assert!(asked > 0);
}

#[test]
fn a_judge_alone_is_a_scorer_and_two_of_a_name_are_told_apart() {
    let (records, _) = solved(&["--scorer", "none", "--judge", "exact"]);
    for node in scored(&records) {
        let judges = node["judges"].as_object().expect("judges");
        assert_eq!(judges.keys().collect::<Vec<_>>(), ["exact"]);
        assert_eq!(node["score"], judges["exact"]);
    }
    let (records, _) = solved(&["--judge", "prm", "--combine", "product"]);
    let node = scored(&records).next().expect("a score");
    assert_eq!(node["judges"]["prm"], node["judges"]["prm-2"]);
}

#[test]
fn a_run_goes_on_with_the_same_judges_only() {
    let place = Place::new();
    let args = [
        "solve",
        "--limit",
        "2",
        "-n",
        "4",
        "--out",
        "run.jsonl",
        "--judge",
        "exact",
    ];
    place.run(&args).ok();
    let resume = |more: &[&str]| place.run(&[&args[..], &["--resume"], more].concat());
    resume(&[]).ok();
    let other = resume(&["--combine", "product"]);
    assert_eq!(other.code, Some(2));
    assert!(other.stderr.contains("combine"), "{}", other.stderr);
}

#[test]
fn mistakes_are_told_in_one_line() {
    let place = Place::new();
    for (args, word) in [
        (&["--combine", "mean"][..], "mean-logits"),
        (&["--combine", "cascade:0.9..0.1"], "rising"),
        (&["--judge", "no-such-model"], "no-such-model"),
        (&["--set", "models.judges=[{veto=true}]"], "judge"),
    ] {
        let ran = place.run(&[&["solve", "--limit", "1"], args].concat());
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(word), "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn a_list_of_scorers_is_a_scorer_and_its_judges() {
    let trees = |flags: &[&str]| {
        let (records, _) = solved(flags);
        let trees = records
            .iter()
            .map(|record| (record["id"].to_string(), record["tree"].clone()));
        trees.collect::<BTreeMap<String, Value>>()
    };
    let long = trees(&["--scorer", "prm", "--scorer", "exact", "--combine", "veto"]);
    assert_eq!(long, trees(&["--judge", "exact", "--combine", "veto"]));
    let place = Place::new();
    place.run(&["models", "--write", "bundled", "own"]).ok();
    let place_solved = |flags: &[&str]| {
        let all = [&["solve", "--limit", "1", "--json"], flags].concat();
        place.run(&all).ok().json().remove(0)["steps"].clone()
    };
    let by_name = place_solved(&["--scorer", "own/orm"]);
    assert_eq!(by_name, place_solved(&["--prm", "own/orm"]));
    for (flags, words) in [
        (
            &["--scorer", "own/prm", "--prm", "own/orm"][..],
            &["--scorer own/prm", "--prm"][..],
        ),
        (
            &["--scorer", "prm", "--scorer", "exact", "--judge", "orm"],
            &["--scorer", "--judge"],
        ),
        (
            &["--scorer", "prm", "--scorer", "none"],
            &["none cannot be a judge"],
        ),
        (
            &[
                "--scorer", "none", "--scorer", "orm", "--prm", "none", "--scorer", "none",
            ],
            &["none cannot be a judge"],
        ),
        (
            &["--scorer", "exat"],
            &["--scorer", "exat", "prm, orm, exact, none"],
        ),
    ] {
        let all = [&["solve", "--limit", "1"], flags].concat();
        place.run(&all).assert_refused(&all.join(" "), words);
    }
}
