//! Tests that a problem's chains do not depend on other problems that are solved at the same time.

use serde_json::Value;

use crate::run::Place;

/// The lines of a run without what measures the machine and not the search.
fn results(args: &[&str]) -> Vec<Value> {
    let mut lines = Place::new().run(args).ok().json();
    for line in &mut lines {
        let is_summary = line.get("summary").is_some();
        let object = if is_summary {
            &mut line["summary"]
        } else {
            line
        };
        let ledger = object["ledger"].as_object_mut().expect("a ledger");
        ledger.retain(|key, _| !key.ends_with("seconds"));
        if is_summary {
            // A pass serves many problems at once, and pages live while their problems do.
            ledger.remove("forward_passes");
            ledger.remove("peak_kv_bytes");
        }
    }
    lines
}

/// Equal line by line; the first that is not is shown alone.
fn assert_same(a: &[Value], b: &[Value]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert_eq!(a, b);
    }
}

#[test]
fn results_are_bitwise_equal_for_1_7_and_64_in_flight() {
    let place = Place::new();
    let problems = place
        .run(&["problems", "--count", "66", "--seed", "3"])
        .ok();
    let file = place.write("problems.jsonl", problems.stdout);
    let file = file.to_str().expect("a path in UTF-8");
    let of = |in_flight: &str| {
        results(&[
            "solve",
            file,
            "--json",
            "-n",
            "8",
            "-m",
            "4",
            "--in-flight",
            in_flight,
        ])
    };
    let alone = of("1");
    assert_eq!(alone.len(), 67);
    assert_same(&alone, &of("7"));
    assert_same(&alone, &of("64"));
}

#[test]
fn results_do_not_depend_on_threads() {
    let of = |threads: &str| results(&["solve", "--json", "--limit", "6", "--threads", threads]);
    assert_same(&of("1"), &of("2"));
}

#[test]
fn another_seed_gives_other_chains() {
    let of = |seed: &str| results(&["solve", "--json", "--limit", "4", "--seed", seed]);
    assert_same(&of("1"), &of("1"));
    assert_ne!(of("1"), of("2"));
}
