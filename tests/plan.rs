//! `--plan`: the bounds, the memory and the time of a run, without the run.

use rustix::process::Signal;
use serde_json::Value;

use crate::run::Place;

#[test]
fn a_plan_bounds_the_run_and_estimates_it() {
    let place = Place::new();
    let plan = place
        .run(&["solve", "--plan", "--json"])
        .ok()
        .json()
        .remove(0);
    let run = place.run(&["solve", "--json", "--quiet"]).ok().json();
    let summary = &run.last().expect("a summary")["summary"];
    let ledger = &summary["ledger"];
    assert_eq!(plan["problems"], 40);
    for (key, spent) in [("sampled", "generated_tokens"), ("scored", "scored_tokens")] {
        let ratio = number(&plan[key]) / number(&ledger[spent]);
        assert!((0.8..1.25).contains(&ratio), "{key}: {plan} {summary}");
    }
    assert!(number(&plan["most"]["tokens"]) >= number(&ledger["generated_tokens"]));
    assert!(
        number(&plan["memory"]) > 0.0 && number(&plan["seconds"]) > 0.0,
        "{plan}"
    );
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn a_plan_is_printed_for_people_and_writes_no_file() {
    let place = Place::new();
    for command in ["solve", "label"] {
        let out = [
            "--out",
            "run.jsonl",
            "--limit",
            "3",
            "--budget-tokens",
            "500",
        ];
        let mut args = vec![command, "--plan"];
        args.extend(out);
        let ran = place.run(&args).ok();
        for line in [
            "plan      3 problems\n",
            "sampled   at most 1 500 tokens; about ",
            "scored    at most ",
            "memory    weights ",
            "time      about ",
            "measured on 3 problems\n",
        ] {
            assert!(ran.stdout.contains(line), "{command}: {}", ran.stdout);
        }
        assert!(!place.path("run.jsonl").exists(), "{command}");
    }
}

#[test]
fn a_bench_plans_each_search() {
    let place = Place::new();
    let flags = [
        "--limit",
        "4",
        "--seeds",
        "3",
        "--strategies",
        "beam,greedy",
        "--n",
        "4",
    ];
    let plan = |more: &[&str]| {
        place
            .run(&[&["bench", "--plan"], &flags[..], more].concat())
            .ok()
    };
    let rows = plan(&["--json"]).json();
    let names: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["labels"][0].as_str())
        .collect();
    assert_eq!(names, ["beam@4", "greedy@1"], "{rows:?}");
    // 4 problems with 3 seeds: each greedy chain has at most max_chain_tokens.
    assert_eq!(rows[1]["most"]["tokens"], 4 * 3 * 2048, "{rows:?}");
    let text = plan(&[]).stdout;
    assert!(
        text.contains("beam@4") && text.contains("time: about "),
        "{text}"
    );
}

#[test]
fn a_long_run_prints_its_plan_once_its_pace_is_known() {
    let place = Place::new();
    let many = place.run(&["problems", "--count", "30000"]).ok().stdout;
    place.write("many.jsonl", many);
    let args = ["solve", "many.jsonl", "--out", "run.jsonl"];
    let ran = place.interrupted(Signal::INT, &args, "run.jsonl", 100);
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    for line in ["plan      30 000 problems\n", "time      about "] {
        assert!(ran.stderr.contains(line), "{}", ran.stderr);
    }
}
