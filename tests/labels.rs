//! Tests of `beamgen labels`: counting, converting and splitting files of labelled chains.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::run::Place;

/// Chains of ten problems with ratings; the first step of each has a contradicting repeat.
fn ratings(place: &Place) {
    let mut lines = String::new();
    for i in 0..10 {
        let chain = json!({"problem": format!("Problem ${i}$"), "steps": ["a", "b", "c"], "ratings": [1, 0, -1]});
        let repeat = json!({"problem": format!("Problem ${i}$"), "steps": ["a"], "ratings": [-1]});
        lines += &format!("{chain}\n{repeat}\n");
    }
    place.write("ratings.jsonl", lines);
}

pub(crate) fn lines(place: &Place, name: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).expect("JSON");
    place.read(name).lines().map(parse).collect()
}

#[test]
fn counts_are_shown_as_a_table_and_as_json() {
    let place = Place::new();
    ratings(&place);
    let row = place
        .run(&["labels", "stat", "ratings.jsonl", "--json"])
        .ok()
        .json()
        .remove(0);
    for (field, count) in [
        ("records", 20),
        ("chains", 20),
        ("problems", 10),
        ("labels", 40),
        ("positive", 10),
        ("between", 10),
        ("negative", 20),
        ("distinct", 30),
        ("repeats", 10),
        ("contradictions", 10),
    ] {
        assert_eq!(row[field], count, "{field}");
    }
    assert_eq!(row["format"], "ratings");
    let table = place.run(&["labels", "stat", "ratings.jsonl"]).ok().stdout;
    assert!(table.contains("ratings.jsonl, format ratings"), "{table}");
    let shown = table
        .lines()
        .find(|line| line.contains("- (0)"))
        .expect("a row");
    assert!(shown.ends_with("20   50.0 %"), "{shown}");
    let args = [
        "labels",
        "stat",
        "ratings.jsonl",
        "--json",
        "--neutral",
        "drop",
        "--first-error-only",
    ];
    let row = place.run(&args).ok().json().remove(0);
    assert_eq!((&row["labels"], &row["between"]), (&json!(30), &json!(0)));
}

#[test]
fn chains_are_written_in_other_formats_and_read_again() {
    let place = Place::new();
    ratings(&place);
    for (to, neutral, labels) in [
        ("trl", "positive", [20, 0, 20]),
        ("trl", "drop", [10, 0, 20]),
        ("trl", "half", [10, 10, 20]),
        ("math-shepherd", "negative", [10, 0, 30]),
        ("rlhflow", "positive", [20, 0, 20]),
    ] {
        let args = [
            "labels",
            "convert",
            "ratings.jsonl",
            "--to",
            to,
            "--neutral",
            neutral,
            "--out",
            "out.jsonl",
        ];
        let ran = place.run(&args).ok();
        assert!(
            ran.stderr
                .contains(&format!("20 of 20 chains written as {to}")),
            "{}",
            ran.stderr
        );
        assert_eq!(
            ran.stderr.contains("int(label)"),
            neutral == "half",
            "{}",
            ran.stderr
        );
        let row = place
            .run(&["labels", "stat", "out.jsonl", "--json"])
            .ok()
            .json()
            .remove(0);
        let found =
            ["positive", "between", "negative"].map(|field| row[field].as_u64().expect("a count"));
        assert_eq!(
            (row["format"].as_str(), found),
            (Some(to), labels),
            "{neutral}"
        );
    }
    // Through the own format nothing is lost.
    place
        .run(&[
            "labels",
            "convert",
            "ratings.jsonl",
            "--to",
            "beamgen",
            "--out",
            "own.jsonl",
        ])
        .ok();
    let to_trl = |from: &str| {
        place
            .run(&["labels", "convert", from, "--to", "trl", "--out", "-"])
            .ok()
            .stdout
    };
    assert_eq!(to_trl("own.jsonl"), to_trl("ratings.jsonl"));
    assert_eq!(
        lines(&place, "own.jsonl")[0]["steps"][1],
        json!({"text": "b", "rating": 0})
    );
}

#[test]
fn an_alternative_is_a_chain_with_one_label() {
    let place = Place::new();
    let step = |text: &str, rating: i32| json!({"text": text, "rating": rating});
    let record = json!({
        "question": {"problem": "p"},
        "label": {"finish_reason": "solution", "steps": [
            {"completions": [step("a", 1)], "chosen_completion": 0},
            {"completions": [step("b", 1), step("c", -1)], "chosen_completion": 0},
        ]},
    });
    place.write("prm800k.jsonl", format!("{record}\n"));
    let convert = [
        "labels",
        "convert",
        "prm800k.jsonl",
        "--to",
        "trl",
        "--out",
        "-",
    ];
    let path = place.run(&convert).ok().json();
    assert_eq!(
        path,
        [json!({"prompt": "p", "completions": ["a", "b"], "labels": [true, true]})]
    );
    let all = place
        .run(&[&convert[..], &["--alternatives"]].concat())
        .ok()
        .json();
    assert_eq!(all[0]["labels"], json!([1, 1]));
    assert_eq!(
        all[1],
        json!({"prompt": "p", "completions": ["a", "c"], "labels": [-100, 0]})
    );
}

