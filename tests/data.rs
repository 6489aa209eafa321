//! Problems in every format of file, and data sets by name, through the real binary.

use serde_json::Value;

use crate::run::{Place, Ran, root};
use crate::server::{Server, Trick};

/// The files with the same 20 problems, by whether they need the feature `data`.
const FILES: [(&str, bool); 9] = [
    ("p.json", false),
    ("p.csv", false),
    ("p.tsv", false),
    ("p.jsonl.gz", false),
    ("p.parquet", true),
    ("p-zstd.parquet", true),
    ("p.jsonl.xz", true),
    ("p.jsonl.zst", true),
    ("-", false),
];

fn fixture(name: &str) -> String {
    let path = root().join("tests/fixtures/data").join(name);
    path.display().to_string()
}

/// Returns the records of a search without what the clock says.
fn answers(ran: Ran) -> Vec<Value> {
    let mut records = ran.ok().json();
    for record in &mut records {
        let record = record.as_object_mut().expect("an object");
        record.retain(|key, _| !matches!(key.as_str(), "ledger" | "summary"));
    }
    records
}

#[test]
fn the_same_problems_in_every_format_give_the_same_run() {
    let place = Place::new();
    let lines = fixture("p.jsonl");
    let solve = |file: &str| {
        let args = ["solve", file, "-n", "4", "--json"];
        match file {
            "-" => {
                let input = std::fs::read_to_string(&lines).expect("the fixture");
                place.run_with_input(&args, &input)
            }
            _ => place.run(&args),
        }
    };
    let wanted = answers(solve(&lines));
    assert_eq!(wanted.len(), 21, "20 problems and a summary");
    for (name, needs_data) in FILES {
        let file = if name == "-" {
            name.to_owned()
        } else {
            fixture(name)
        };
        let ran = solve(&file);
        if needs_data && !cfg!(feature = "data") {
            ran.assert_refused(name, &[name, "build with `--features data`"]);
            continue;
        }
        let note = "20 problems, 20 answers from \"answer\"";
        assert!(ran.stderr.contains(note), "{name}: {}", ran.stderr);
        assert_eq!(answers(ran), wanted, "{name}");
    }
}

#[test]
fn keys_can_be_named() {
    let place = Place::new();
    let line = r#"{"text": "Ann has 5 nuts. Bea has 2 more nuts than Ann. How many nuts does Bea have?", "key": 7}"#;
    place.write("p.jsonl", line);
    let named = [
        "solve",
        "p.jsonl",
        "-n",
        "4",
        "--json",
        "--problem-key",
        "text",
        "--answer-key",
    ];
    let ran = place.run(&[&named[..], &["key"]].concat()).ok();
    assert!(
        ran.stderr.contains("1 answer from \"key\""),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.json()[0]["reference"], "7");
    place
        .run(&[&named[..], &["gold"]].concat())
        .assert_refused("--answer-key gold", &["p.jsonl:1:", "no \"gold\""]);
}

