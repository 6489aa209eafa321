//! `beamgen label`.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;
use serde_json::Value;

use crate::run::Place;

const MODES: [&str; 4] = ["all", "early", "binary", "adaptive"];

fn chains(place: &Place, name: &str) -> Vec<Value> {
    let text = place.read(name);
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// The lines of the chains whose answer is right.
fn right_chains(chains: &[Value]) -> String {
    let right = chains.iter().filter(|chain| chain["outcome"] == true);
    right.map(|chain| format!("{chain}\n")).collect()
}

/// Labels few problems with few rollouts.
fn label<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let few = ["label", "--limit", "4", "--chains", "3", "--rollouts", "4"];
    [&few[..], &["--out", out], more].concat()
}

#[test]
fn the_same_labels_whatever_else_is_in_flight() {
    let place = Place::new();
    for mode in MODES {
        let (alone, together) = (format!("{mode}-1.jsonl"), format!("{mode}-4.jsonl"));
        for (out, in_flight) in [(&alone, "1"), (&together, "4")] {
            let args = ["--mode", mode, "--in-flight", in_flight];
            place.run(&label(out, &args)).ok();
        }
        assert_eq!(place.read(&alone), place.read(&together), "{mode}");
        assert!(chains(&place, &alone).len() >= 4, "{mode}");
    }
    for (out, in_flight) in [("1.jsonl", "1"), ("4.jsonl", "4")] {
        let few = [
            "label",
            "--limit",
            "4",
            "--mode",
            "binary",
            "--searches",
            "3",
        ];
        let args = ["--out", out, "--in-flight", in_flight];
        place.run(&[&few[..], &args].concat()).ok();
    }
    assert_eq!(place.read("1.jsonl"), place.read("4.jsonl"));
    let source = |chain: &Value| chain.get("source") == Some(&Value::from("rollout"));
    assert!(chains(&place, "1.jsonl").iter().any(source));
    let other_seed = ["--seed", "1"];
    place.run(&label("seed.jsonl", &other_seed)).ok();
    assert_ne!(place.read("seed.jsonl"), place.read("all-1.jsonl"));
}

#[test]
fn each_step_of_a_chain_says_how_many_rollouts_were_right() {
    let place = Place::new();
    let ran = place.run(&label("labels.jsonl", &["--json"])).ok();
    let summary = ran.json().pop().expect("a summary");
    // Of the right chains, those with a step that the world proves wrong or that no rollout mends.
    let unsound = |by: &str| summary["unsound"][by].as_u64().expect("a count");
    let all = chains(&place, "labels.jsonl");
    let right = all.iter().filter(|chain| chain["outcome"] == true).count() as u64;
    assert!(unsound("checker") + unsound("label") <= right && unsound("scorer") == 0);
    place.write("right.jsonl", right_chains(&all));
    let args = "check right.jsonl --checker exact,arithmetic --out said.jsonl";
    place.run(&args.split(' ').collect::<Vec<_>>()).ok();
    let failed = chains(&place, "said.jsonl");
    let failed = failed
        .iter()
        .filter(|line| line.to_string().contains("\"fail\""));
    assert_eq!(failed.count() as u64, unsound("checker"));
    let mut rollouts = 0;
    for chain in chains(&place, "labels.jsonl") {
        let steps = chain["steps"].as_array().expect("steps");
        let outcome = chain["outcome"].as_bool().expect("an outcome");
        assert!(chain["policy"]["generator"].is_string());
        assert_eq!(chain["policy"]["temperature"], 1.0);
        let (last, others) = steps.split_last().expect("a step");
        assert_eq!(last["rollouts"]["n"], 1);
        assert_eq!(last["rollouts"]["k"], u64::from(outcome));
        for step in others {
            assert_eq!(step["rollouts"]["n"], 4);
            assert_eq!(step["rollouts"]["seed"], 0);
            rollouts += 4;
        }
    }
    let count = |name: &str| summary[name].as_u64().expect("a count");
    // Chains that begin alike share the rollouts of their beginning.
    assert!(count("rollouts") <= rollouts && count("rollouts") == 4 * count("labels"));
    assert_eq!((count("problems"), count("chains")), (4, 12));
    let ledger = |name: &str| summary["ledger"][name].as_u64().expect("a count");
    assert!(count("spared_tokens") > ledger("generated_tokens"));
    assert!(count("spared_tokens") <= ledger("reused_tokens"));
    assert!(ledger("prompt_tokens") < ledger("generated_tokens"));
}

