use std::path::{Path, PathBuf};

use beamgen::Config;
use beamgen::checkers::{Arithmetic, Panel, PerStep};
use beamgen::scorer::{ExactScorer, PerStep as Steps, ScoreError, StepScorer};
use beamgen::{Aggregation, Problem};
use serde_json::json;

use super::*;
use crate::report::about::tests::this;
use crate::report::markdown::figures;

fn pool(folder: &Path, name: &str, lines: &[serde_json::Value]) -> PathBuf {
    let path = folder.join(name);
    let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
    std::fs::write(&path, text.join("\n")).expect("written");
    path
}

fn accuracy(report: &Report, selector: &str) -> f64 {
    let row = report.table.iter().find(|row| row.selector == selector);
    let row = row.unwrap_or_else(|| panic!("{selector}: {:?}", report.table));
    (row.accuracy * 1e6).round() / 1e6
}

/// Qwen2.5-Math's evaluation publishes these means for the file. It breaks ties as this module does: among equal
/// votes the first answer wins, and among equal scores the first response.
#[test]
fn the_pool_of_qwen_has_its_published_means() {
    let Some(path) = beamgen_test_support::shared("data/qwen_rm_maj_100.jsonl") else {
        return;
    };
    let pools = Pools::open(&[path], None, &Config::default()).expect("a pool");
    assert_eq!(pools.solutions(), 800);
    let report = pools.report();
    let means = ["single sample", "majority", "file, best", "pass@k"];
    let means = means.map(|selector| accuracy(&report, selector));
    assert_eq!(means, [0.91, 0.93, 0.94, 0.96]);
    assert!(report.outline.sets[0].log_odds && report.outline.sets[0].gives_answers);
    assert_eq!(report.disagreements.len(), 1);
}

/// The file's right and the grader's, votes, scores that are log-odds, and lengths.
#[test]
fn every_selector_chooses_by_its_rule() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = [
        json!({
            "question": "a", "gt": "2", "code": ["2, I say", "short 3", "3 again", "2."],
            "pred": ["2", "3", "3", "2"], "score": [true, false, false, true], "pred_score": [1.0, 2.0, -1.0, 1.5],
        }),
        json!({
            "question": "b", "gt": "1/2", "code": ["x", "longer", "the longest"],
            "pred": ["0.5", "1", "7"], "score": [false, true, false], "pred_score": [-3.0, -1.0, -2.0],
        }),
    ];
    let path = pool(folder.path(), "q.jsonl", &lines);
    let report = Pools::open(&[&path], None, &Config::default())
        .expect("a pool")
        .report();
    for (selector, want) in [
        ("single sample", (0.5 + 1.0 / 3.0) / 2.0),
        ("pass@k", 1.0),
        // Votes are equal: the answer that comes first has them, which is wrong in the second.
        ("majority", 0.5),
        ("shortest", 0.5),
        ("longest", 0.5),
        ("file, best", 0.5),
        // Weights are sigmoids: 2 and 2 of 0.73 and 0.82 against 0.88 and 0.27.
        ("file, weighted", 1.0),
    ] {
        let want = f64::round(want * 1e6) / 1e6;
        assert_eq!(accuracy(&report, selector), want, "{selector}");
    }
    assert_eq!(report.counts[0].tied, 2);
    let all = &report.disagreements[0];
    assert_eq!((all.file_right, all.grader_right), (1, 1));
    assert_eq!(all.listed.len(), 2);
    assert_eq!(all.listed[0].answer.as_deref(), Some("0.5"));
    let ks: Vec<(usize, usize)> = report.over_k[0]
        .at
        .iter()
        .map(|at| (at.k, at.problems))
        .collect();
    assert_eq!(ks, [(1, 2), (2, 2), (4, 1)]);
    let over = report.table.iter().map(|row| row.over_majority);
    assert_eq!(over.filter(Option::is_none).count(), 1);
}

/// Gives a step the number of its digits, as a share.
struct Digits(usize);

