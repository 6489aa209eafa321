//! `beamgen labels`.

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

fn lines(place: &Place, name: &str) -> Vec<Value> {
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
        (
            "deep_line.jsonl",
            &["deep_line.jsonl: line 1", "recursion limit"],
        ),
        ("nan.jsonl", &["nan.jsonl: line 1", "not JSON"]),
        (
            "apart.jsonl",
            &["apart.jsonl: line 1", "not the input with + or -"],
        ),
        ("empty.jsonl", &["empty.jsonl", "no chains"]),
        (
            "other.jsonl",
            &["other.jsonl: line 1", "(fields: text)", "unknown format"],
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
            &["line 1", "conversations"],
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

#[test]
fn labels_that_a_second_opinion_contradicts_can_be_left_out() {
    let place = Place::new();
    let chains = ["problems", "--count", "400", "--seed", "31", "--steps"];
    place.write("world.jsonl", place.run(&chains).ok().stdout);
    let judge = ["labels", "judge", "world.jsonl", "--out", "judged.jsonl"];
    place.run(&judge).ok();
    let judged = lines(&place, "judged.jsonl");
    let scored = place.run(&["score", "world.jsonl"]).ok().json();
    let (mut agreed, mut labels) = (0, 0);
    for (chain, scored) in judged.iter().zip(&scored) {
        let steps = chain["steps"].as_array().expect("steps");
        let scores = scored["scores"].as_array().expect("scores");
        let first_error = chain["first_error"].as_i64().expect("an index");
        for (i, (step, score)) in (0..).zip(steps.iter().zip(scores)) {
            let second = step["opinions"]["bundled"].as_f64().expect("an opinion");
            assert!((second - score.as_f64().expect("a score")).abs() < 1e-6);
            // Behind the first error there is no label.
            if first_error < 0 || i <= first_error {
                labels += 1;
                agreed += usize::from((i != first_error) == (second > 0.5));
            }
        }
    }
    assert!(0 < agreed && agreed < labels, "{agreed} of {labels}");
    let count = |more: &[&str]| {
        let stat = ["labels", "stat", "judged.jsonl", "--json"];
        let row = place.run(&[&stat[..], more].concat()).ok().json().remove(0);
        row["labels"].as_u64().expect("a count") as usize
    };
    assert_eq!(count(&[]), labels);
    assert_eq!(count(&["--agree", "steps"]), agreed);
    let whole = count(&["--agree", "chains"]);
    assert!(0 < whole && whole < labels, "{whole} of {labels}");
    let over = ["labels", "judge", "world.jsonl", "--out", "world.jsonl"];
    place.run(&over).assert_refused("judge", &["world.jsonl"]);
}

#[test]
fn labels_that_a_checker_refutes_can_be_left_out() {
    let place = Place::new();
    let chain = r#"{"problem": "How many?", "steps": ["3 * 4 = 12", "12 + 5 = 18", "Done."], "labels": [1, 1, 0]}"#;
    place.write("labels.jsonl", chain);
    let judge = "labels judge labels.jsonl --out judged.jsonl";
    let judge: Vec<&str> = judge.split(' ').collect();
    let with = |more: &[&str]| place.run(&[&judge[..], more].concat());
    let told = with(&["--checker", "arithmetic"]).ok().stderr;
    assert!(
        told.contains("1 of 1 chains have a step that fails"),
        "{told}"
    );
    let judged = lines(&place, "judged.jsonl").remove(0);
    let said = |at: usize| judged["steps"][at].get("verdicts");
    assert_eq!(said(0), Some(&json!({"arithmetic": "pass"})));
    let fail = said(1).and_then(|said| said["arithmetic"]["fail"].as_str());
    assert!(fail.is_some_and(|reason| reason.contains("17")), "{judged}");
    assert_eq!(said(2), None);
    let stat = ["labels", "stat", "judged.jsonl", "--json"];
    let count = |more: &[&str]| {
        let row = place.run(&[&stat[..], more].concat()).ok().json().remove(0);
        row["labels"].as_u64().expect("a count")
    };
    assert_eq!((count(&[]), count(&["--agree", "known"])), (3, 2));
    // Nothing to refute is no failure, and a reward model is not asked as well.
    let told = with(&["--checker", "consistency"]).ok().stderr;
    assert!(told.contains("0 of 1 chains"), "{told}");
    let both = with(&["--checker", "arithmetic", "--prm", "bundled"]);
    both.assert_refused("both", &["--checker", "--prm"]);
}

/// A chain with facts of every source, and one without any.
const FACTS: &str = r#"{"problem": "p", "outcome": true, "steps": [
    {"text": "a", "ratings": {"anna": {"rating": 1}, "ben": {"rating": 1, "comment": "fine"}},
     "rollouts": {"n": 8, "k": 6}, "verdicts": {"arithmetic": "pass"}, "opinions": {"prm": 0.9, "orm": 0.7}},
    {"text": "b", "rollouts": {"n": 8, "k": 1}, "verdicts": {"arithmetic": {"fail": "2 + 2 is 4"}},
     "opinions": {"prm": 0.2}},
    {"text": "c", "rollouts": {"n": 8, "k": 8}, "opinions": {"prm": 0.6}}]}"#;

