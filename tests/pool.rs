//! `beamgen bench --pool`: choosing among solutions that exist already.

use serde_json::{Value, json};

use crate::run::Place;
use crate::show_html::assert_self_contained;

/// The accuracy of a selector in the lines of `--json`.
fn accuracy(lines: &[Value], selector: &str) -> f64 {
    let row = lines.iter().find(|row| row["selector"] == selector);
    let row = row.unwrap_or_else(|| panic!("{selector}: {lines:?}"));
    row["accuracy"].as_f64().expect("a share")
}

/// The chains of a best-of-N search of the bundled pair as a pool.
fn sampled(place: &Place) -> usize {
    let search = ["--strategy", "best-of-n", "-n", "8", "--limit", "30"];
    let args = [&["solve", "--tree", "--out", "run.jsonl"], &search[..]].concat();
    place.run(&args).ok();
    let run = place.read("run.jsonl");
    let records = run.lines().map(serde_json::from_str::<Value>);
    let records = records.map(|record| record.expect("JSON"));
    let mut pool = String::new();
    let mut problems = 0;
    for record in records.filter(|record| record["tree"].is_array()) {
        let nodes = record["tree"].as_array().expect("nodes");
        let ends = nodes.iter().filter(|node| node["state"] == "finished");
        let text = |end: &Value| {
            let (mut at, mut text) = (end, String::new());
            while let Some(parent) = at["parent"].as_u64() {
                text.insert_str(0, at["text"].as_str().expect("a text"));
                at = &nodes[parent as usize];
            }
            text
        };
        let solutions: Vec<String> = ends.map(text).collect();
        assert_eq!(solutions.len(), 8);
        let (problem, answer) = (&record["problem"], &record["reference"]);
        let line = json!({"problem": problem, "answer": answer, "solutions": solutions});
        pool += &format!("{line}\n");
        problems += 1;
    }
    place.write("pool.jsonl", pool);
    problems
}

/// The choice of the search among its chains is that among the same chains as a pool, by every
/// aggregation; and `bench` says the same of its own samples.
#[test]
fn a_pool_of_a_search_chooses_as_the_search() {
    let place = Place::new();
    let problems = sampled(&place);
    assert_eq!(problems, 30);
    let pool = ["bench", "--pool", "pool.jsonl", "--json"];
    let scorers = ["--scorers", "prm,orm", "--checker", "arithmetic"];
    let lines = place.run(&[&pool[..], &scorers].concat()).ok().json();
    assert!(
        lines
            .iter()
            .all(|row| row["problems"] == 30 && row["solutions"] == 240)
    );
    let bench = |aggregation: &str, scorer: &str| {
        let search = ["bench", "--limit", "30", "--n", "8", "--json"];
        let what = ["--strategies", "best-of-n,majority,weighted"];
        let how = ["--aggregation", aggregation, "--scorers", scorer];
        place.run(&[&search[..], &what, &how].concat()).ok().json()
    };
    for (aggregation, scorer) in [
        ("min", "prm"),
        ("mean", "prm"),
        ("product", "prm"),
        ("min", "orm"),
    ] {
        let cells = bench(aggregation, scorer);
        let of = |run: &str| {
            let cell = cells.iter().find(|cell| cell["run"] == run);
            cell.expect("a cell")["accuracy"].as_f64().expect("a share")
        };
        let name = match scorer {
            "orm" => "orm".to_owned(),
            scorer => format!("{scorer} {aggregation}"),
        };
        assert_eq!(accuracy(&lines, &format!("{name}, best")), of("best-of-n"));
        assert_eq!(
            accuracy(&lines, &format!("{name}, weighted")),
            of("weighted")
        );
        assert_eq!(accuracy(&lines, "majority"), of("majority"));
    }
    // What the checker fails is not chosen where something else can be.
    let unsound = |selector: &str| {
        let row = lines.iter().find(|row| row["selector"] == selector);
        let sound = row.expect("a row")["sound"].as_f64().expect("a share");
        accuracy(&lines, selector) - sound
    };
    assert!(unsound("majority, veto") <= unsound("majority"));

    let own = place
        .run(&["bench", "--limit", "30", "--n", "8", "--out", "bench"])
        .ok();
    assert!(
        own.stdout
            .contains("other aggregations of the same samples"),
        "{}",
        own.stdout
    );
    let results: Value = serde_json::from_str(&place.read("bench/results.json")).expect("JSON");
    let rows = results["aggregated"].as_array().expect("rows");
    for aggregation in ["min", "mean", "product"] {
        let row = rows.iter().find(|row| row["aggregation"] == aggregation);
        let row = row.expect("an aggregation");
        for (rule, word) in [("best", "best"), ("weighted", "weighted")] {
            let share = row[rule]["share"].as_f64().expect("a share");
            let selector = format!("prm {aggregation}, {word}");
            assert!(
                (share - accuracy(&lines, &selector)).abs() < 1e-12,
                "{selector}"
            );
        }
    }
    let drawn = place.run(&["bench", "--redraw", "bench"]).ok().stdout;
    assert_eq!(drawn, own.stdout);
}