#[test]
fn rollouts_become_the_labels_that_are_asked_for() {
    let place = Place::new();
    let step = |k: u32| json!({"text": "a", "rollouts": {"n": 8, "k": k}});
    place.write(
        "own.jsonl",
        json!({"problem": "p", "steps": [step(8), step(2), step(0)]}).to_string(),
    );
    for (rule, labels) in [
        ("hard", json!([true, true, false])),
        ("soft", json!([1.0, 0.25, 0.0])),
        ("threshold=0.25", json!([true, false, false])),
        ("ratio=0.2", json!([true, true, false])),
        ("ratio=0.8", json!([true, false, false])),
    ] {
        let args = [
            "labels",
            "convert",
            "own.jsonl",
            "--to",
            "trl",
            "--out",
            "-",
            "--rollout-label",
            rule,
        ];
        assert_eq!(place.run(&args).ok().json()[0]["labels"], labels, "{rule}");
    }
}

#[test]
fn rejected_records_are_named_with_their_reasons() {
    let place = Place::new();
    let good = json!({"problem": "p", "steps": ["a"], "label": -1});
    let bad = json!({"problem": "p", "steps": ["a"], "label": 4});
    place.write("some.json", json!([good, bad, {"problem": ""}]).to_string());
    let ran = place
        .run(&[
            "labels",
            "stat",
            "some.json",
            "--json",
            "--rejected",
            "bad.jsonl",
        ])
        .ok();
    let notes: Vec<&str> = ran.stderr.lines().collect();
    assert!(
        notes[0].starts_with("some.json: item 2: rejected: field \"label\""),
        "{}",
        ran.stderr
    );
    assert!(
        notes[1].contains("item 3") && notes.len() == 2,
        "{}",
        ran.stderr
    );
    let rejected = lines(&place, "bad.jsonl");
    assert_eq!(
        (&rejected[0]["file"], &rejected[0]["place"]),
        (&json!("some.json"), &json!("item 2"))
    );
    let row = &ran.json()[0];
    assert_eq!((&row["records"], &row["chains"]), (&json!(3), &json!(1)));
    assert_eq!(
        row["rejected"].as_object().map(serde_json::Map::len),
        Some(2)
    );
    // Of many there are some, and how many of each kind.
    let all = std::iter::once(good).chain(std::iter::repeat_n(bad, 50));
    place.write(
        "many.json",
        Value::from(all.collect::<Vec<_>>()).to_string(),
    );
    let ran = place.run(&["labels", "stat", "many.json"]).ok();
    assert_eq!(ran.stderr.lines().count(), 12, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("50 rejected: field \"label\""),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("--rejected FILE"), "{}", ran.stderr);
}

