//! `beamgen bench`: what is measured, the results folder, and going on after a kill.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::run::{Place, Ran};
use crate::show_html::assert_self_contained;

const BENCH: &str = r#"
seeds = 2

[[set]]
name = "easy"
count = 6
seed = 5
max_people = 4

[[set]]
name = "own"
file = "problems/own.jsonl"

[settings.search]
in_flight = 4

[[run]]
name = "best"
strategy = "best-of-n"
n = [1, 2, 4]

[[run]]
name = "vote"
strategy = "majority"
n = [2, 4]

[[run]]
name = "beam"
strategy = "beam"
n = [2, 4]
settings.search.m = 2

[[compare]]
a = "beam@4"
b = "best@4"

[[plot]]
name = "sampled"
runs = ["best", "vote"]

[[plot]]
name = "by steps"
runs = ["best", "beam"]
"#;

fn place() -> Place {
    let place = Place::new();
    place.write("bench.toml", BENCH);
    let problems = place.run(&["problems", "--count", "5", "--seed", "9"]).ok();
    place.write("problems/own.jsonl", problems.stdout);
    place
}

const RUN: [&str; 5] = ["bench", "--config", "bench.toml", "--out", "out"];

/// The rows of a folder by set, run, n, seed and problem.
fn rows(text: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let mut line: Value = serde_json::from_str(line).expect("whole lines only");
        let row = line["row"].take();
        if row.is_null() {
            continue;
        }
        let key = ["set", "run", "n", "seed", "id"]
            .map(|key| row[key].to_string())
            .join(" ");
        assert!(all.insert(key.clone(), row).is_none(), "twice: {key}");
    }
    all
}

/// A row without what a clock says, and without the share of the passes, which the caches of earlier
/// searches shorten.
fn timeless(mut row: Value) -> Value {
    let ledger = row["ledger"].as_object_mut().expect("a ledger");
    ledger.remove("seconds");
    ledger.remove("executed");
    let row_object = row.as_object_mut().expect("a row");
    row_object.remove("wall");
    row_object.remove("part");
    row
}