#[test]
fn the_folder_is_drawn_again_the_same_and_refused_twice() {
    let place = Place::new();
    sampled(&place);
    let args = [
        "bench",
        "--pool",
        "pool.jsonl",
        "--limit",
        "5",
        "--judge",
        "exact",
        "--out",
        "out",
    ];
    let printed = place.run(&args).ok().stdout;
    for words in [
        "right by beamgen's grader",
        "exact min, best",
        "prm soft-min, weighted",
    ] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    assert_self_contained(&place.read("out/index.html"));
    let files = [
        "README.md",
        "results.json",
        "index.html",
        "over-k.svg",
        "over-majority.svg",
    ];
    let read = || files.map(|file| place.read(&format!("out/{file}")));
    let before = read();
    for file in ["README.md", "index.html", "over-k.svg"] {
        std::fs::remove_file(place.path(&format!("out/{file}"))).expect("a file");
    }
    assert_eq!(
        place.run(&["bench", "--redraw", "out"]).ok().stdout,
        printed
    );
    assert_eq!(read(), before);
    place
        .run(&args)
        .assert_refused("twice", &["rows.jsonl", "already"]);
}

#[test]
fn a_flag_that_samples_and_a_file_that_is_no_pool_are_refused() {
    let place = Place::new();
    place.write(
        "pool.jsonl",
        r#"{"problem": "1 + 1?", "answer": "2", "solutions": ["2"]}"#,
    );
    place.write(
        "bad.jsonl",
        "{\"problem\": \"1 + 1?\", \"answer\": \"2\", \"solutions\": [\"2\"]}\n{\"problem\": 3}\n",
    );
    place.write("bench.toml", "[[run]]\nname = \"a\"\n");
    let pool = ["bench", "--pool", "pool.jsonl", "--scorers", "none"];
    for flags in [
        &["problems.jsonl"][..],
        &["--strategies", "beam"],
        &["--n", "4"],
        &["--seeds", "2"],
        &["--resume"],
        &["--plan"],
        &["--temperature", "0.5"],
        &["--generator", "bundled"],
        &["--seed", "3"],
        &["-m", "2"],
        &["--budget-tokens", "100"],
        &["--combine", "product"],
    ] {
        let ran = place.run(&[&pool[..], flags].concat());
        let name = match flags[0] {
            "problems.jsonl" => "a problem file",
            "-m" => "--m",
            flag => flag,
        };
        ran.assert_refused(name, &["samples nothing", name, "leave "]);
    }
    for (args, words) in [
        (
            &["--pool", "bad.jsonl"][..],
            &["bad.jsonl:2: ", "field"][..],
        ),
        (&["--pool", "none.jsonl"], &["none.jsonl", "No such file"]),
        (&["--pool", "bench.toml"], &["bench.toml: not a JSON array"]),
        (
            &["--pool", "pool.jsonl", "--config", "bench.toml"],
            &["bench.toml", "leave --pool out"],
        ),
        (&["--pool", "pool.jsonl", "--limit", "0"], &["--limit 0"]),
        (
            &["--pool", "pool.jsonl", "--prm", "none"],
            &["--scorers none"],
        ),
        (
            &[
                "--pool",
                "pool.jsonl",
                "--prm",
                "bundled",
                "--scorers",
                "none",
            ],
            &["--prm", "--scorers prm"],
        ),
        (
            &["--pool", "pool.jsonl", "--aggregation", "likely-min"],
            &["likely-min", "use another"],
        ),
        (
            &["--pool", "pool.jsonl", "--out", "pool.jsonl"],
            &["pool.jsonl", "is an input, too"],
        ),
    ] {
        place
            .run(&[&["bench"], args].concat())
            .assert_refused(args[1], words);
    }
}
