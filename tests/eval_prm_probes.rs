//! `beamgen eval-prm --probes`.

use serde_json::{Value, json};

use crate::run::{Place, root};
use crate::show_html::assert_self_contained;

fn world(place: &Place, count: &str) {
    let chains = ["problems", "--count", count, "--seed", "31", "--steps"];
    place.write("world.jsonl", place.run(&chains).ok().stdout);
}

/// A probe's row of a set.
fn probe<'a>(set: &'a Value, key: &str) -> &'a Value {
    let probes = set["probes"].as_array().expect("probes");
    let found = probes.iter().find(|probe| probe["key"] == key);
    found.unwrap_or_else(|| panic!("{key} in {set}"))
}

fn value(set: &Value, key: &str, effect: &str) -> f64 {
    let figure = &probe(set, key)["effects"][effect]["value"];
    figure.as_f64().unwrap_or_else(|| panic!("{key} {effect}"))
}

/// The bundled reward model reads numbers: a wrong one, and a question that has others, do not get
/// past it. What one probe gives is what `score` gives of the same chains.
#[test]
fn the_bundled_model_notices_wrong_numbers_and_other_questions() {
    let place = Place::new();
    world(&place, "60");
    let rows = place
        .run(&["eval-prm", "--data", "world.jsonl", "--probes", "--json"])
        .ok()
        .json();
    let set = &rows[0];
    assert_eq!(set["chains"], 60);
    for key in ["wrong-step", "question-swapped", "question-removed"] {
        assert!(value(set, key, "noticed") > 0.7, "{key}: {set}");
        assert!(value(set, key, "chain_change") < -0.4, "{key}");
    }
    assert!(value(set, "wrong-step", "step_change") < -0.4);
    // The smallest score of a chain cannot rise by a step that is put behind it.
    assert_eq!(value(set, "thank-you", "rose"), 0.0);
    let wrong = &probe(set, "wrong-step")["chains"];
    assert!(
        wrong.as_u64() < probe(set, "filler")["chains"].as_u64(),
        "right chains alone"
    );
    let shift = &set["shifts"][0];
    assert_eq!(
        (&shift["key"], &shift["away"]["kinds"]),
        (&json!("harder-level"), &json!(["6 people", "7 people"]))
    );

    // By hand: every chain without its steps but the last.
    let chains = place.read("world.jsonl");
    let last = chains.lines().map(|line| {
        let mut chain: Value = serde_json::from_str(line).expect("JSON");
        let steps = chain["steps"].as_array().expect("steps");
        chain["steps"] = json!([steps.last()]);
        chain.as_object_mut().expect("a chain").remove("label");
        format!("{chain}\n")
    });
    place.write("last.jsonl", last.collect::<String>());
    let scored = place.run(&["score", "last.jsonl"]).ok().json();
    let scores = scored
        .iter()
        .map(|row| row["score"].as_f64().expect("a score"));
    let mean = scores.sum::<f64>() / scored.len() as f64;
    assert!((value(set, "answer-only", "chain_after") - mean).abs() < 1e-6);
}

/// A model of random weights notices nothing, and the report says so in words. Drawn anew from the
/// rows, it is the same.
#[test]
fn a_report_has_the_table_the_plot_and_the_rules_and_is_redrawn_the_same() {
    let place = Place::new();
    world(&place, "80");
    let random = root().join("tests/fixtures/prm/qwen2.5-math-prm");
    let random = random.to_str().expect("a path");
    let args = [
        "eval-prm",
        "--data",
        "world.jsonl",
        "--probes",
        "--aggregation",
        "mean",
        "--report",
        "r",
        "--prm",
        random,
    ];
    let ran = place.run(&args).ok().stdout;
    assert!(
        ran.contains("one giant step") && ran.contains("verdict"),
        "{ran}"
    );
    let text = place.read("r/report.md");
    for words in [
        "## Probes",
        "the `mean` of its steps",
        "| wrong number in a step |",
        "| harder level | 3 people, 4 people, 5 people | 6 people, 7 people |",
        "![probes](probes.svg)",
        "**Verdicts.** With fewer than 10 chains",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_self_contained(&place.read("r/index.html"));
    assert!(place.path("r/probes.png").is_file());
    let results: Value = serde_json::from_str(&place.read("r/results.json")).expect("JSON");
    let set = &results["sets"][0]["probes"];
    assert!(
        value(set, "wrong-step", "chain_change").abs() < 0.05,
        "{set}"
    );
    assert_ne!(probe(set, "wrong-step")["verdict"]["grade"], "sound");
    assert!(
        probe(set, "wrong-step")["chains"].as_u64() > Some(10),
        "{set}"
    );
    let files = ["report.md", "results.json", "index.html", "probes.svg"];
    let before = files.map(|file| place.read(&format!("r/{file}")));
    for file in ["report.md", "index.html", "probes.svg", "probes.png"] {
        std::fs::remove_file(place.path(&format!("r/{file}"))).expect("a file");
    }
    let redrawn = place.run(&["eval-prm", "--redraw", "r"]).ok().stdout;
    assert_eq!(redrawn, ran);
    assert_eq!(files.map(|file| place.read(&format!("r/{file}"))), before);

    let rows = place.read("r/probes.jsonl");
    for (from, to, words) in [
        (
            "\"probe\":\"question-removed\"",
            "\"probe\":\"x\"",
            "\"probe\"",
        ),
        ("\"chain\":0", "\"chain\":999", "\"chain\""),
        ("\"scores\":[0", "\"scores\":[7", "\"scores\""),
    ] {
        assert!(rows.contains(from), "{from}");
        place.write("r/probes.jsonl", rows.replacen(from, to, 1));
        let refused = place.run(&["eval-prm", "--redraw", "r"]);
        refused.assert_refused(to, &["probes.jsonl:", words]);
    }
}

/// Ratings of people, without generators or levels, with one problem only: what needs more is said
/// to be missing, and nothing is made up.
#[test]
fn data_that_cannot_tell_get_no_verdict() {
    let place = Place::new();
    let line = json!({"problem": "p", "steps": ["1 + 1 = 2", "so 2"], "ratings": [1, 1]});
    place.write("rated.jsonl", format!("{line}\n"));
    let rows = place.run(&["eval-prm", "--data", "rated.jsonl", "--probes", "--json"]);
    let rows = rows.ok().json();
    assert_eq!(rows[0]["shifts"], json!([]));
    let swapped = probe(&rows[0], "question-swapped");
    assert_eq!(
        (&swapped["chains"], &swapped["effects"]["chain_change"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(
        probe(&rows[0], "filler")["verdict"]["words"],
        "too few chains (1)"
    );
    for args in [
        &["--aggregation", "min"][..],
        &["--probes", "--redraw", "r"],
    ] {
        let args = [&["eval-prm", "--data", "rated.jsonl"][..], args].concat();
        assert_eq!(place.run(&args).code, Some(2), "{args:?}");
    }
}