impl StepScorer for Digits {
    fn score(&mut self, _: &Problem, steps: &[&str]) -> Result<f32, ScoreError> {
        self.0 += 1;
        let digits = steps
            .last()
            .map_or(0, |step| step.chars().filter(char::is_ascii_digit).count());
        Ok(digits as f32 / 16.0)
    }
}

/// A folder is drawn again from its rows; texts are cut into steps, equal ones are scored once, and
/// checkers veto.
#[test]
fn steps_are_scored_once_checked_and_drawn_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let solutions = json!([
        "1 + 1 = 3\nThe answer is 2.",
        "1 + 1 = 2\nThe answer is 2.",
        "123 + 1 = 124\nThe answer is 4.",
        "123 + 1 = 124\nThe answer is 4.",
    ]);
    let lines = [
        json!({"problem": "1 + 1 | <b>?", "answer": "2", "solutions": solutions}),
        json!({"problem": "2 + 2?", "answer": "4", "solutions": ["2 + 2 = 5\nThe answer is 4."]}),
    ];
    let path = pool(folder.path(), "my pool.jsonl", &lines);
    let read = || Pools::open(&[&path], None, &Config::default()).expect("a pool");
    let mut pools = read();
    let mut scorer = Steps::new(Digits(0));
    pools
        .score("digits", (&mut scorer, "a | model"), false, &mut ())
        .expect("scored");
    assert!(
        pools
            .score("digits", (&mut scorer, "again"), false, &mut ())
            .is_err()
    );
    let mut panel = Panel::default();
    panel.add("arithmetic", Box::new(PerStep::<Arithmetic>::default()));
    pools.check(&mut panel, &mut ()).expect("checked");
    let out = folder.path().join("out");
    create(&out).expect("a folder");
    let report = pools.write(&out, &this()).expect("written");
    assert!(create(&out).is_err());
    // 3 and 1 digits of the right ones, 7 and 1 of the wrong.
    assert_eq!(accuracy(&report, "digits min, best"), 1.0);
    assert_eq!(accuracy(&report, "digits mean, best"), 0.5);
    assert_eq!(accuracy(&report, "digits mean, weighted"), 0.5);
    assert_eq!(accuracy(&report, "majority"), 1.0);
    assert_eq!(accuracy(&report, "majority, veto"), 0.5);
    let majority = report.table.iter().find(|row| row.selector == "majority");
    // The first solution represents its answer, and its first step is wrong; so is the other one's.
    assert_eq!(majority.and_then(|row| row.sound), Some(0.0));
    let count = &report.counts[0];
    assert_eq!(
        (count.right, count.right_unsound, count.vetoed),
        (3, Some(2), Some(2))
    );
    let text = std::fs::read_to_string(out.join("README.md")).expect("a report");
    for word in [
        "digits soft-min, weighted",
        "![Accuracy over k (my-pool)](over-k.svg)",
        "<code>a &#124; model</code>",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("NaN") && !figures(&text).is_empty());
    for (figure, low, high) in figures(&text) {
        assert!(low <= figure && figure <= high, "{figure} {low} {high}");
    }
    let files = [
        "README.md",
        "results.json",
        "index.html",
        "over-k.svg",
        "over-majority.svg",
    ];
    let all = || files.map(|file| std::fs::read(out.join(file)).expect("a file"));
    let before = all();
    assert!(is_pool(&out));
    redraw(&out).expect("drawn");
    assert_eq!(all(), before);
    // Rows that do not go together are refused by their line.
    let rows = std::fs::read_to_string(out.join("rows.jsonl")).expect("rows");
    std::fs::write(
        out.join("rows.jsonl"),
        rows.replacen("\"right\":\"", "\"right\":\"1", 1),
    )
    .expect("written");
    let fault = redraw(&out).expect_err("uneven").to_string();
    assert!(
        fault.contains("line 1: field \"answers\": 4 items for 5 solutions"),
        "{fault}"
    );
}