#[test]
fn without_rollouts_chains_have_their_outcomes_alone() {
    let place = Place::new();
    place.run(&label("some.jsonl", &[])).ok();
    let none = ["label", "--limit", "4", "--chains", "3", "--rollouts", "0"];
    let ran = place
        .run(&[&none[..], &["--out", "none.jsonl", "--json"]].concat())
        .ok();
    let mut some = chains(&place, "some.jsonl");
    for chain in &mut some {
        for step in chain["steps"].as_array_mut().expect("steps") {
            step.as_object_mut().expect("a step").remove("rollouts");
        }
    }
    assert_eq!(chains(&place, "none.jsonl"), some);
    assert!(some.iter().all(|chain| chain["outcome"].is_boolean()));
    let summary = ran.json().pop().expect("a summary");
    assert_eq!(
        (&summary["rollouts"], &summary["labels"]),
        (&0.into(), &0.into())
    );
    assert_eq!(
        summary["chain_tokens"],
        summary["ledger"]["generated_tokens"]
    );
}

#[test]
fn a_rollout_that_a_limit_cuts_is_neither_right_nor_wrong() {
    let place = Place::new();
    let cut = ["--set", "generator.max_chain_tokens=90"];
    place.run(&label("labels.jsonl", &cut)).ok();
    let mut truncated = 0;
    for chain in chains(&place, "labels.jsonl") {
        for step in chain["steps"].as_array().expect("steps") {
            let rollouts = &step["rollouts"];
            let count = |name: &str| rollouts.get(name).map_or(0, |n| n.as_u64().expect("one"));
            truncated += count("truncated");
            let is_end = count("n") == 1 && count("truncated") == 0;
            assert!(count("n") + count("truncated") == 4 || is_end, "{chain}");
        }
    }
    assert!(truncated > 0);
}

#[test]
fn a_run_that_was_cut_off_goes_on_to_the_same_bytes() {
    let place = Place::new();
    for mode in MODES {
        let (whole, part) = (format!("whole-{mode}.jsonl"), format!("part-{mode}.jsonl"));
        let run = |out: &str, more: &[&str]| {
            let args = label(out, &["--mode", mode]);
            place.run(&[&args[..], more].concat())
        };
        run(&whole, &[]).ok();
        run(&part, &[]).ok();
        // Killed in the middle of a line of both files.
        let beside = format!("{part}.run");
        for name in [&part, &beside] {
            let text = place.read(name);
            place.write(name, &text[..text.len() * 2 / 3]);
        }
        run(&part, &["--resume"]).ok();
        assert_eq!(place.read(&whole), place.read(&part), "{mode}");
        // Nothing is left to do.
        run(&part, &["--resume"]).ok();
        assert_eq!(place.read(&whole), place.read(&part), "{mode}");
    }
}

#[test]
fn an_interrupt_keeps_what_is_done() {
    let place = Place::new();
    let problems = place.run(&["problems", "--count", "60"]).ok().stdout;
    place.write("p.jsonl", problems);
    let args = |out| {
        let few = ["label", "p.jsonl", "--chains", "3", "--rollouts", "4"];
        [&few[..], &["--in-flight", "2", "--out", out]].concat()
    };
    let ran = place.interrupted(Signal::INT, &args("labels.jsonl"), "labels.jsonl.run", 3);
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    assert!(ran.stderr.contains("--resume"), "{}", ran.stderr);
    let before = place.read("labels.jsonl");
    let done = place.read("labels.jsonl.run").lines().count() - 1;
    assert!((2..60).contains(&done), "{done}");

    place
        .run(&[&args("labels.jsonl")[..], &["--resume"]].concat())
        .ok();
    place.run(&args("whole.jsonl")).ok();
    let after = place.read("labels.jsonl");
    assert!(after.starts_with(&before) && after == place.read("whole.jsonl"));
}

