//! Tests of the rules that derive labels from recorded facts: scores, verdicts, ratings, outcomes.

use serde_json::{Value, json};

use crate::labels::lines;
use crate::run::Place;

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
            // Steps after the first error have no label.
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
    // If the checker finds nothing wrong, no label is dropped. A reward model cannot be named as
    // well.
    let told = with(&["--checker", "consistency"]).ok().stderr;
    assert!(told.contains("0 of 1 chains"), "{told}");
    let both = with(&["--checker", "arithmetic", "--prm", "bundled"]);
    both.assert_refused("both", &["--checker", "--prm"]);
}

/// A chain with facts of every source and a chain without facts.
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
    // The default rule uses the rollouts, and by these no step is wrong.
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
    // A field `second` of an older version is read as a judge's opinion.
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
    // People's ratings are kept next to the judge's scores.
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
    // Anna rates 1 three times and -1 twice, Ben 4 times and once. 4 of 5 are equal: (20 - 14) /
    // (25 - 14).
    let steps = &agreement["steps"];
    assert_eq!((&steps["count"], &steps["equal"]), (&json!(5), &json!(4)));
    assert_eq!(steps["kappa"], 6.0 / 11.0);
    // The first errors are y, none and x for Anna, and none, none and x for Ben: (3 * 2 - 3) / (9 -
    // 3).
    assert_eq!(agreement["first_errors"]["kappa"], 0.5);
    let table = place.run(&stat).ok().stdout;
    assert!(
        table.contains("0.545") && table.contains("0.500"),
        "{table}"
    );
    // With one person there is no agreement to report.
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