#[test]
fn people_s_labels_say_what_is_sound_and_a_judge_of_ends_counts_by_its_last_score() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = [
        json!({"problem": "p", "steps": ["1 + 1 = 2", "so 2"], "final_answer_correct": true, "label": 0}),
        json!({"problem": "q", "steps": ["1", "22"], "final_answer_correct": true, "label": -1}),
    ];
    let path = pool(folder.path(), "pb.jsonl", &lines);
    let mut pools = Pools::open(&[&path, &path], None, &Config::default()).expect("pools");
    let mut scorer = Steps::new(Digits(0));
    pools
        .score("ends", (&mut scorer, "m"), true, &mut ())
        .expect("scored");
    let report = pools.report();
    let names: Vec<&str> = report.outline.sets.iter().map(|set| &*set.name).collect();
    assert_eq!(names, ["pb", "pb-2"]);
    assert_eq!(accuracy(&report, "ends, best"), 1.0);
    assert!(report.table.iter().all(|row| row.sound == Some(0.5)));
}

/// A scorer that refuses chains with a long last step.
struct Short;

impl StepScorer for Short {
    fn score(&mut self, _: &Problem, steps: &[&str]) -> Result<f32, ScoreError> {
        match steps.last() {
            Some(step) if step.len() < 4 => Ok(0.25),
            _ => Err(ScoreError::Failed("too long".into())),
        }
    }
}

#[derive(Default)]
struct Told(Vec<String>);

impl crate::Watch for Told {
    fn refused(&mut self, chain: &str, reason: &ScoreError) {
        self.0.push(format!("{chain}: {reason}"));
    }
}

#[test]
fn what_a_scorer_refuses_comes_last_and_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let solutions = json!(["It is 1.", "It is 2.", "3"]);
    let line = json!({"problem": "p", "answer": "3", "solutions": solutions});
    let path = pool(folder.path(), "p.jsonl", &[line]);
    let mut pools = Pools::open(&[&path], None, &Config::default()).expect("a pool");
    let mut told = Told::default();
    pools
        .score("short", (&mut Steps::new(Short), "m"), false, &mut told)
        .expect("scored");
    assert_eq!(told.0.len(), 1, "{:?}", told.0);
    assert!(told.0[0].starts_with("1, solution 1: "), "{:?}", told.0);
    assert_eq!(pools.outline.scorers[0].refused, 2);
    let report = pools.report();
    assert_eq!(accuracy(&report, "short, best"), 1.0);
    assert_eq!(accuracy(&report, "short, weighted"), 1.0);
    let line = json!({"problem": "p", "answer": "3", "solutions": ["It is 3."]});
    let path = pool(folder.path(), "q.jsonl", &[line]);
    let mut pools = Pools::open(&[&path], None, &Config::default()).expect("a pool");
    pools
        .score("short", (&mut Steps::new(Short), "m"), false, &mut ())
        .expect("asked");
    let names = pools.report().table.into_iter().map(|row| row.selector);
    assert!(
        names
            .collect::<Vec<_>>()
            .iter()
            .all(|name| !name.contains("short,"))
    );
}

#[test]
fn a_pool_has_no_generator_to_ask() {
    let mut config = Config::default();
    config.search.aggregation = Aggregation::LikelyMin { weight: 1.0 };
    let fault = Pools::open(&["none.jsonl"; 0], None, &config).err();
    assert!(fault.expect("refused").to_string().contains("likely-min"));
    let missing = Pools::open(&["none.jsonl"], None, &Config::default()).err();
    assert!(missing.expect("refused").to_string().contains("none.jsonl"));
    // It has no steps to score.
    let folder = tempfile::tempdir().expect("a folder");
    let lines = [json!({"problem": "p", "answer": "1", "solutions": ["", "  \n"]})];
    let path = pool(folder.path(), "blank.jsonl", &lines);
    let mut pools = Pools::open(&[path], None, &Config::default()).expect("a pool");
    let scored = pools.score("exact", (&mut ExactScorer::default(), "x"), false, &mut ());
    scored.expect("scored");
    assert_eq!(accuracy(&pools.report(), "majority"), 0.0);
}