#[test]
fn the_results_folder_has_everything_and_is_redrawn_the_same() {
    let place = place();
    let ran = place.run(&RUN).ok();
    assert!(
        ran.stdout.contains("best@4") && ran.stdout.contains("beam@2"),
        "{}",
        ran.stdout
    );
    let rows = rows(&place.read("out/rows.jsonl"));
    assert_eq!(rows.len(), 7 * 2 * (6 + 5), "cells, seeds, problems");

    let results: Value = serde_json::from_str(&place.read("out/results.json")).expect("JSON");
    assert_eq!(
        results["about"]["command"],
        "beamgen bench --config bench.toml --out out"
    );
    let commit = results["about"]["commit"].as_str().expect("a commit");
    let version = place.run(&["--version"]).ok().stdout;
    assert!(version.contains(&format!("(commit {commit})")), "{version}");
    assert!(results["about"]["machine"]["cpus"].as_u64() > Some(0));
    assert_eq!(
        results["bench"]["cells"][0]["config"]["search"]["in_flight"],
        4
    );
    let summary = results["summary"].as_array().expect("rows of the table");
    assert_eq!(summary.len(), 7 * 2);
    for row in summary {
        let key = |of: &Value| (of["set"].clone(), of["run"].clone(), of["n"].clone());
        let of_row: Vec<&Value> = rows.values().filter(|one| key(one) == key(row)).collect();
        let right = of_row.iter().filter(|one| one["correct"] == true).count();
        let accuracy = row["accuracy"].as_f64().expect("a number");
        assert!(
            (accuracy - right as f64 / of_row.len() as f64).abs() < 1e-9,
            "{row}"
        );
        let tokens: u64 = of_row
            .iter()
            .filter_map(|one| one["ledger"]["generated_tokens"].as_u64())
            .sum();
        assert_eq!(row["ledger"]["generated_tokens"], tokens);
    }
    assert_eq!(results["compare"].as_array().map(Vec::len), Some(2));
    assert_eq!(results["against"].as_array().map(Vec::len), Some(2 * 4));
    // Runs of several N that a reward model chose in, on each set.
    let over_n = results["over_n"].as_array().expect("curves");
    let names: Vec<_> = over_n.iter().map(|of| (&of["set"], &of["run"])).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for of in over_n {
        assert!(of["run"] == "best" || of["run"] == "beam", "{of}");
        for point in of["points"].as_array().expect("points") {
            let of_point: Vec<&Value> = rows
                .values()
                .filter(|row| {
                    row["set"] == of["set"] && row["run"] == of["run"] && row["n"] == point["n"]
                })
                .collect();
            let scores = of_point
                .iter()
                .map(|row| row["score"].as_f64().unwrap_or(0.0));
            let mean = scores.sum::<f64>() / of_point.len() as f64;
            let reward = point["reward"]["value"].as_f64().expect("a reward");
            assert!((reward - mean).abs() < 1e-6, "{point} {mean}");
        }
    }
    let pools = results["pools"].as_array().expect("a pool of each set");
    assert_eq!(pools.len(), 2);
    for pool in pools {
        assert_eq!(pool["name"], "best@4");
        // All of a pool is the run itself.
        for (run, of) in [("best", "best"), ("vote", "majority")] {
            let is_row =
                |row: &&Value| row["set"] == pool["set"] && row["run"] == run && row["n"] == 4;
            let row = summary.iter().find(is_row).expect("a row");
            let last = pool["at"]
                .as_array()
                .and_then(|at| at.last())
                .expect("k = 4");
            assert_eq!(
                (&last["k"], &last[of]["share"]),
                (&4.into(), &row["accuracy"])
            );
        }
    }
    assert_eq!(results["difficulty"][0]["samples"], 2 * 4);

    let table = place.read("out/results.csv");
    assert_eq!(table.lines().count(), 1 + rows.len());
    let text = place.read("out/README.md");
    for part in [
        "bench.toml --out out",
        "Against best",
        "Compared",
        "pass@k",
        "difficulty",
        "easy-by-steps-accuracy-tokens.svg",
        "Accuracy and reward over N",
        "own-by-steps-over-n.svg",
    ] {
        assert!(text.contains(part), "README.md has {part}");
    }
    let page = place.read("out/index.html");
    assert_self_contained(&page);
    assert_eq!(
        page.matches("<table").count(),
        text.matches("\n|---|").count()
    );
    assert_eq!(
        page.matches("src=\"data:image/svg+xml;base64,").count(),
        text.matches("\n![").count(),
        "every figure is in the page"
    );
    let names = || {
        let entries = std::fs::read_dir(place.path("out")).expect("a folder");
        let names = entries.map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        });
        names.collect::<std::collections::BTreeSet<String>>()
    };
    let all = names();
    let bytes = |name: &String| std::fs::read(place.path("out").join(name)).expect("a file");
    let before: Vec<Vec<u8>> = all.iter().map(bytes).collect();
    for (name, bytes) in all.iter().zip(&before) {
        if name.ends_with(".png") {
            assert!(
                bytes.starts_with(b"\x89PNG") && bytes.len() > 10_000,
                "{name}"
            );
        }
        if name.ends_with(".svg") {
            let text = String::from_utf8_lossy(bytes);
            assert!(text.contains("<text") && text.contains("best"), "{name}");
        }
    }
    assert_eq!(
        all.iter().filter(|name| name.ends_with(".png")).count(),
        // Four of accuracy for each of two groups, one each over N and of sound chains, and of savings
        // one where there is pruning.
        2 * (4 + 4 + 2 + 2 + 1)
    );

    for name in all
        .iter()
        .filter(|name| !["rows.jsonl", "results.json"].contains(&name.as_str()))
    {
        std::fs::remove_file(place.path("out").join(name)).expect("removed");
    }
    let again = place.run(&["bench", "--redraw", "out"]).ok();
    assert_eq!(again.stdout, ran.stdout);
    assert_eq!(names(), all);
    for (name, before) in all.iter().zip(&before) {
        assert!(bytes(name) == *before, "{name} is another one");
    }
}