#[test]
fn a_split_parts_no_problem_and_leaves_benchmarks_out() {
    let place = Place::new();
    ratings(&place);
    let benchmark: String = (0..5)
        .map(|i| format!("{}\n", json!({"question": format!("problem \\({i}\\)")})))
        .collect();
    place.write("benchmark.jsonl", benchmark);
    let args = [
        "labels",
        "split",
        "ratings.jsonl",
        "--train-out",
        "train.jsonl",
        "--test-out",
        "test.jsonl",
        "--share",
        "0.3",
        "--seed",
        "5",
    ];
    let problems = |name: &str| -> BTreeSet<String> {
        lines(&place, name)
            .iter()
            .map(|row| row["problem"].to_string())
            .collect()
    };
    let ran = place.run(&args).ok();
    assert!(
        ran.stderr.contains("train: 14 chains of 7 problems"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("test: 6 chains of 3 problems"),
        "{}",
        ran.stderr
    );
    let (train, test) = (problems("train.jsonl"), problems("test.jsonl"));
    assert!(train.is_disjoint(&test) && train.len() + test.len() == 10);
    let ran = place
        .run(&[&args[..], &["--exclude", "benchmark.jsonl"]].concat())
        .ok();
    assert!(
        ran.stderr
            .contains("benchmark.jsonl: 5 problems, 5 of them here"),
        "{}",
        ran.stderr
    );
    assert_eq!(problems("test.jsonl"), test);
    let left = problems("train.jsonl");
    let benchmark: BTreeSet<String> = (0..5).map(|i| format!("\"Problem ${i}$\"")).collect();
    assert!(left.is_disjoint(&benchmark) && left.is_subset(&train));
    let out = train.len() - left.len();
    assert!(
        out >= 2
            && ran
                .stderr
                .contains(&format!("taken out: {} chains of {out}", 2 * out)),
        "{}",
        ran.stderr
    );
}

#[test]
fn files_and_flags_of_no_use() {
    let place = Place::new();
    ratings(&place);
    place.write("deep.jsonl", "[".repeat(100_000));
    place.write(
        "deep_line.jsonl",
        format!("{{\"steps\": {}", "[".repeat(100_000)),
    );
    place.write(
        "nan.jsonl",
        "{\"problem\": \"p\", \"steps\": [{\"text\": \"a\", \"soft\": NaN}]}",
    );
    place.write(
        "apart.jsonl",
        json!({"input": "Q Step 1: a ки", "label": "Q Step 1: b +"}).to_string(),
    );
    place.write("empty.jsonl", "");
    place.write("other.jsonl", "{\"text\": \"a\"}");
    place.write(
        "zero.jsonl",
        json!({"problem": "p", "steps": ["a", "b"], "ratings": [null, 0]}).to_string(),
    );
    let cases: [(&str, &[&str]); 8] = [
        ("deep.jsonl", &["deep.jsonl", "recursion limit"]),
        ("deep_line.jsonl", &["deep_line.jsonl:1", "recursion limit"]),
        ("nan.jsonl", &["nan.jsonl:1", "not JSON"]),
        (
            "apart.jsonl",
            &["apart.jsonl:1", "not the input with + or -"],
        ),
        ("empty.jsonl", &["empty.jsonl", "no chains"]),
        (
            "other.jsonl",
            &["other.jsonl:1", "(fields: text)", "unknown format"],
        ),
        ("none.jsonl", &["none.jsonl", "No such file"]),
        ("/dev/zero", &["/dev/zero", "not a regular file"]),
    ];
    for (file, words) in cases {
        place
            .run_within_a_minute(&["labels", "stat", file])
            .assert_refused(file, words);
        let split = [
            "labels",
            "split",
            file,
            "--train-out",
            "a",
            "--test-out",
            "b",
        ];
        place
            .run_within_a_minute(&split)
            .assert_refused(file, words);
    }
    let convert = |more: &[&str]| {
        place.run(
            &[
                &["labels", "convert", "ratings.jsonl", "--out", "out.jsonl"],
                more,
            ]
            .concat(),
        )
    };
    for (more, words) in [
        (&["--to", "ratings"][..], &["ratings", "trl"][..]),
        (&["--to", "beamgen", "--neutral", "drop"], &["raw facts"]),
        (
            &["--to", "trl", "--rollout-label", "most"],
            &["threshold=X"],
        ),
        (
            &["--to", "trl", "--rollout-label", "ratio=NaN"],
            &["above 0"],
        ),
        (
            &["--to", "trl", "--from", "nothing"],
            &["nothing", "prm800k"],
        ),
        (
            &["--to", "trl", "--from", "rlhflow"],
            &[".jsonl:1:", "conversations"],
        ),
    ] {
        convert(more).assert_refused(&format!("{more:?}"), words);
    }
    let over = [
        "labels",
        "convert",
        "ratings.jsonl",
        "--to",
        "trl",
        "--out",
        "ratings.jsonl",
    ];
    place
        .run(&over)
        .assert_refused("over its input", &["is an input, too"]);
    let split = |more: &[&str]| {
        let both = [
            "labels",
            "split",
            "ratings.jsonl",
            "--train-out",
            "a",
            "--test-out",
        ];
        place.run(&[&both[..], more].concat())
    };
    split(&["a"]).assert_refused("one file", &["same file"]);
    split(&["b", "--share", "1"]).assert_refused("a share", &["between 0 and 1"]);
    split(&["b", "--exclude", "other.jsonl"])
        .assert_refused("no benchmark", &["other.jsonl", "no problems"]);
    let ran = place.run(&[
        "labels",
        "convert",
        "zero.jsonl",
        "--to",
        "rlhflow",
        "--out",
        "out.jsonl",
    ]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains("step 1") && ran.stderr.contains("none of the chains"),
        "{}",
        ran.stderr
    );
}

#[test]
fn chains_of_some_levels_alone_are_kept_if_it_is_asked_for() {
    let place = Place::new();
    let chains = ["problems", "--count", "40", "--seed", "31", "--steps"];
    place.write("world.jsonl", place.run(&chains).ok().stdout);
    let stat = place.run(&["labels", "stat", "world.jsonl", "--json"]);
    let levels = stat.ok().json().remove(0)["levels"].take();
    let count = |level: &str| levels[level].as_u64().expect("a count") as usize;
    let convert = |level: &str| {
        place.run(&[
            "labels",
            "convert",
            "world.jsonl",
            "--to",
            "beamgen",
            "--out",
            "some.jsonl",
            "--level",
            level,
        ])
    };
    convert("3 people,5 people").ok();
    let some = lines(&place, "some.jsonl");
    assert_eq!(some.len(), count("3 people") + count("5 people"));
    for chain in &some {
        let facts = chain["problem"]
            .as_str()
            .expect("a text")
            .matches(" has ")
            .count();
        let named = chain["level"].as_str().expect("a level");
        assert_eq!(named, format!("{facts} people"));
    }
    convert("Level 9").assert_refused("no such level", &["Level 9", "3 people"]);
}