#[test]
fn what_cannot_be_labelled_is_refused() {
    let place = Place::new();
    place.write("bare.jsonl", "{\"problem\": \"What is 1?\"}\n");
    place.write("old.jsonl", "");
    for (args, words) in [
        (vec!["label"], vec!["--out"]),
        (
            vec!["label", "bare.jsonl", "--out", "l.jsonl"],
            vec!["bare.jsonl:1:", "answer"],
        ),
        (label("old.jsonl", &[]), vec!["old.jsonl", "--resume"]),
        (
            label("old.jsonl", &["--resume"]),
            vec!["old.jsonl", "old.jsonl.run"],
        ),
        (label("none/l.jsonl", &[]), vec!["none/l.jsonl"]),
        (label("l.jsonl", &["--mode", "some"]), vec!["some", "early"]),
        (
            label("l.jsonl", &["--searches", "2"]),
            vec!["--searches", "--mode binary"],
        ),
        (
            label("l.jsonl", &["--choose", "best"]),
            vec!["--choose changes nothing here", "leave it out"],
        ),
        (label("l.jsonl", &["--speculate"]), vec!["--speculate"]),
        (label("l.jsonl", &["--consensus"]), vec!["--consensus"]),
        (
            label("l.jsonl", &["--set", "search.early_rejection=9"]),
            vec!["--set search.early_rejection", "changes nothing"],
        ),
        (
            label("l.jsonl", &["--prm", "models"]),
            vec!["--prm", "--mine"],
        ),
        (
            label("l.jsonl", &["--set", "models.prm=models"]),
            vec!["--set models.prm", "--mine"],
        ),
        (
            vec![
                "label",
                "--rollouts",
                "0",
                "--mode",
                "binary",
                "--out",
                "l.jsonl",
            ],
            vec!["rollouts"],
        ),
        (
            vec!["label", "--chains", "0", "--out", "l.jsonl"],
            vec!["chains"],
        ),
    ] {
        let what = args.join(" ");
        place.run(&args).assert_refused(&what, &words);
    }
    assert!(!place.path("l.jsonl").exists());
    // A file may be shared with a search: its keys are noted, and change nothing.
    place.write(
        "shared.toml",
        "search.choose = \"best\"\nsearch.speculate = true\n",
    );
    let ran = place
        .run(&label("shared.jsonl", &["--config", "shared.toml"]))
        .ok();
    for key in ["search.choose", "search.speculate"] {
        let note = format!("note: {key} in the settings file changes nothing here");
        assert!(ran.stderr.contains(&note), "{}", ran.stderr);
    }
    place.run(&label("l.jsonl", &[])).ok();
    assert_eq!(place.read("shared.jsonl"), place.read("l.jsonl"));
    let other = label("l.jsonl", &["--mode", "early", "--resume"]);
    place
        .run(&other)
        .assert_refused("another mode", &["settings.labels.mode", "all", "early"]);
}

/// A checker that fails costs verdicts; a later call with one that works makes the labels good.
#[test]
fn what_a_checker_cost_is_kept_and_tried_again() {
    let place = Place::new();
    let checker = r#"test -e mended || exit 3; exec sed -u 's/^{"id":\([0-9]*\).*/{"id":\1,"verdict":"fail"}/'"#;
    let checked = ["--mine", "1", "--checker-command", checker];
    let run = |out: &str, more: &[&str]| place.run(&label(out, &[&checked, more].concat())).ok();
    let lost = || -> BTreeMap<String, u64> {
        let lines = chains(&place, "l.jsonl.run").into_iter().skip(1);
        let lost = |line: &Value| line["lost_verdicts"].as_u64().unwrap_or_default();
        lines
            .map(|line| (line["id"].to_string(), lost(&line)))
            .collect()
    };
    let ran = run("l.jsonl", &[]);
    let before = lost();
    assert!(
        before.len() == 4 && before.values().all(|&lost| lost > 0),
        "{before:?}"
    );
    let told = "4 problems lost verdicts of programs";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    place.write("mended", "");
    let again = run("l.jsonl", &["--resume"]);
    assert!(!again.stderr.contains("lost verdicts"), "{}", again.stderr);
    assert!(lost().values().all(|&lost| lost == 0));
    run("fresh.jsonl", &[]);
    assert_eq!(place.read("l.jsonl"), place.read("fresh.jsonl"));
}

