//! `beamgen eval-prm --report`.

use serde_json::{Value, json};

use crate::run::{Place, root};
use crate::show_html::assert_self_contained;

/// Chains of the bundled world, whose checker knows every step.
fn world(place: &Place, count: &str) -> Vec<Value> {
    let chains = place
        .run(&["problems", "--count", count, "--seed", "31", "--steps"])
        .ok();
    place.write("world.jsonl", &chains.stdout);
    chains.json()
}

fn results(place: &Place, folder: &str) -> Value {
    serde_json::from_str(&place.read(&format!("{folder}/results.json"))).expect("JSON")
}

/// The bundled model knows its world, a random one does not; the report of either says so, and can
/// be drawn anew from its rows alone.
#[test]
fn reports_of_the_bundled_and_of_a_random_model() {
    let place = Place::new();
    let chains = world(&place, "80");
    let args = ["eval-prm", "--data", "world.jsonl"];
    let plain = place.run(&args).ok().stdout;
    let reported = place
        .run(&[&args[..], &["--report", "good"]].concat())
        .ok()
        .stdout;
    // Each chain has a problem of its own here, so that either interval is the same.
    let plain = plain.replace("over chains", "over problems");
    assert!(reported.starts_with(&plain), "{reported}\n{plain}");
    let random = root().join("tests/fixtures/prm/qwen2.5-math-prm");
    let random = [
        "--report",
        "random",
        "--prm",
        random.to_str().expect("a path"),
    ];
    place.run(&[&args[..], &random].concat()).ok();

    let good = results(&place, "good");
    let set = &good["sets"][0];
    let steps: usize = chains
        .iter()
        .map(|chain| match chain["label"].as_i64().expect("a label") {
            -1 => chain["steps"].as_array().expect("steps").len(),
            wrong => wrong as usize + 1,
        })
        .sum();
    assert_eq!(set["counts"]["chains"], 80);
    assert_eq!(set["counts"]["steps"], steps);
    let figure = |report: &Value, scorer: &str, name: &str| {
        let figures = if scorer == "model" {
            &report["sets"][0]["model"]["figures"]
        } else {
            let of = report["sets"][0]["baselines"]
                .as_array()
                .expect("baselines");
            &of.iter().find(|of| of["name"] == scorer).expect("it")["figures"]
        };
        figures[name]["value"].as_f64().expect("a figure")
    };
    let table = place.run(&[&args[..], &["--json"]].concat()).ok().json();
    assert_eq!(
        table[0]["f1"],
        json!(figure(&good, "model", "first_error_f1"))
    );
    assert!(figure(&good, "model", "auc") > 0.97);
    assert_eq!(figure(&good, "prior", "auc"), 0.5);
    assert!((0.5..0.9).contains(&figure(&good, "length", "auc")));
    let brier = |scorer| figure(&good, scorer, "brier");
    assert!(brier("model") < 0.5 * brier("length"));
    let random = results(&place, "random");
    assert!(
        (0.3..0.7).contains(&figure(&random, "model", "auc")),
        "{random}"
    );
    assert!(figure(&random, "model", "brier") > figure(&random, "prior", "brier"));

    assert!(figure(&good, "model", "auc") > 0.9, "{good}");
    let text = place.read("good/report.md");
    for word in [
        "| ROC area | ",
        "PRMScore",
        "### By step number",
        "![roc](roc.svg)",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert_self_contained(&place.read("good/index.html"));
    let files = [
        "report.md",
        "results.json",
        "index.html",
        "reliability.svg",
        "roc.svg",
        "scores.svg",
        "positions.svg",
    ];
    let read = || files.map(|file| place.read(&format!("good/{file}")));
    let before = read();
    for file in files {
        std::fs::remove_file(place.path(&format!("good/{file}"))).expect("a file");
        if file == "results.json" {
            place.write("good/results.json", &before[1]);
        }
    }
    let redrawn = place.run(&["eval-prm", "--redraw", "good"]).ok().stdout;
    assert_eq!(redrawn, reported);
    assert_eq!(read(), before);
    assert!(place.path("good/roc.png").is_file());
}

/// Two files in one report, of different formats; figures by what their sources say.
#[test]
fn ratings_are_broken_down_by_level() {
    let place = Place::new();
    world(&place, "3");
    let rated = |level: &str, ratings: [i32; 2]| json!({"problem": format!("p {level} {ratings:?}"), "level": level, "steps": ["a", "b c"], "ratings": ratings});
    let lines = [
        rated("Level 1", [1, 1]),
        rated("Level 1", [1, -1]),
        rated("Level 2", [0, -1]),
    ];
    place.write(
        "rated.jsonl",
        lines.map(|line| format!("{line}\n")).concat(),
    );
    let args = [
        "eval-prm",
        "--data",
        "rated.jsonl",
        "world.jsonl",
        "--report",
        "r",
        "--neutral",
        "drop",
    ];
    place.run(&args).ok();
    let results = results(&place, "r");
    let set = &results["sets"][0];
    assert_eq!(
        (&set["name"], &set["counts"]["steps"]),
        (&json!("rated"), &json!(5))
    );
    assert_eq!(
        set["counts"]["first_errors"], 2,
        "the third chain's first step is unknown"
    );
    let levels = set["breakdowns"].as_array().expect("a list");
    let levels = levels
        .iter()
        .find(|by| by["by"] == "level")
        .expect("levels");
    let names: Vec<&Value> = levels["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|g| &g["name"])
        .collect();
    assert_eq!(names, ["Level 1", "Level 2"]);
    assert!(place.path("r/rated-roc.svg").is_file() && place.path("r/world-roc.png").is_file());
    let refused = place.run(&["eval-prm", "--data", "world.jsonl", "--report", "r"]);
    refused.assert_refused("a second report in one folder", &["rows.jsonl", "--redraw"]);
}

#[test]
fn bad_labels_get_one_line() {
    let place = Place::new();
    place.write("empty.jsonl", "");
    place.write(
        "unknown.jsonl",
        "{\"problem\": \"p\", \"steps\": [{\"text\": \"a\"}]}\n",
    );
    place.write("odd/results.json", "{}");
    for (args, words) in [
        (
            &["--data", "empty.jsonl", "--report", "r"][..],
            &["empty.jsonl", "no chains"][..],
        ),
        (
            &["--data", "unknown.jsonl", "--report", "r"],
            &["unknown.jsonl", "no step has a label"],
        ),
        (&["--data", "none.jsonl", "--report", "r"], &["none.jsonl"]),
        (&["--redraw", "odd"], &["results.json", "--report"]),
        (&["--redraw", "none"], &["none"]),
    ] {
        let args = [&["eval-prm"][..], args].concat();
        place.run(&args).assert_refused(&args.join(" "), words);
        assert!(!place.path("r/rows.jsonl").exists());
    }
    // A row that was changed by hand is told by its line.
    world(&place, "3");
    place
        .run(&["eval-prm", "--data", "world.jsonl", "--report", "w"])
        .ok();
    let rows = place.read("w/rows.jsonl").replacen("[1.0", "[7.5", 1);
    place.write("w/rows.jsonl", rows);
    let redrawn = place.run(&["eval-prm", "--redraw", "w"]);
    redrawn.assert_refused("a label of 7.5", &["rows.jsonl: line 1", "\"labels\": 7.5"]);
}

#[test]
fn beginnings_of_steps_have_a_row_for_each_length() {
    let place = Place::new();
    world(&place, "20");
    let ran = place
        .run(&["eval-prm", "--data", "world.jsonl", "--partial", "--json"])
        .ok();
    let [set] = &ran.json()[..] else {
        panic!("one object: {}", ran.stdout)
    };
    let rows = set["after_words"].as_array().expect("rows");
    let read: Vec<f64> = rows
        .iter()
        .map(|row| row["read"].as_f64().expect("a number"))
        .collect();
    assert!(read.len() > 8 && read[..3] == [1.0, 2.0, 3.0], "{read:?}");
    let half = &set["at_share"][1];
    assert_eq!(half["read"], 0.5);
    assert!(
        half["whole_area"].as_f64() > half["area"].as_f64(),
        "{half}"
    );
    let table = place
        .run(&["eval-prm", "--data", "world.jsonl", "--partial"])
        .ok()
        .stdout;
    assert!(
        table.contains("50 % of the step") && table.contains("rank correlation"),
        "{table}"
    );
    let refused = [
        "eval-prm",
        "--data",
        "world.jsonl",
        "--partial",
        "--report",
        "r",
    ];
    place
        .run(&refused)
        .assert_refused("--report", &["--partial"]);
}
