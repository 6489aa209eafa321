//! A real model and real data through the real binary, where they are on this machine.

use beamgen_test_support::{shared, weights};
use serde_json::{Value, json};

use crate::real_checkpoints::{SHEPHERD, assert_scored, prm, problems};
use crate::run::Place;

const SMOLLM2: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

#[test]
fn a_real_model_writes_chains() {
    let Some(file) = weights(SMOLLM2) else {
        return;
    };
    let place = Place::new();
    prm(&place, SHEPHERD);
    let texts = [
        "Ben had 5 apples and bought 7 more. How many apples does he have now?",
        "A bus carries 20 people and 6 of them get off. How many are left?",
    ];
    let lines = texts.map(|text| format!("{}\n", json!({"problem": text})));
    place.write("p.jsonl", lines.concat());
    let solve = |in_flight: &str| {
        let ran = place.run(&[
            "solve",
            "p.jsonl",
            "--json",
            "-n",
            "4",
            "-m",
            "2",
            "--seed",
            "7",
            "--generator",
            file.to_str().expect("UTF-8"),
            "--prm",
            SHEPHERD,
            "--set",
            "generator.max_chain_tokens=48",
            "--in-flight",
            in_flight,
        ]);
        let ran = ran.ok();
        let lines = ran.json();
        let summary = lines.last().expect("a summary")["summary"].clone();
        (problems(&lines), summary)
    };
    let (together, summary) = solve("2");
    let (alone, _) = solve("1");
    assert_eq!(together, alone);
    assert_eq!(together.len(), 2);
    assert_scored(&together, "SmolLM2");
    for row in &together {
        assert!(row["ledger"]["prompt_tokens"].as_u64() > Some(20));
        assert!(row["ledger"]["generated_tokens"].as_u64() > Some(20));
    }
    assert_eq!(summary["problems"], 2);
    assert!(summary["ledger"]["forward_passes"].as_u64() > Some(10));
    // Words, as of no random model.
    let text = together[0]["steps"].to_string();
    assert!(text.contains("apples"), "{text}");
}

#[test]
fn the_published_benchmark_of_first_errors() {
    let Some(file) = shared("data/processbench_gsm8k.json") else {
        return;
    };
    let place = Place::new();
    prm(&place, SHEPHERD);
    // The file has the chains with a mistake first.
    let text = std::fs::read_to_string(&file).expect("the data");
    let all: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let of = |right: bool| {
        let chains = all
            .iter()
            .filter(move |chain| (chain["label"] == -1) == right);
        chains.take(3).cloned()
    };
    place.write(
        "some.json",
        Value::from_iter(of(false).chain(of(true))).to_string(),
    );
    let data = file.to_str().expect("UTF-8");
    let args = [
        "eval-prm",
        "--limit",
        "5",
        "--prm",
        SHEPHERD,
        "--data",
        data,
        "some.json",
    ];
    let rows = place.run(&[&args[..], &["--json"]].concat()).ok().json();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!((&row["chains"], &row["refused"]), (&json!(5), &json!(0)));
    }
    for field in ["accuracy_on_wrong", "accuracy_on_right", "f1", "best_f1"] {
        let share = rows[1][field].as_f64().expect(field);
        assert!((0.0..=1.0).contains(&share), "{field}: {share}");
    }
    let table = place.run(&args).ok().stdout;
    assert!(
        table.contains("processbench_gsm8k.json") && table.contains("some.json"),
        "{table}"
    );
}
