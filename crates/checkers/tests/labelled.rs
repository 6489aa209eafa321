//! The built-in checkers fail, in people's and models' solutions, the mistakes that were read by
//! hand, and no more.
//!
//! The data sets are in `../shared/data`, outside the repository; without them the test is skipped.

use std::collections::BTreeSet;

use beamgen_checkers::{CHECKERS, CheckItem, Panel};
use beamgen_test_support::shared;
use serde_json::Value;

/// A file of `shared/data`; `None` after a skip.
fn data(name: &str) -> Option<String> {
    let path = shared(&format!("data/{name}"))?;
    Some(std::fs::read_to_string(path).expect("readable"))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// The steps, `chain.step` from 0, that a checker fails.
fn fails<'a>(
    checker: &str,
    chains: impl Iterator<Item = (&'a str, Vec<&'a str>)>,
) -> BTreeSet<String> {
    let row = CHECKERS
        .iter()
        .find(|row| row.name == checker)
        .expect("a checker");
    let mut panel = Panel::default();
    panel.add(row.name, row.open());
    let mut failed = BTreeSet::new();
    for (chain, (problem, steps)) in chains.enumerate() {
        let id = panel.open(problem);
        let opinions = panel.check(&[CheckItem { id, steps }]);
        panel.release(id);
        for (step, opinions) in opinions[0].iter().enumerate() {
            if opinions.iter().any(|opinion| opinion.verdict.is_fail()) {
                failed.insert(format!("{chain}.{step}"));
            }
        }
    }
    failed
}

/// Chains of records with a text `problem` and a list `steps`.
fn listed<'a>(
    records: &'a [Value],
    problem: &'static str,
    steps: &'static str,
) -> impl Iterator<Item = (&'a str, Vec<&'a str>)> {
    records.iter().map(move |record| {
        let steps = record[steps].as_array().expect("steps");
        let steps = steps.iter().filter_map(Value::as_str);
        (
            record[problem].as_str().expect("a problem"),
            steps.collect(),
        )
    })
}

fn set(steps: &str) -> BTreeSet<String> {
    steps.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn gsm8k_solutions_fail_where_they_are_wrong() {
    let Some(text) = data("gsm8k_train.jsonl") else {
        return;
    };
    let records = lines(&text);
    let chains = records.iter().map(|record| {
        let answer = record["answer"].as_str().expect("an answer");
        let solution = answer.split("\n####").next().expect("a solution");
        (
            record["question"].as_str().expect("a question"),
            solution.split('\n').collect(),
        )
    });
    let want = "168.1 224.0 3002.0 3334.7 3409.1 4691.0 4973.0 5350.2 5781.2 6157.4 6256.1 6700.1 6713.1 \
                6760.3 6812.0 7178.3";
    assert_eq!(fails("arithmetic", chains), set(want));
}

#[test]
fn math_solutions_fail_where_they_are_wrong() {
    let Some(text) = data("math_train.jsonl") else {
        return;
    };
    let records = lines(&text);
    let whole = || {
        records.iter().map(|record| {
            let problem = record["problem"].as_str().expect("a problem");
            (
                problem,
                vec![record["solution"].as_str().expect("a solution")],
            )
        })
    };
    assert_eq!(
        fails("arithmetic", whole()),
        set("1092.0 3495.0 3707.0 3781.0")
    );
    assert_eq!(fails("consistency", whole()), set(""));
    // A fifth mistake is found by itself, not in its whole solution.
    let sentences = || whole().map(|(problem, solution)| (problem, sentences(solution[0])));
    assert_eq!(
        fails("arithmetic", sentences()),
        set("1092.0 3495.4 3707.0 3781.2 5354.2")
    );
    assert_eq!(fails("consistency", sentences()), set(""));
}

/// The sentences of a solution: each but the first begins with a capital letter or mathematics.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(['.', '!', '?']) {
        let after = &text[at + 1..];
        let next = after.trim_start();
        let begins = next.starts_with(|c: char| c.is_ascii_uppercase() || c == '$' || c == '\\');
        if begins && next.len() < after.len() && at >= start {
            sentences.push(&text[start..=at]);
            start = text.len() - next.len();
        }
    }
    sentences.push(&text[start..]);
    sentences
}

#[test]
fn people_s_marks_of_arithmetic_are_kept() {
    let Some(text) = data("bigbench_mistake_arithmetic.jsonl") else {
        return;
    };
    let records = lines(&text);
    let failed = fails("arithmetic", listed(&records, "input", "steps"));
    assert_eq!(failed.len(), 324);
    let first = records.iter().enumerate().filter_map(|(chain, record)| {
        let first = record["mistake_index"].as_u64()?;
        Some(format!("{chain}.{first}"))
    });
    assert_eq!(first.filter(|first| failed.contains(first)).count(), 235);
    assert_eq!(
        fails("consistency", listed(&records, "input", "steps")),
        set("")
    );
}

#[test]
fn model_solutions_fail_where_they_are_wrong() {
    let sets = [
        (
            "processbench_gsm8k.json",
            "arithmetic",
            "7.1 34.3 36.3 38.5 51.5 74.4 77.3 110.4 126.0 134.2 134.3 141.2 141.3 147.1 151.5 198.4",
        ),
        ("processbench_gsm8k.json", "consistency", ""),
        (
            "processbench_math.json",
            "arithmetic",
            "1.12 4.2 6.5 6.6 8.2 32.2 34.14 34.20 34.25 34.29 34.30 66.1 83.3 88.5 97.12 100.1 100.2 101.3 106.11 \
             106.13 119.10 130.3 140.0 146.1 164.4 192.1 204.2 226.5 230.1 234.1 237.4 244.4 272.4 282.1 282.3 \
             282.4 282.5 293.8 304.7 326.2 326.3 344.3 346.1 361.3 362.5 387.5 398.7 398.8 405.4 422.3 427.3 447.0 \
             455.2 483.3 484.3 484.5 652.6 900.1",
        ),
        ("processbench_math.json", "consistency", ""),
        (
            "prm800k_holdout.jsonl",
            "arithmetic",
            "27.12 507.1 635.6 637.13 653.5 700.0 726.6 729.10 742.7 761.7 776.8 809.3 836.2 840.1 852.1 895.20 \
             913.1 1026.13 1028.1 1157.12 1158.12 1190.5 1242.7 1377.7 1402.2 1568.7 1672.5 1764.2 1791.2 1799.2",
        ),
        (
            "prm800k_holdout.jsonl",
            "consistency",
            "1246.7 1488.12 1734.7",
        ),
    ];
    for (name, checker, want) in sets {
        let Some(text) = data(name) else { continue };
        let records = if text.starts_with('[') {
            serde_json::from_str(&text).expect("a list")
        } else {
            lines(&text)
        };
        assert_eq!(
            fails(checker, listed(&records, "problem", "steps")),
            set(want),
            "{checker} of {name}"
        );
    }
}