#[test]
fn rules_name_the_facts_that_labels_come_from() {
    let place = Place::new();
    place.write("facts.jsonl", FACTS.replace('\n', " "));
    let labels = |rule: &[&str]| {
        let convert = [
            "labels",
            "convert",
            "facts.jsonl",
            "--to",
            "trl",
            "--out",
            "-",
        ];
        let ran = place.run(&[&convert[..], rule].concat()).ok();
        ran.json().remove(0)["labels"].take()
    };
    assert_eq!(labels(&[]), json!([true, true, true]));
    assert_eq!(
        labels(&["--rule", "verdict,rollouts"]),
        json!([true, false])
    );
    assert_eq!(
        labels(&["--rule", "verdict", "--rule", "pass"]),
        json!([true, false])
    );
    assert_eq!(labels(&["--rule", "judge=prm:0.8"]), json!([0.9, 0.2]));
    assert_eq!(labels(&["--rule", "judge"]), json!([0.8, 0.2, 0.6]));
    assert_eq!(
        labels(&["--rule", "V<0.2&judge<0.5,V>0.7&judge>0.5"]),
        json!([true, false, true])
    );
    let stat = [
        "labels",
        "stat",
        "facts.jsonl",
        "--json",
        "--rule",
        "verdict,outcome",
    ];
    let row = place.run(&stat).ok().json().remove(0);
    assert_eq!([&row["right_answers"], &row["right_unsound"]], [1, 1]);
    let facts = json!({
        "rating by anna": 1, "rating by ben": 1, "comment by ben": 1, "rollouts": 3,
        "pass by arithmetic": 1, "fail by arithmetic": 1, "score by prm": 3, "score by orm": 1,
        "chain: outcome": 1,
    });
    assert_eq!((&row["facts"], &row["raters"]), (&facts, &json!(2)));
    // By rollouts nothing is wrong.
    let row = place.run(&stat[..4]).ok().json().remove(0);
    assert_eq!(row["right_unsound"], 0);
    let table = place.run(&["labels", "stat", "facts.jsonl"]).ok().stdout;
    assert!(table.contains("fail by arithmetic"), "{table}");
    for (rule, told) in [("verdicts", "write rating"), ("V<0.2&judge>0.5", "all <")] {
        let ran = place.run(&["labels", "stat", "facts.jsonl", "--rule", rule]);
        ran.assert_refused(rule, &["--rule", told]);
    }
}

#[test]
fn facts_survive_the_own_format_and_chains_for_raters_have_none() {
    let place = Place::new();
    let facts: Value = serde_json::from_str(FACTS).expect("JSON");
    place.write("facts.jsonl", facts.to_string());
    let own = "labels convert facts.jsonl --to beamgen --out own.jsonl";
    place.run(&own.split(' ').collect::<Vec<_>>()).ok();
    assert_eq!(lines(&place, "own.jsonl"), [facts]);
    place
        .run(&["labels", "chains", "facts.jsonl", "--out", "bare.jsonl"])
        .ok();
    let step = |text: &str| json!({"text": text});
    assert_eq!(
        lines(&place, "bare.jsonl"),
        [json!({"problem": "p", "steps": [step("a"), step("b"), step("c")]})]
    );
    // What earlier versions called a second opinion is one.
    let old = r#"{"problem": "p", "steps": [{"text": "a", "right": true, "second": 0.25}], "second_scorer": "bundled"}"#;
    place.write("facts.jsonl", old);
    place.run(&own.split(' ').collect::<Vec<_>>()).ok();
    assert_eq!(
        lines(&place, "own.jsonl")[0]["steps"][0],
        json!({"text": "a", "right": true, "opinions": {"bundled": 0.25}})
    );
    let stat = [
        "labels",
        "stat",
        "facts.jsonl",
        "--json",
        "--agree",
        "steps",
    ];
    assert_eq!(place.run(&stat).ok().json()[0]["labels"], 0);
}