#[test]
fn chains_that_the_prm_is_mistaken_about_are_mined() {
    let place = Place::new();
    let hard = |out: &str, more: &[&str]| {
        let few = ["label", "--limit", "12", "--chains", "8", "--rollouts", "4"];
        let hot = ["--temperature", "1.3", "--mode", "early", "--json"];
        place.run(&[&few[..], &hot, &["--out", out], more].concat())
    };
    let all = hard("all.jsonl", &[]).ok().json().pop().expect("a summary");
    let mined = hard("mined.jsonl", &["--mine", "1"]).ok().json().pop();
    let mined = mined.expect("a summary");
    let chosen = chains(&place, "mined.jsonl");
    let of = |outcome: bool| chosen.iter().filter(|c| c["outcome"] == outcome).count();
    assert!(of(false) > 0 && of(true) <= of(false), "{chosen:?}");
    let everything = chains(&place, "all.jsonl");
    for chain in &chosen {
        let is_same = |other: &&Value| {
            (&other["problem"], &other["steps"]) == (&chain["problem"], &chain["steps"])
        };
        assert!(everything.iter().any(|other| is_same(&other)), "{chain}");
    }
    assert_eq!(mined["chains"], all["chains"]);
    assert!(mined["rollouts"].as_u64() < all["rollouts"].as_u64());
    let scored = |summary: &Value| summary["ledger"]["scored_tokens"].as_u64().expect("it");
    assert_eq!(scored(&all), 0);
    let chain_tokens = mined["chain_tokens"].as_u64().expect("a count");
    let prompts = mined["ledger"]["prompt_tokens"].as_u64().expect("a count");
    assert!(scored(&mined) > 0 && scored(&mined) <= 2 * (chain_tokens + prompts));

    for in_flight in ["1", "5"] {
        let out = format!("in-flight-{in_flight}.jsonl");
        hard(&out, &["--mine", "1", "--in-flight", in_flight]).ok();
        assert_eq!(place.read(&out), place.read("mined.jsonl"));
    }
    hard("no.jsonl", &["--mine", "0"]).assert_refused("nothing to mine", &["mine"]);
}

#[test]
fn problems_with_only_wrong_or_only_right_chains_are_left_out_with_mixed() {
    let place = Place::new();
    let label = |out: &str, more: &[&str]| {
        let few = ["label", "--limit", "12", "--chains", "4", "--rollouts", "2"];
        let hot = ["--temperature", "1.3", "--json", "--out", out];
        place
            .run(&[&few[..], &hot, more].concat())
            .ok()
            .json()
            .pop()
    };
    let all = label("all.jsonl", &[]).expect("a summary");
    let mixed = label("mixed.jsonl", &["--mixed"]).expect("a summary");
    assert_eq!(all["mixed"], mixed["mixed"]);
    let count = mixed["mixed"].as_u64().expect("a count");
    assert!(0 < count && count < 12, "{count}");
    let of_problems = |out: &str| -> BTreeMap<String, BTreeSet<bool>> {
        let mut ends = BTreeMap::<String, BTreeSet<bool>>::new();
        for chain in chains(&place, out) {
            let of = ends.entry(chain["problem"].to_string()).or_default();
            of.extend(chain["outcome"].as_bool());
        }
        ends
    };
    let mut expected = of_problems("all.jsonl");
    expected.retain(|_, ends| ends.len() == 2);
    assert_eq!(expected.len() as u64, count);
    assert_eq!(of_problems("mixed.jsonl"), expected);
}
