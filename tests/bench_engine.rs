//! `bench-engine`: it runs, its figures fit each other, and mistakes are one line.

use crate::run::{Place, root};

#[test]
fn weights_for_a_shape() {
    let place = Place::new();
    let config = std::fs::read_to_string(root().join("models/abacus/generator/config.json"));
    place.write(
        "shape/config.json",
        config.expect("the bundled generator's"),
    );
    let args = [
        "--batch", "2", "--prefix", "9", "--new", "2", "--repeat", "1", "--json",
    ];
    let bench = ["bench-engine", "--model", "shape"];
    let ran = place.run(&[&bench[..], &["--random"], &args].concat()).ok();
    let row = &ran.json()[0];
    assert_eq!(row["model"], "shape");
    assert!(
        row["weights_mib"].as_f64().is_some_and(|mib| mib > 1.0),
        "{row}"
    );
    // Without the flag the weights are missed.
    let ran = place.run(&[&bench[..], &args].concat());
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("model.safetensors"), "{}", ran.stderr);
}

#[test]
fn a_row_a_measurement_whose_figures_fit_each_other() {
    let place = Place::new();
    let args = [
        "bench-engine",
        "--batch",
        "1,3",
        "--prefix",
        "16,600",
        "--new",
        "4",
        "--repeat",
        "3",
        "--json",
    ];
    let ran = place.run(&args).ok();
    assert!(ran.stderr.contains("context of 512"), "{}", ran.stderr);
    let rows = ran.json();
    let asked = |row: &serde_json::Value| (row["prompt"].as_u64(), row["batch"].as_u64());
    let points: Vec<_> = rows.iter().map(asked).collect();
    let some = |prompt, batch| (Some(prompt), Some(batch));
    assert_eq!(
        points,
        [some(16, 1), some(16, 3), some(600, 1), some(600, 3)]
    );
    for row in &rows {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
        assert_eq!(row["tool"], "beamgen");
        assert_eq!(row["model"], "bundled generator");
        assert_eq!(
            (row["new"].as_u64(), row["repeat"].as_u64()),
            (Some(4), Some(3))
        );
        assert_eq!(row["sample"], "temperature 0.8");
        for rate in ["decode_tokens_per_s", "prefill_tokens_per_s"] {
            let part = |name: &str| number(&format!("{rate}_{name}"));
            assert!(0.0 < part("p10") && part("p10") <= part("median"), "{row}");
            assert!(part("median") <= part("p90"), "{row}");
            assert!(part("p90") <= number(rate), "{row}");
        }
        let in_a_pass = number("decode_tokens_per_s") * number("step_ms") / 1e3;
        assert!((in_a_pass / number("batch") - 1.0).abs() < 0.1, "{row}");
        for ceiling in [
            "read_gb_per_s",
            "copy_gb_per_s",
            "fma_gflop_per_s",
            "bf16_gflop_per_s",
            "byte_dot_gop_per_s",
            "block_dot_gop_per_s",
        ] {
            assert!(number(ceiling) > 0.0, "{row}");
        }
        assert!(number("weights_gb_per_s") > 0.0 && number("decode_gflop_per_s") > 0.0);
        assert!(number("kv_mib") > 0.0 && number("weights_mib") > 1.0);
        assert_eq!(
            number("read_gb_per_s"),
            rows[0]["read_gb_per_s"].as_f64().expect("a rate")
        );
    }
}

#[test]
fn people_get_a_table_beside_the_ceilings() {
    let place = Place::new();
    let ran = place.run(&[
        "bench-engine",
        "--model",
        "bundled",
        "--batch",
        "2",
        "--prefix",
        "8",
        "--new",
        "2",
        "--repeat",
        "1",
        "--dtype",
        "int8",
        "--threads",
        "1",
        "--no-sample",
    ]);
    let text = ran.ok().stdout;
    for words in [
        "weights int8",
        "1 thread;",
        "nothing sampled",
        "this machine: reads",
        "decode tokens/s",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Every operation of a pass has a line, and the lines add up to less than the pass.
#[test]
fn a_profile_accounts_for_the_time_of_a_pass() {
    let place = Place::new();
    let bench = [
        "bench-engine",
        "--batch",
        "6",
        "--prefix",
        "40",
        "--new",
        "3",
        "--repeat",
        "2",
        "--threads",
        "1",
        "--profile",
    ];
    for types in [&["--compute", "bf16"][..], &["--dtype", "int8"], &[]] {
        let ran = place.run(&[&bench, types, &["--json"]].concat()).ok();
        let row = &ran.json()[0];
        let mut heads = Vec::new();
        for phase in ["prefill_profile", "decode_profile"] {
            let profile = &row[phase];
            let number = |value: &serde_json::Value| value.as_f64().expect("a number");
            let lines = profile["operations"].as_array().expect("lines");
            let names: Vec<_> = lines.iter().map(|line| &line["operation"]).collect();
            for name in ["qkv", "attention", "gate-up", "down", "head"] {
                assert!(
                    names.iter().any(|other| **other == name),
                    "{name}: {profile}"
                );
            }
            let sum: f64 = lines.iter().map(|line| number(&line["ms"])).sum();
            assert!(
                0.0 < sum && sum <= number(&profile["ms"]) + 0.01,
                "{profile}"
            );
            let least: f64 = lines.iter().map(|line| number(&line["least_ms"])).sum();
            assert!(
                (least - number(&profile["least_ms"])).abs() < 0.01,
                "{profile}"
            );
            let head = lines.iter().find(|line| line["operation"] == "head");
            heads.push(number(&head.expect("a head")["operations"]));
        }
        // The head multiplies every row of a decoding pass, and the last one of a prompt.
        assert!(heads[0] > 0.0 && heads[1] == 6.0 * heads[0], "{heads:?}");
    }
    let text = place.run(&bench).ok().stdout;
    for words in [
        "decode, prompt 40, batch 6:",
        "of the roofline",
        "whole pass",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// The largest count that can be written.
const MOST: &str = "18446744073709551615";

#[test]
fn mistakes_are_one_line() {
    let place = Place::new();
    for (args, words) in [
        (&["--batch", "0"][..], &["--batch 0", "at least 1"][..]),
        (&["--prefix", "8,0"], &["--prefix 0"]),
        (&["--new", "0"], &["--new 0"]),
        (&["--repeat", "0"], &["--repeat 0"]),
        (&["--batch", "many"], &["many", "--batch"]),
        (&["--dtype", "q3"], &["q3"]),
        (&["--model", "no/such/folder"], &["no/such/folder"]),
        (
            &["--batch", "1000000", "--prefix", "8"],
            &["--batch 1000000", "KV cache"],
        ),
        (
            &["--batch", MOST, "--prefix", "8"],
            &["--batch 18446744073709551615", "KV cache"],
        ),
        (
            &["--prefix", MOST],
            &["positions = 18446744073709551615", "too large"],
        ),
        (
            &["--new", MOST],
            &["positions = 18446744073709551615", "too large"],
        ),
    ] {
        let all: Vec<&str> = ["bench-engine"].iter().chain(args).copied().collect();
        place.run(&all).assert_refused(&args.join(" "), words);
    }
}
