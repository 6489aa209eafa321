//! Tests of each format on texts that were written for these tests.

use beamgen_labels::{Format, LabelRule, Labelled, LabelledChain, parse};
use serde_json::{Value, json};

/// Reads records as JSON lines; the format is detected.
pub(crate) fn read(records: &[Value]) -> Labelled {
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    parse(lines.as_bytes(), "f", None).unwrap()
}

/// Returns the only chain of a record, and checks that `format` was detected.
pub(crate) fn one(format: &str, record: Value) -> LabelledChain {
    let mut read = read(&[record]);
    assert_eq!(read.format.name, format);
    assert_eq!((read.chains.len(), read.rejected.len()), (1, 0));
    read.chains.remove(0)
}

/// Returns the reason why `format` rejects a record.
pub(crate) fn refused(format: &str, record: Value) -> String {
    let format = Format::named(format).unwrap();
    format.import(&record).unwrap_err().to_string()
}

fn labels(chain: &LabelledChain) -> Vec<Option<f64>> {
    LabelRule::default().labels(chain)
}

#[test]
fn the_own_format_keeps_all_facts() {
    let record = json!({
        "id": "a", "problem": "p", "answer": "4",
        "steps": [
            {"text": "x", "rating": -1, "alternatives": [{"text": "y", "right": true}]},
            {"text": "z", "rollouts": {"n": 8, "k": 2, "truncated": 1, "seed": 7}},
        ],
    });
    let chain = one("beamgen", record.clone());
    assert_eq!(serde_json::to_value(&chain).unwrap(), record);
    assert_eq!(labels(&chain), [Some(0.0), Some(1.0)]);
    let with = |field: &str, value: Value| {
        let mut record = record.clone();
        record["steps"][0][field] = value;
        refused("beamgen", record)
    };
    assert!(with("rating", json!(2)).contains("\"rating\""));
    assert!(with("soft", json!(1.5)).contains("\"soft\""));
    assert!(with("text", json!(" ")).contains("\"text\""));
    assert!(with("rollouts", json!({"n": 1, "k": 2})).contains("k is more than n"));
    assert!(with("colour", json!(1)).contains("colour"));
    assert!(with("rating", json!(7)).contains("step 1"));
}

#[test]
fn process_bench_marks_the_first_wrong_step() {
    let record = json!({"id": "math-3", "generator": "G", "problem": "p", "steps": ["a", "b", "c"],
        "final_answer_correct": false, "label": 1});
    let chain = one("processbench", record.clone());
    assert_eq!(labels(&chain), [Some(1.0), Some(0.0), None]);
    assert_eq!(chain.source.as_deref(), Some("processbench/math"));
    assert_eq!(chain.policy.as_ref().unwrap().generator, "G");
    assert_eq!(chain.outcome, Some(false));
    for label in [json!(3), json!(-2), json!(0.5), json!("1"), json!(true)] {
        let mut record = record.clone();
        record["label"] = label;
        assert!(refused("processbench", record).contains("first wrong step from 0"));
    }
    let unlabelled = json!({"problem": "p", "steps": ["a"]});
    assert!(refused("processbench", unlabelled).contains("missing"));
}

#[test]
fn prm_bench_counts_wrong_steps_from_1() {
    let record = json!({"original_question": "p", "modified_question": "q", "original_process": ["a"],
        "modified_process": ["a", "b", "c"], "modified_steps": [2], "error_steps": [1, 3],
        "reason": "r", "idx": "x_0", "question": "p", "classification": "circular"});
    let chain = one("prmbench", record.clone());
    assert_eq!(labels(&chain), [Some(0.0), Some(1.0), Some(0.0)]);
    assert_eq!(chain.class.as_deref(), Some("circular"));
    assert_eq!(chain.problem, "q");
    let mut past = record.clone();
    past["error_steps"] = json!([4]);
    assert_eq!(
        refused("prmbench", past),
        "field \"error_steps\": points past the last step (step 4 of 3)"
    );
    let mut zero = record;
    zero["error_steps"] = json!([0]);
    assert!(refused("prmbench", zero).contains("from 1"));
}

#[test]
fn ratings_stand_beside_their_steps() {
    let record = json!({"problem": "p", "level": "Level 2", "steps": ["a", "b", "c"], "ratings": [1, null, -1]});
    let chain = one("ratings", record);
    assert_eq!(labels(&chain), [Some(1.0), None, Some(0.0)]);
    assert_eq!(chain.level.as_deref(), Some("Level 2"));
    let short = json!({"problem": "p", "steps": ["a", "b"], "ratings": [1]});
    assert!(refused("ratings", short).contains("one rating a step (1 for 2 steps)"));
    let wild = json!({"problem": "p", "steps": ["a"], "ratings": [0.5]});
    assert!(refused("ratings", wild).contains("1, 0, -1 or null (0.5)"));
}

/// A record that cannot be used does not affect the others. A JSON array gives the same chains.
#[test]
fn a_bad_record_is_reported_and_the_rest_is_read() {
    let good = json!({"problem": "p", "steps": ["a"], "label": -1});
    let bad = json!({"problem": "p", "steps": ["a", ""], "label": 0});
    let all = vec![good.clone(), bad, json!(3), good];
    let lines = read(&all);
    assert_eq!((lines.records, lines.chains.len()), (4, 2));
    let rejected: Vec<String> = lines
        .rejected
        .iter()
        .map(|one| format!("{}: {}", one.place, one.reason))
        .collect();
    assert!(rejected[0].starts_with("line 2: field \"steps\": a text is empty"));
    assert!(rejected[0].ends_with("(item 2)"));
    assert!(rejected[1].starts_with("line 3: not an object"));
    let array = serde_json::to_string_pretty(&all).unwrap();
    let array = parse(array.as_bytes(), "f", None).unwrap();
    assert_eq!(array.chains, lines.chains);
    assert_eq!(array.rejected[1].place.to_string(), "item 3");
}

/// A line break may be missing where two files were joined.
#[test]
fn a_line_may_hold_two_records() {
    let record = json!({"problem": "p", "steps": ["a"], "label": -1});
    let lines = format!("{record}{record} {record}\n{record}x");
    let error = parse(lines.as_bytes(), "f", None).unwrap_err().to_string();
    assert!(error.starts_with("f:2: not JSON"), "{error}");
    let read = parse(&lines.as_bytes()[..lines.len() - 1], "f", None).unwrap();
    assert_eq!(read.chains.len(), 4);
    assert_eq!(read.places[2].to_string(), "line 1");
}
