//! `beamgen calibrate` and what acts on it, on the bundled models.

use serde_json::Value;

use crate::run::{Place, Ran};

/// A place with a calibration of the bundled reward model, `cal.json`, fitted to a few chains at
/// temperature 1.
pub(crate) fn calibrated() -> (Place, Ran) {
    let place = Place::new();
    let problems = place
        .run(&["problems", "--count", "24", "--seed", "11"])
        .ok();
    place.write("fit.jsonl", problems.stdout);
    let label = [
        "label",
        "fit.jsonl",
        "--chains",
        "3",
        "--rollouts",
        "4",
        "--temperature",
        "1",
        "--out",
        "l.jsonl",
    ];
    place.run(&label).ok();
    let ran = place
        .run(&["calibrate", "--data", "l.jsonl", "--out", "cal.json"])
        .ok();
    (place, ran)
}

fn calibration(place: &Place) -> Value {
    serde_json::from_str(&place.read("cal.json")).expect("JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn held_out_scores_become_better_probabilities_of_success() {
    let (place, ran) = calibrated();
    assert!(ran.stdout.contains("held out"), "{}", ran.stdout);
    let held = &calibration(&place)["held_out"];
    for measure in ["brier", "ece"] {
        let (before, after) = (
            number(&held["before"][measure]),
            number(&held["after"][measure]),
        );
        assert!(after < before, "{measure}: {after} after, {before} before");
    }
    assert!(number(&held["problems"]) >= 4.0);
    let policy = &calibration(&place)["policy"];
    assert_eq!(policy["temperature"], 1.0);
    // Labels of another policy are told apart.
    let none = place.run(&[
        "calibrate",
        "--data",
        "l.jsonl",
        "--policy",
        "@0.5",
        "--out",
        "x.json",
    ]);
    assert_eq!(none.code, Some(2));
    assert!(
        none.stderr.contains("no chain of such a policy"),
        "{}",
        none.stderr
    );
}

#[test]
fn the_lower_quantile_is_the_score_and_steps_are_told_sure() {
    let (place, _) = calibrated();
    let run = |more: &[&str]| {
        let fixed = [
            "solve",
            "--limit",
            "3",
            "-n",
            "8",
            "--temperature",
            "1",
            "--calibration",
            "cal.json",
        ];
        place.run(&[&fixed[..], more].concat()).ok()
    };
    let lower = run(&["--score-as", "lower", "--json"]).json();
    let raw = run(&["--json"]).json();
    let records = lower.iter().filter(|line| line.get("id").is_some());
    for step in records.flat_map(|line| line["steps"].as_array().expect("steps")) {
        let quantiles: Vec<f64> = step["quantiles"]
            .as_array()
            .expect("quantiles")
            .iter()
            .map(number)
            .collect();
        assert!(quantiles.is_sorted(), "{step}");
        assert_eq!(number(&step["score"]), quantiles[0]);
    }
    // What is only shown changes no score.
    let plain = place.run(&[
        "solve",
        "--limit",
        "3",
        "-n",
        "8",
        "--temperature",
        "1",
        "--json",
    ]);
    for (a, b) in raw.iter().zip(plain.ok().json()) {
        assert_eq!(a.get("score"), b.get("score"));
    }
    // A map was fitted to the lowest score so far; of quantiles the newest counts, whatever is written.
    for (score_as, aggregation, warns) in [
        ("calibrated", "min", false),
        ("calibrated", "last", true),
        ("lower", "last", false),
        ("lower", "min", false),
    ] {
        let ran = run(&["--score-as", score_as, "--aggregation", aggregation]);
        let warned = ran.stderr.contains("was fitted for aggregation");
        assert_eq!(warned, warns, "{score_as}, {aggregation}: {}", ran.stderr);
    }
    let scores = |aggregation: &str| -> Vec<Value> {
        let search = ["--score-as", "lower", "--aggregation", aggregation];
        let lines = run(&[&search[..], &["--json"]].concat()).json();
        lines.iter().map(|line| line["score"].clone()).collect()
    };
    assert_eq!(scores("min"), scores("last"));
    let orm = [
        "calibrate",
        "--data",
        "l.jsonl",
        "--set",
        "models.scorer=\"orm\"",
        "--out",
        "orm.json",
    ];
    place.run(&orm).ok();
    let orm: Value = serde_json::from_str(&place.read("orm.json")).expect("JSON");
    assert_eq!(orm["aggregation"], "last");
}

#[test]
fn another_policy_is_warned_of_and_what_lacks_a_calibration_is_refused() {
    let (place, _) = calibrated();
    let args = [
        "solve",
        "--limit",
        "1",
        "--calibration",
        "cal.json",
        "--temperature",
        "0.5",
    ];
    let ran = place.run(&args).ok();
    assert!(
        ran.stderr
            .contains("warning: cal.json was fitted to the policy"),
        "{}",
        ran.stderr
    );
    for args in [
        &["solve", "--limit", "1", "--score-as", "lower"][..],
        &["solve", "--limit", "1", "--max-error", "0.05"],
        &[
            "solve",
            "--limit",
            "1",
            "--max-error",
            "0.05",
            "--calibration",
            "cal.json",
        ],
        &[
            "solve",
            "--limit",
            "1",
            "--calibration",
            "l.jsonl",
            "--score-as",
            "lower",
        ],
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn answers_are_withheld_at_a_stated_error_and_samples_drawn_as_needed() {
    let (place, _) = calibrated();
    let search = [
        "--strategy",
        "best-of-n",
        "-n",
        "16",
        "--temperature",
        "1",
        "--calibration",
        "cal.json",
        "--score-as",
        "calibrated",
    ];
    let solve = |more: &[&str]| place.run(&[&["solve"], more, &search[..]].concat()).ok();
    solve(&["-q", "--out", "run.jsonl"]);
    let added = place
        .run(&[
            "calibrate",
            "--runs",
            "run.jsonl",
            "--check",
            "run.jsonl",
            "--max-error",
            "0.2",
            "--out",
            "cal.json",
        ])
        .ok();
    assert!(added.stdout.contains("checked on"), "{}", added.stdout);
    let summary = |ran: Ran| ran.json().last().expect("a summary")["summary"].clone();
    let all = summary(solve(&["--json"]));
    let some = summary(solve(&["--json", "--max-error", "0.2"]));
    assert!(number(&some["withheld"]) >= number(&all["withheld"]));
    let given = number(&some["problems"]) - number(&some["withheld"]);
    let wrong = given - number(&some["correct"]);
    assert!(wrong <= 0.2 * given, "{wrong} of {given}");
    let adaptive = summary(solve(&["--json", "--confidence", "0.8"]));
    let tokens = |summary: &Value| number(&summary["ledger"]["generated_tokens"]);
    assert!(tokens(&adaptive) < tokens(&all));
}

#[test]
fn sampling_ends_at_the_score_that_single_chains_need_for_the_wanted_confidence() {
    let (place, _) = calibrated();
    let problems = place.run(&["problems", "--count", "150", "--seed", "5"]);
    place.write("more.jsonl", problems.ok().stdout);
    let solve = |n: &str, more: &[&str]| {
        let search = ["--strategy", "best-of-n", "--temperature", "1", "-n", n];
        place.run(&[&["solve", "more.jsonl"], more, &search[..]].concat())
    };
    let confident = ["--json", "--calibration", "cal.json", "--confidence", "0.9"];
    let refused = solve("16", &confident);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    for words in ["n = 1", "calibrate --runs", "--out cal.json"] {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    solve("1", &["-q", "--out", "single.jsonl"]).ok();
    let add = ["calibrate", "--runs", "single.jsonl", "--out", "cal.json"];
    place.run(&add).ok();
    let summary = |ran: Ran| ran.ok().json().last().expect("a summary")["summary"].clone();
    let all = summary(solve("16", &["--json"]));
    let some = summary(solve("16", &confident));
    let tokens = |summary: &Value| number(&summary["ledger"]["generated_tokens"]);
    assert!(tokens(&some) < 0.8 * tokens(&all), "{some} {all}");
    assert!(number(&some["correct"]) >= 0.9 * number(&all["correct"]));
}

#[test]
fn a_report_shows_scores_before_and_after() {
    let (place, _) = calibrated();
    let args = [
        "eval-prm",
        "--data",
        "l.jsonl",
        "--rollout-label",
        "soft",
        "--calibration",
        "cal.json",
        "--report",
        "out",
    ];
    place.run(&args).ok();
    let results: Value = serde_json::from_str(&place.read("out/results.json")).expect("JSON");
    let set = &results["sets"][0];
    let brier = |of: &Value| number(&of["figures"]["brier"]["value"]);
    assert!(brier(&set["calibrated"]["model"]) < brier(&set["model"]));
    assert!(place.read("out/report.md").contains("calibrated"));
    place.run(&["eval-prm", "--redraw", "out"]).ok();
}

#[test]
fn labels_without_a_policy_calibrate_too() {
    let place = Place::new();
    let chains = ["problems", "--steps", "--count", "200", "--seed", "9"];
    place.write("world.jsonl", place.run(&chains).ok().stdout);
    let fit = ["calibrate", "--data", "world.jsonl", "--out", "cal.json"];
    let told = place.run(&fit).ok().stdout;
    let expected = "policy unknown (the labels name none): fitted to ";
    assert!(told.starts_with(expected), "{told}");
}