#[test]
fn killed_and_resumed_it_is_as_if_it_had_never_stopped() {
    let place = place();
    let mut child = place
        .command(&[&RUN[..], &["--in-flight", "2"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let started = Instant::now();
    loop {
        let text = std::fs::read_to_string(place.path("out/rows.jsonl")).unwrap_or_default();
        assert!(
            child.try_wait().expect("a child").is_none(),
            "it ended before it could be killed"
        );
        if text.matches("{\"row\"").count() > 20 {
            break;
        }
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "no rows were written"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("a child");
    place
        .run(&["bench", "--redraw", "out"])
        .assert_refused("not finished", &["rows.jsonl", "--resume"]);
    place
        .run(&RUN)
        .assert_refused("not resumed", &["rows.jsonl", "exists", "--resume"]);

    let mut left = place.read("out/rows.jsonl");
    left.truncate(left.rfind('\n').map_or(0, |at| at + 1));
    let before = rows(&left);
    left.push_str("{\"row\":{\"set\":\"ea");
    place.write("out/rows.jsonl", &left);
    place.run(&[&RUN[..], &["--resume"]].concat()).ok();
    let after = rows(&place.read("out/rows.jsonl"));
    for (key, row) in &before {
        assert_eq!(after.get(key), Some(row), "{key} was kept as it was");
    }

    let whole = self::place();
    whole.run(&RUN).ok();
    let whole = rows(&whole.read("out/rows.jsonl"));
    assert_eq!(after.len(), whole.len());
    for (key, row) in whole {
        assert_eq!(timeless(after[&key].clone()), timeless(row), "{key}");
    }
}

#[test]
fn a_folder_takes_more_runs_but_no_other_settings() {
    let place = place();
    place.run(&RUN).ok();
    let before = rows(&place.read("out/rows.jsonl"));
    let resume = [&RUN[..], &["--resume"]].concat();

    place.write(
        "bench.toml",
        BENCH.replace("settings.search.m = 2", "settings.search.max_steps = 3"),
    );
    let other = place.run(&resume);
    other.assert_refused(
        "other settings",
        &[
            "rows.jsonl",
            "\"easy\"",
            "beam@2",
            "search.max_steps",
            "40",
            "3",
        ],
    );
    place.write("bench.toml", BENCH.replace("seed = 5", "seed = 6"));
    place
        .run(&resume)
        .assert_refused("other problems", &["rows.jsonl", "\"easy\"", "problems"]);
    assert_eq!(rows(&place.read("out/rows.jsonl")), before);

    place.write(
        "bench.toml",
        format!("{BENCH}[[run]]\nname = \"greedy\"\nstrategy = \"greedy\"\n"),
    );
    place.run(&resume).ok();
    let after = rows(&place.read("out/rows.jsonl"));
    assert_eq!(after.len(), before.len() + 2 * (6 + 5));
    assert!(before.iter().all(|(key, row)| after.get(key) == Some(row)));
}

/// Majority and weighted votes are read off the samples of best-of-N; run by themselves they are
/// the same, and cost the same.
#[test]
fn what_shares_samples_equals_what_is_run_by_itself() {
    let place = Place::new();
    let run = |strategies: &str, out: &str| {
        let n = ["--limit", "12", "--n", "1,8", "--strategies"];
        place
            .run(&[&["bench"], &n[..], &[strategies, "--out", out]].concat())
            .ok();
        rows(&place.read(&format!("{out}/rows.jsonl")))
    };
    // Greedy decoding takes no scores, and gets none on a pair that has a scorer for others.
    let shared = run("best-of-n,majority,weighted,single,greedy", "shared");
    for name in ["majority", "weighted", "single", "best-of-n", "greedy"] {
        let alone = run(name, name);
        assert!(!alone.is_empty());
        for (key, row) in alone {
            let (mut alone, mut shared) = (timeless(row), timeless(shared[&key].clone()));
            if shared["without_scores"] == true {
                let peak = |row: &Value| row["ledger"]["peak_kv_bytes"].as_u64().expect("bytes");
                assert!(peak(&shared) >= peak(&alone), "{key}: an upper bound");
                for row in [&mut alone, &mut shared] {
                    row["ledger"]
                        .as_object_mut()
                        .expect("a ledger")
                        .remove("peak_kv_bytes");
                    row.as_object_mut().expect("a row").remove("without_scores");
                }
            }
            // The pool is kept with one of the rows that share it.
            for row in [&mut alone, &mut shared] {
                row.as_object_mut().expect("a row").remove("chains");
            }
            assert_eq!(shared, alone, "{key}");
        }
    }
    let once = place.run(&[
        "bench",
        "--plan",
        "--limit",
        "4",
        "--strategies",
        "best-of-n,majority,weighted",
        "--n",
        "8",
    ]);
    assert!(
        once.ok().stdout.contains("1 search on"),
        "they share one search"
    );
}

#[test]
fn json_has_a_row_for_each_strategy_and_n() {
    let place = Place::new();
    let args = [
        "bench",
        "--limit",
        "3",
        "--strategies",
        "beam,best-of-n",
        "--n",
        "1,4",
        "--json",
    ];
    let lines = place.run(&args).ok().json();
    let names: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["name"].as_str())
        .collect();
    assert_eq!(names, ["beam@1", "beam@4", "best-of-n@1", "best-of-n@4"]);
    assert_eq!(
        [&lines[0]["m"], &lines[1]["m"]],
        [1, 4],
        "M is lowered to N"
    );
    for line in &lines {
        assert_eq!((&line["problems"], &line["seeds"]), (&3.into(), &1.into()));
        assert!(line["ledger"]["generated_tokens"].as_u64() > Some(0));
    }
}

#[test]
fn benches_that_cannot_be_run() {
    let place = place();
    let cases: &[(&str, &str, &[&str])] = &[
        ("seeds = 2", "seeds = 0", &["bench.toml", "seeds = 0"]),
        ("seeds = 2", "seed = 2", &["bench.toml:2:", "seed"]),
        (
            "in_flight = 4",
            "in_fight = 4",
            &["bench.toml:15:", "in_fight"],
        ),
        (
            "in_flight = 4",
            "in_flight = \"x\"",
            &["bench.toml:15:", "string"],
        ),
        (
            "strategy = \"beam\"",
            "strategy = \"bean\"",
            &["bench.toml:29:", "bean", "best-of-n"],
        ),
        (
            "settings.search.m = 2",
            "settings.search.mm = 2",
            &["bench.toml:31:", "mm"],
        ),
        (
            "settings.search.m = 2",
            "settings.search.n = 2",
            &["bench.toml:28:", "\"beam\"", "search.n"],
        ),
        (
            "settings.search.m = 2",
            "scorer = \"none\"",
            &["bench.toml:28:", "\"beam\"", "n = 2", "scorer"],
        ),
        (
            "name = \"beam\"",
            "name = \"vote\"",
            &["bench.toml:28:", "\"vote\"", "name"],
        ),
        (
            "name = \"beam\"",
            "name = \"be@m\"",
            &["bench.toml:28:", "@"],
        ),
        (
            "n = [2, 4]\nsettings",
            "n = [0]\nsettings",
            &["bench.toml:28:", "n = 0"],
        ),
        (
            "a = \"beam@4\"",
            "a = \"beam@8\"",
            &["bench.toml:34:", "beam@8"],
        ),
        ("a = \"beam@4\"", "a = \"beam\"", &["bench.toml:34:", "@N"]),
        (
            "seeds = 2",
            "baseline = \"base\"",
            &["bench.toml:2:", "\"base\""],
        ),
        (
            "count = 6",
            "count = 0",
            &["bench.toml:5:", "\"easy\"", "count"],
        ),
        (
            "count = 6",
            "file = \"x\"",
            &["bench.toml:5:", "\"easy\"", "file"],
        ),
        (
            "max_people = 4",
            "max_people = 99",
            &["bench.toml:5:", "\"easy\"", "99"],
        ),
        (
            "name = \"own\"",
            "name = \"Easy\"",
            &["bench.toml:11:", "name"],
        ),
        (
            "problems/own.jsonl",
            "problems/none.jsonl",
            &["problems/none.jsonl", "No such file"],
        ),
        ("[[compare]]", "[[compare]", &["bench.toml:33:"]),
        (
            "[[compare]]",
            "[[plot]]\nname = \"p\"\nruns = [\"none\"]\n[[compare]]",
            &["bench.toml:35:", "\"none\""],
        ),
    ];
    for (from, to, words) in cases {
        assert!(BENCH.contains(from), "{from}");
        place.write("bench.toml", BENCH.replacen(from, to, 1));
        place.run(&RUN).assert_refused(to, words);
        assert!(!place.path("out").exists(), "{to}: nothing is begun");
    }
    place.write("bench.toml", BENCH);
    let calls: &[(&[&str], &[&str])] = &[
        (
            &["--config", "bench.toml", "--n", "4"],
            &["bench.toml", "--n"],
        ),
        (
            &["--config", "bench.toml", "--seeds", "4"],
            &["bench.toml", "--seeds"],
        ),
        (
            &["--config", "bench.toml", "problems/own.jsonl"],
            &["bench.toml", "problem file"],
        ),
        (&["--seeds", "0"], &["--seeds 0"]),
        (&["--resume"], &["--resume", "--out"]),
        (
            &["--redraw", "none"],
            &["none/results.json", "No such file"],
        ),
        (
            &["--strategies", "beam", "--scorers", "none"],
            &["\"beam\"", "scorer"],
        ),
        (&["--limit", "0"], &["--limit 0"]),
    ];
    for (args, words) in calls {
        place
            .run(&[&["bench"], *args].concat())
            .assert_refused(&args.join(" "), words);
    }
}

#[test]
fn interrupted_it_shows_what_there_is_and_says_how_to_go_on() {
    let place = place();
    place.write("bench.toml", BENCH.replace("count = 6", "count = 60"));
    let all = 7 * 2 * (60 + 5);
    let Ran {
        code,
        stdout,
        stderr,
    } = place.interrupted(Signal::INT, &RUN, "out/rows.jsonl", 60);
    assert_eq!(code, Some(130), "{stderr}");
    for part in ["interrupted after", "searches", "--resume"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(stdout.contains(" of 120 "), "how much of a cell: {stdout}");
    assert!(stdout.contains("best@1"), "{stdout}");
    assert!(
        !stdout.contains("beam@4"),
        "nothing of it is there: {stdout}"
    );
    let kept = rows(&place.read("out/rows.jsonl"));
    assert!((40..all).contains(&kept.len()), "{}", kept.len());
    assert!(!place.path("out/README.md").exists(), "no report of a part");

    let ran = place.run(&[&RUN[..], &["--resume"]].concat()).ok();
    assert!(!ran.stdout.contains(" of 120 "), "{}", ran.stdout);
    let whole = rows(&place.read("out/rows.jsonl"));
    assert_eq!(whole.len(), all);
    for (key, row) in kept {
        assert_eq!(whole[&key], row, "{key} was kept as it was");
    }
}

/// Rows of searches that ask no checker have nothing to lose.
#[test]
fn rows_say_how_many_verdicts_were_lost() {
    let place = Place::new();
    let what = ["--limit", "2", "--n", "4", "--strategies", "beam,majority"];
    let checked = ["--checker-command", "exit 3", "--out", "out"];
    place.run(&[&["bench"], &what[..], &checked].concat()).ok();
    let rows = rows(&place.read("out/rows.jsonl"));
    assert_eq!(rows.len(), 4);
    for (key, row) in rows {
        let lost = row.get("lost_verdicts").and_then(Value::as_u64);
        assert_eq!(
            lost.is_some_and(|lost| lost > 0),
            row["run"] == "beam",
            "{key}"
        );
    }
}

/// Models of one's own are announced when they are loaded.
#[test]
fn a_pair_is_loaded_once_whatever_is_compared() {
    let place = Place::new();
    let models = crate::run::root().join("models/abacus");
    let (generator, prm) = (models.join("generator"), models.join("prm"));
    let ran = place
        .run(&[
            "bench",
            "--generator",
            generator.to_str().expect("UTF-8"),
            "--prm",
            prm.to_str().expect("UTF-8"),
            "--limit",
            "2",
            "--n",
            "1,2,4",
            "--seeds",
            "3",
            "--strategies",
            "greedy,majority,best-of-n,beam,dvts",
        ])
        .ok();
    let loads = ran.stderr.matches("KV caches together").count();
    assert_eq!(loads, 1, "{}", ran.stderr);
}