#[test]
fn what_a_judge_says_can_be_the_labels() {
    let place = Place::new();
    let chain = json!({"problem": "How many?", "steps": [
        {"text": "3 * 4 = 12", "rating": 1}, {"text": "12 + 5 = 18", "rating": 1}, {"text": "Done.", "rating": 1}]});
    place.write("l.jsonl", chain.to_string());
    let labels = |more: &[&str]| {
        let judge = ["labels", "judge", "l.jsonl", "--out", "j.jsonl"];
        place.run(&[&judge[..], more].concat()).ok();
        let convert = ["labels", "convert", "j.jsonl", "--to", "trl", "--out", "-"];
        place.run(&convert).ok().json().remove(0)["labels"].take()
    };
    let by_checker = |way| labels(&["--checker", "arithmetic", "--as", way]);
    assert_eq!(by_checker("label"), json!([true, false]));
    assert_eq!(by_checker("veto"), json!([true, false]));
    assert_eq!(
        labels(&["--checker", "arithmetic"]),
        json!([true, true, true])
    );
    let soft = labels(&["--as", "soft"]);
    let soft = soft.as_array().expect("labels");
    let hard = labels(&["--as", "label"]);
    let hard = hard.as_array().expect("labels");
    assert_eq!((soft.len(), hard.len()), (3, 3));
    for (soft, hard) in soft.iter().zip(hard) {
        assert_eq!(soft.as_f64().map(|p| p > 0.5), hard.as_bool());
    }
    assert!(
        soft.iter()
            .any(|p| p.as_f64().is_some_and(|p| p > 0.0 && p < 1.0))
    );
    // The facts of the people stay.
    assert_eq!(lines(&place, "j.jsonl")[0]["steps"][2]["rating"], 1);
    assert_eq!(
        lines(&place, "j.jsonl")[0]["rule"],
        json!(["judge-hard=bundled"])
    );
}

#[test]
fn people_who_rated_the_same_chains_are_compared() {
    let place = Place::new();
    let chain = |problem: &str, ratings: Value| json!({"problem": problem, "steps": ["x", "y"], "ratings": ratings});
    let file = |chains: &[Value]| {
        chains
            .iter()
            .map(|chain| format!("{chain}\n"))
            .collect::<String>()
    };
    let anna = [
        chain("a", json!([1, -1])),
        chain("b", json!([1, 1])),
        chain("c", json!([-1, null])),
    ];
    let ben = [
        chain("a", json!([1, 1])),
        chain("b", json!([1, 1])),
        chain("c", json!([-1, -1])),
    ];
    place.write("anna.jsonl", file(&anna));
    place.write("ben.jsonl", file(&ben));
    let stat = ["labels", "stat", "anna.jsonl", "ben.jsonl"];
    let rows = place.run(&[&stat[..], &["--json"]].concat()).ok().json();
    let agreement = &rows[2]["agreement"];
    assert_eq!(agreement["raters"], json!(["anna.jsonl", "ben.jsonl"]));
    // Steps: 1 and -1 by Anna 3 and 2 times, by Ben 4 and 1; 4 of 5 are equal: (20 - 14) / (25 - 14).
    let steps = &agreement["steps"];
    assert_eq!((&steps["count"], &steps["equal"]), (&json!(5), &json!(4)));
    assert_eq!(steps["kappa"], 6.0 / 11.0);
    // First errors: y, none and x by Anna; none, none and x by Ben: (3 * 2 - 3) / (9 - 3).
    assert_eq!(agreement["first_errors"]["kappa"], 0.5);
    let table = place.run(&stat).ok().stdout;
    assert!(
        table.contains("0.545") && table.contains("0.500"),
        "{table}"
    );
    // One person has nobody to agree with.
    let alone = place.run(&["labels", "stat", "anna.jsonl", "--json"]);
    assert_eq!(alone.ok().json().len(), 1);
}

#[test]
fn rules_hold_wherever_labels_are_read() {
    let place = Place::new();
    let world = ["problems", "--count", "40", "--seed", "11", "--steps"];
    place.write("world.jsonl", place.run(&world).ok().stdout);
    let bare = "labels chains world.jsonl --out bare.jsonl";
    place.run(&bare.split(' ').collect::<Vec<_>>()).ok();
    let judge = "labels judge bare.jsonl --checker arithmetic --out facts.jsonl";
    place.run(&judge.split(' ').collect::<Vec<_>>()).ok();
    let fails = |chain: &Value| chain.to_string().contains("fail");
    let failing = lines(&place, "facts.jsonl")
        .iter()
        .filter(|c| fails(c))
        .count();
    assert!(failing > 0);
    let rule = ["--rule", "verdict,pass"];
    let run = |command: &str, more: &[&str]| {
        let words: Vec<&str> = command.split(' ').collect();
        place.run(&[&words[..], more].concat())
    };
    for command in [
        "eval-prm --data facts.jsonl --json",
        "calibrate --data facts.jsonl --out cal.json",
    ] {
        assert_ne!(run(command, &[]).code, Some(0), "{command}");
        run(command, &rule).ok();
    }
    let check = "check facts.jsonl --checker arithmetic --json";
    let row = |more: &[&str]| run(check, more).ok().json().remove(0);
    let (without, with) = (row(&[]), row(&rule));
    assert_eq!(
        (&without["wrong_chains"], &without["true_fails"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(
        (&with["wrong_chains"], &with["first_mistakes"]),
        (&json!(failing), &json!(failing))
    );
    assert_eq!(with["precision"], 1.0);
}
