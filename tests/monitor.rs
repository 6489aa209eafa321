//! `beamgen monitor`, the causes of failures in `beamgen show`, and the width of a search.

use serde_json::Value;

use crate::run::Place;

/// Solves 40 fresh problems into a run file, and returns the lines of the records.
fn solved(place: &Place, name: &str, flags: &[&str]) -> Vec<Value> {
    let problems = place
        .run(&["problems", "--count", "40", "--seed", "12"])
        .ok();
    place.write("problems.jsonl", problems.stdout);
    let fixed = [
        "solve",
        "problems.jsonl",
        "--quiet",
        "--tree",
        "--out",
        name,
    ];
    place.run(&[&fixed, flags].concat()).ok();
    let text = place.read(name);
    let lines = text.lines().skip(1);
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn drift_is_an_exit_status_and_names_what_has_changed() {
    let place = Place::new();
    solved(&place, "calm.jsonl", &["-n", "4"]);
    solved(&place, "again.jsonl", &["-n", "4", "--seed", "1"]);
    solved(
        &place,
        "hot.jsonl",
        &["-n", "4", "-m", "4", "--temperature", "2"],
    );
    let calm = place.run(&["monitor", "calm.jsonl", "again.jsonl"]).ok();
    assert!(
        calm.stdout
            .contains("40 searches in the reference, 40 searches now"),
        "{}",
        calm.stdout
    );
    let ran = place.run(&["monitor", "calm.jsonl", "hot.jsonl", "--json"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("have drifted from the reference: score"),
        "{}",
        ran.stderr
    );
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let score = &report["rows"][0];
    assert_eq!(score["name"], "score");
    assert!(score["now"].as_f64() < score["before"].as_f64(), "{score}");
    for (reference, words) in [
        ("missing.jsonl", "missing.jsonl"),
        ("problems.jsonl", "problems.jsonl"),
    ] {
        let ran = place.run(&["monitor", reference, "calm.jsonl"]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(
            ran.stderr.lines().count() == 1 && ran.stderr.contains(words),
            "{}",
            ran.stderr
        );
    }
    let failed = place.run(&["show", "hot.jsonl"]).ok().stdout;
    assert!(
        failed.contains("why ") && failed.contains("no right chain was sampled"),
        "{failed}"
    );
}

#[test]
fn different_chains_in_each_slot_make_a_search_wider() {
    let place = Place::new();
    let width = |name: &str, flags: &[&str]| {
        let (mut rounds, mut chains) = (0, 0);
        for record in solved(&place, name, flags) {
            let count = |key: &str| record["ledger"]["width"][key].as_u64().expect("a count");
            rounds += count("rounds");
            chains += count("chains");
            assert!(count("distinct_tokens") <= count("tokens"));
            for key in ["generate_flops", "score_flops"] {
                assert!(record["ledger"][key].as_u64() > Some(1_000_000), "{record}");
            }
        }
        chains as f64 / rounds as f64
    };
    let [slots, cap, distinct] = ["slots", "cap:2", "distinct"].map(|rule| {
        let set = format!("search.beam.copies={rule}");
        width(
            &format!("{}.jsonl", rule.replace(':', "-")),
            &["--set", &set],
        )
    });
    assert!((1.0..1.2).contains(&slots), "{slots}");
    assert!(
        slots < cap && cap < distinct && distinct <= 4.0,
        "{slots} {cap} {distinct}"
    );
    let refused = place.run(&[
        "solve",
        "--strategy",
        "mcts",
        "--set",
        "search.beam.copies=distinct",
    ]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("beam.copies"), "{}", refused.stderr);
}

#[test]
fn a_late_scorer_needs_a_wide_search() {
    let place = Place::new();
    let right = |name: &str, flags: &[&str]| {
        let late = ["--scorer", "exact", "--set", "models.exact_delay=2"];
        let records = solved(&place, name, &[&late, flags].concat());
        records
            .iter()
            .filter(|record| record["correct"] == true)
            .count()
    };
    let narrow = right("narrow.jsonl", &["-m", "16"]);
    let wide = right(
        "wide.jsonl",
        &["-m", "2", "--set", "search.beam.copies=cap:2"],
    );
    assert!(narrow < 16 && wide > 26, "{narrow} and {wide} of 40");
}
