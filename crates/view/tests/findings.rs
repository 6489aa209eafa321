//! Tests of findings about wrong answers, also for records with missing data.

use beamgen_eval::Record;
use beamgen_search::Aggregation;
use beamgen_view::{Check, Finding, Search, findings, unchecked};
use serde_json::{Value, json};

/// Makes the JSON of a step below `parent`; `more` adds or replaces fields.
fn step(parent: u32, depth: u32, text: &str, score: f32, more: &Value) -> Value {
    let mut step = json!({
        "parent": parent, "children": [], "depth": depth, "stream": 0, "tokens": [1], "text": text,
        "logprob": -1.0, "score": score, "state": "expanded",
    });
    for (key, value) in more.as_object().expect("keys") {
        step[key] = value.clone();
    }
    step
}

/// Makes a record with two branches: `1 2 3` is chosen and wrong, `1 4 5` is the rival. Node `6` is
/// a pruned sibling of `2`.
fn record(rival: &str) -> Record {
    let ended = json!({"state": "finished", "finish": "answer"});
    let pruned = json!({"state": "pruned", "pruned": {
        "reason": "not-chosen", "round": 2, "rank": 3, "candidates": 4, "cutoff": 0.9,
    }});
    let root = json!({
        "parent": null, "children": [1], "depth": 0, "stream": 0, "tokens": [], "text": "", "logprob": 0.0,
        "score": null, "state": "expanded",
    });
    let mut tree = vec![
        root,
        step(0, 1, "one\n", 0.98, &json!({"children": [2, 4, 6]})),
        step(1, 2, "bad\n", 0.3, &json!({"children": [3]})),
        step(2, 3, "The answer is 7.\n", 0.95, &ended),
        step(1, 2, "good\n", 0.6, &json!({"children": [5]})),
        step(4, 3, "The answer is 8.\n", 0.7, &ended),
        step(1, 2, "dropped\n", 0.5, &pruned),
    ];
    if rival.is_empty() {
        tree.truncate(4);
        tree[1]["children"] = json!([2, 4]);
        tree.push(step(1, 2, "dropped\n", 0.5, &pruned));
    }
    let mut answers =
        vec![json!({"answer": "7", "votes": 3, "weight": 1.0, "score": 0.3, "node": 3})];
    if !rival.is_empty() {
        answers.push(json!({"answer": rival, "votes": 1, "weight": 0.5, "score": 0.2, "node": 5}));
    }
    let record = json!({
        "id": "p", "problem": "?", "reference": "8", "answer": "7", "correct": false,
        "steps": [{"text": "one", "score": 0.98}, {"text": "bad", "score": 0.3}, {"text": "The answer is 7.", "score": 0.95}],
        "score": 0.3, "finish": "answer", "answers": answers, "tree": tree,
        "ledger": {"prompt_tokens": 0, "generated_tokens": 0, "scored_tokens": 0, "reused_tokens": 0,
            "forward_passes": 0, "peak_kv_bytes": 0, "seconds": 0.0},
    });
    serde_json::from_value(record).expect("a record")
}

fn found(record: &Record, check: Check<'_>) -> Vec<Finding> {
    findings(record, &Search::of(record, Aggregation::Min, check))
}

#[track_caller]
fn assert_said(finding: &Finding, parts: &[&str], node: Option<u32>) {
    for part in parts {
        assert!(finding.answer.contains(part), "{part}: {}", finding.answer);
    }
    assert_eq!(finding.node, node, "{}", finding.answer);
}

#[test]
fn a_right_rival_shows_where_the_chosen_chain_left_it() {
    let found = found(&record("8.0"), &unchecked);
    assert_said(&found[0], &["Step 2 or later", "#5"], Some(2));
    assert_said(&found[1], &["Yes", "0.300"], None);
    assert_said(
        &found[2],
        &["found and not chosen", "1 vote", "3 votes"],
        Some(5),
    );
    assert!(found[2].rival);
}

#[test]
fn without_a_right_rival_the_first_low_score_is_suspected() {
    let found = found(&record(""), &unchecked);
    assert_said(&found[0], &["Probably step 2", "0.300"], Some(2));
    let reason = "score 0.500, rank 3 of 4, cut-off 0.900, round 2";
    assert_said(&found[2], &["Perhaps", "1 of 1", reason], Some(4));
}

#[test]
fn an_exact_check_goes_before_scores_and_finds_right_chains_that_were_pruned() {
    let last = |wrong: &'static str| move |_: &str, chain: &[&str]| Some(*chain.last()? != wrong);
    let check = last("The answer is 7.");
    let by_check = found(&record(""), &check);
    assert_said(&by_check[0], &["Step 3, by an exact check"], Some(3));
    assert_said(&by_check[1], &["No, it scored 0.950"], None);
    assert_said(&by_check[2], &["Yes: 1 of 1 pruned chains"], Some(4));
    let all_but_first = |_: &str, chain: &[&str]| Some(chain.len() < 2);
    let never = found(&record(""), &all_but_first);
    assert_said(&never[2], &["no right step 2 was sampled"], None);
    let check = last("dropped");
    assert_said(
        &found(&record(""), &check)[2],
        &["none of the 1 pruned"],
        None,
    );
}

#[test]
fn without_a_tree_the_chosen_chain_alone_is_judged() {
    let mut record = record("8");
    record.tree = None;
    let found = found(&record, &unchecked);
    assert_said(&found[0], &["Probably step 2"], Some(2));
    assert_said(&found[2], &["has no tree"], None);
}

#[test]
fn of_right_and_ungraded_answers_nothing_is_said() {
    let mut record = record("8");
    record.correct = Some(true);
    assert_eq!(found(&record, &unchecked), []);
    record.correct = None;
    assert_eq!(found(&record, &unchecked), []);
}

#[test]
fn a_chosen_chain_without_an_answer_is_found_by_its_text() {
    let mut record = record("8");
    record.answers.clear();
    let search = Search::of(&record, Aggregation::Min, &unchecked);
    assert_eq!(search.chosen, Some(3));
    assert_eq!(search.steps[5].chain_score, Some(0.6));
}