#[test]
fn a_recipe_of_search_and_learn_is_one_command() {
    let place = Place::new();
    let models = root().join("models/abacus");
    let recipe = format!(
        "model_path: {0}/generator\nprm_path: {0}/prm\ndataset_name: {1}\napproach: beam_search\nn: 4\n\
         temperature: 1.0\nagg_strategy: min\ndataset_start: 2\nnum_samples: 3   # a comment\nseed: 0\npush_to_hub: true\n",
        models.display(),
        fixture("p.jsonl")
    );
    place.write("beam.yaml", &recipe);
    // The bundled models end steps at line breaks.
    let lines = [
        "--set",
        "generator.boundaries=[\"\\n\"]",
        "--prm-format",
        "step-token",
        "--json",
    ];
    let ran = place
        .run(&[&["solve", "--config", "beam.yaml"][..], &lines].concat())
        .ok();
    for note in [
        "push_to_hub changes nothing: nothing is pushed",
        "p.jsonl: 3 problems, 3 answers",
    ] {
        assert!(ran.stderr.contains(note), "{}", ran.stderr);
    }
    let answered = answers(ran);
    let ids: Vec<_> = answered
        .iter()
        .filter_map(|record| record["id"].as_str())
        .collect();
    assert_eq!(ids, ["world-4401-3", "world-4401-4", "world-4401-5"]);
    // Other commands take its models and settings, with problems of their own.
    let problems = fixture("p.jsonl");
    for command in [
        &["bench", "--strategies", "beam"][..],
        &["label", "--chains", "2", "--out", "x.jsonl"],
    ] {
        let some = [&problems, "--config", "beam.yaml", "--limit", "1", "--plan"];
        let mut args = [command, &some, &lines].concat();
        if command[0] == "label" {
            // No reward model scores chains there.
            args.retain(|arg| !["--prm-format", "step-token"].contains(arg));
        }
        let plan = place.run(&args).ok();
        assert!(
            plan.stderr.contains("models/abacus/generator"),
            "{}",
            plan.stderr
        );
        assert_eq!(plan.json()[0]["problems"], 1);
    }
    // The same search by flags.
    let prm = models.join("prm");
    let generator = models.join("generator");
    let pair = [
        "--pair",
        "llama3.2-1b",
        "--generator",
        generator.to_str().expect("UTF-8"),
        "--prm",
        prm.to_str().expect("UTF-8"),
    ];
    let file = fixture("p.jsonl");
    let flags = [
        "--strategy",
        "beam",
        "-n",
        "4",
        "-m",
        "4",
        "--temperature",
        "1",
        "--aggregation",
        "min",
        "--limit",
        "5",
    ];
    let by_flags = place.run(&[&["solve", file.as_str()][..], &pair, &flags, &lines].concat());
    assert_eq!(answers(by_flags)[2..], answered);
    place.write("bad.yaml", "n: 4\nbeams: 2\n");
    place
        .run(&["solve", "--config", "bad.yaml"])
        .assert_refused(
            "an unknown key",
            &["bad.yaml:2: beams: unknown key of a recipe"],
        );
}

#[test]
fn a_run_becomes_a_table_and_completions() {
    let place = Place::new();
    let file = fixture("p.jsonl");
    let solve = [
        "solve",
        file.as_str(),
        "-n",
        "4",
        "--limit",
        "3",
        "--quiet",
        "--out",
        "run.jsonl",
    ];
    place.run(&[&solve[..], &["--tree"]].concat()).ok();
    let show = |flag: &str, name: &str| place.run(&["show", "run.jsonl", flag, name]);
    for name in ["t.csv", "t.tsv"] {
        show("--table", name).ok();
    }
    let csv = place.read("t.csv");
    let mut lines = csv.lines();
    let head = lines.next().expect("a head");
    assert!(
        head.starts_with("id,problem,reference,answer,correct,"),
        "{head}"
    );
    assert!(csv.contains("\nworld-4401-3,"), "{csv}");
    let parquet = show("--table", "t.parquet");
    if cfg!(feature = "data") {
        parquet.ok();
        // The table has problems and answers, so it can be solved again.
        let again = place.run(&[
            "solve",
            "t.parquet",
            "-n",
            "4",
            "--answer-key",
            "reference",
            "--json",
        ]);
        assert_eq!(answers(again).len(), 4);
    } else {
        parquet.assert_refused("Parquet", &["t.parquet", "--features data"]);
    }
    show("--table", "t.txt").assert_refused("t.txt", &["t.txt", ".csv, .tsv or .parquet"]);
    show("--completions", "c.jsonl").ok();
    let text = place.read("c.jsonl");
    let first: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    let completions = first["completions"].as_array().expect("a list");
    assert_eq!(
        completions.len(),
        first["scores"].as_array().expect("a list").len()
    );
    assert!(completions.contains(&first["pred"]), "{first}");
    // What search-and-learn writes is a pool.
    let bench = ["bench", "--pool", "c.jsonl", "--scorers", "none", "--json"];
    place.run(&bench).ok();
    place.run(&[&solve[..8], &["bare.jsonl"]].concat()).ok();
    place
        .run(&["show", "bare.jsonl", "--completions", "d.jsonl"])
        .assert_refused("no trees", &["bare.jsonl", "--tree"]);
}

/// The page for people who come from search-and-learn has every key of its recipes.
#[test]
fn the_book_has_every_key_of_a_recipe() {
    let page = std::fs::read_to_string(root().join("docs/guide/search-and-learn.md"));
    let page = page.expect("the page");
    for key in &beamgen::RECIPE_KEYS {
        let row = page
            .lines()
            .find(|line| line.contains(&format!("`{}`", key.name)) && line.starts_with('|'));
        let row = row.unwrap_or_else(|| panic!("no row for {}", key.name));
        assert!(
            row.contains(key.default) || row.contains("our words"),
            "{}: {row}",
            key.name
        );
    }
}

/// Solves the problems of a data set of `server`.
fn solve(place: &Place, server: &Server, args: &[&str]) -> Ran {
    let variables = [
        ("HF_ENDPOINT", server.endpoint.as_str()),
        ("HF_HUB_OFFLINE", "0"),
    ];
    let all = [&["solve"], args, &["-n", "4", "--limit", "3", "--json"]].concat();
    place.run_with(&variables, &all)
}

#[test]
fn a_data_set_of_the_hub_is_solved_by_its_name() {
    let (place, server) = (Place::new(), Server::start());
    let lines = std::fs::read(fixture("p.jsonl")).expect("the fixture");
    server.store("datasets/org/problems", "data/test.jsonl", &lines, false);
    server.store("datasets/org/problems", "data/train.jsonl", b"{}", false);
    let ran = solve(&place, &server, &["org/problems"]);
    let note = "note: org/problems (default, test): 20 problems, 20 answers from \"answer\"";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
    let named = answers(ran);
    let file = fixture("p.jsonl");
    let local = place.run(&["solve", &file, "-n", "4", "--limit", "3", "--json"]);
    assert_eq!(named, answers(local));
    // The second run needs nothing of the hub.
    server.trick("", usize::MAX, Trick::Status(503, ""));
    let cached = solve(&place, &server, &["org/problems", "--offline"]);
    assert_eq!(answers(cached), named);
    // A path of the same name wins.
    std::fs::create_dir(place.path("org")).expect("a folder");
    place.write("org/problems", "What is 1 + 1?\n");
    let path = solve(&place, &server, &["org/problems"]).ok();
    assert!(
        path.stderr.contains("org/problems: 1 problem,"),
        "{}",
        path.stderr
    );
}

#[test]
fn the_conversion_of_the_hub_is_read() {
    let (place, server) = (Place::new(), Server::start());
    let table = std::fs::read(fixture("p.parquet")).expect("the fixture");
    let set = "datasets/org/problems";
    server.store(set, "main/test/0000.parquet", &table, true);
    server.store(set, "socratic/test/0000.parquet", &table, true);
    solve(&place, &server, &["org/problems"]).assert_refused(
        "several subsets",
        &["org/problems", "--subset", "main, socratic"],
    );
    let ran = solve(&place, &server, &["org/problems", "--subset", "main"]);
    if cfg!(feature = "data") {
        assert_eq!(answers(ran).len(), 4);
    } else {
        ran.assert_refused("Parquet", &["0000.parquet", "build with `--features data`"]);
    }
}

#[test]
fn names_of_nothing_are_refused_in_a_line() {
    let (place, server) = (Place::new(), Server::start());
    place.write("p.jsonl", "What is 1 + 1?\n");
    for (args, words) in [
        (
            &["org/none"][..],
            &[
                "org/none",
                "no such file, and as a data set",
                "no such repository",
            ][..],
        ),
        (&["data/none.jsonl"], &["data/none.jsonl", "No such file"]),
        (
            &["p.jsonl", "--split", "train"],
            &["p.jsonl", "no subsets and splits"],
        ),
    ] {
        solve(&place, &server, args).assert_refused(args[0], words);
    }
}
