//! `--device`: what is said where there is no such device, and the same search on an emulated one.

use std::path::Path;

use serde_json::Value;

use crate::run::{Place, Ran, root};

const PROBLEM: &str = "{\"problem\": \"Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?\", \"answer\": 42}\n";

/// The binary on the emulated driver; none without a C++ compiler.
fn emulated(place: &Place, args: &[&str], device: &[(&str, &str)]) -> Option<Ran> {
    let Some(library) = beamgen_emulated_cuda::library() else {
        eprintln!("skipped: no C++ compiler for the emulated CUDA driver");
        return None;
    };
    let folder = library.parent().and_then(Path::to_str).expect("its folder");
    let environment = [&[("LD_LIBRARY_PATH", folder)], device].concat();
    Some(place.run_with(&environment, args))
}

#[track_caller]
fn assert_one_line(ran: &Ran, parts: &[&str]) {
    assert_eq!(ran.code, Some(2), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    for part in parts {
        assert!(ran.stderr.contains(part), "{} lacks {part}", ran.stderr);
    }
}

#[test]
fn without_a_driver() {
    if Path::new("/dev/nvidiactl").exists() {
        eprintln!("skipped: this machine has a driver");
        return;
    }
    let place = Place::new();
    place.write("p.jsonl", PROBLEM);
    let ran = place.run(&["solve", "p.jsonl", "--device", "cuda"]);
    assert_one_line(&ran, &["no CUDA driver", "libcuda"]);
    let ran = place.run(&["bench-engine", "--device", "cuda"]);
    assert_one_line(&ran, &["no CUDA driver"]);
    let ran = place.run(&["solve", "p.jsonl", "-n", "4", "--device", "auto"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn devices_that_do_not_serve() {
    let place = Place::new();
    place.write("p.jsonl", PROBLEM);
    type Environment = [(&'static str, &'static str)];
    let cases: [(&str, &Environment, &[&str]); 6] = [
        (
            "cuda",
            &[("EMULATED_CUDA_DEVICES", "0")],
            &["no CUDA device 0"],
        ),
        ("cuda:3", &[], &["no CUDA device 3"]),
        (
            "cuda",
            &[("EMULATED_CUDA_DRIVER", "11.2")],
            &["11.2", "11.4"],
        ),
        (
            "cuda",
            &[("EMULATED_CUDA_CAPABILITY", "7.5")],
            &["7.5", "8.0"],
        ),
        (
            "cuda",
            &[("EMULATED_CUDA_MEMORY", "1000000")],
            &["free", "--device cpu"],
        ),
        ("gpu", &[], &["gpu", "cuda:N"]),
    ];
    for (device, environment, parts) in cases {
        let args = ["solve", "p.jsonl", "--device", device];
        let Some(ran) = emulated(&place, &args, environment) else {
            return;
        };
        assert_one_line(&ran, parts);
    }
    // Where nobody asked for it, the processor serves.
    let args = ["solve", "p.jsonl", "-n", "4"];
    let old = [("EMULATED_CUDA_CAPABILITY", "7.5")];
    let ran = emulated(&place, &args, &old).expect("there is a compiler");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("the cpu computes") && ran.stderr.contains("7.5"),
        "{}",
        ran.stderr
    );
    let small = [("EMULATED_CUDA_MEMORY", "1000000")];
    let ran = emulated(&place, &args, &small).expect("there is a compiler");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("the cpu computes"), "{}", ran.stderr);
}

#[test]
fn blocks_are_unpacked_with_a_note() {
    let place = Place::new();
    place.write("p.jsonl", PROBLEM);
    let model = root().join("tests/fixtures/formats/llama.gguf");
    let model = model.to_str().expect("a path in UTF-8");
    let short = "generator.max_chain_tokens=8";
    let args = [
        "solve",
        "p.jsonl",
        "--generator",
        model,
        "--scorer",
        "none",
        "--strategy",
        "single",
        "--set",
        short,
        "--device",
        "cuda",
        "--dtype",
    ];
    for (dtype, noted) in [("auto", true), ("bf16", false)] {
        let Some(ran) = emulated(&place, &[&args[..], &[dtype]].concat(), &[]) else {
            return;
        };
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let says = ran.stderr.contains("llama.gguf: unpacked to float32");
        assert_eq!(says, noted, "{dtype}: {}", ran.stderr);
    }
}

/// Chains, scores and answer of every problem.
fn results(ran: &Ran) -> Vec<Value> {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let lines = ran.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn the_same_search_on_an_emulated_device() {
    let place = Place::new();
    place.write("p.jsonl", PROBLEM);
    let args = |device| {
        let search = [
            "-n",
            "4",
            "-m",
            "2",
            "--max-steps",
            "4",
            "--dtype",
            "f32",
            "--kv-dtype",
            "f32",
            "--kv-memory",
            "8MiB",
            "--json",
            "--quiet",
        ];
        [&["solve", "p.jsonl", "--device", device][..], &search].concat()
    };
    let Some(cuda) = emulated(&place, &args("cuda"), &[]) else {
        return;
    };
    let (cuda, cpu) = (results(&cuda), results(&place.run(&args("cpu"))));
    assert_eq!(cuda.len(), cpu.len());
    let (cuda, cpu) = (&cuda[0], &cpu[0]);
    assert_eq!(cuda["answer"], cpu["answer"]);
    let steps = |result: &Value| {
        let steps = result["steps"].as_array().expect("steps").clone();
        let text = |step: &Value| step["text"].as_str().expect("text").to_owned();
        let score = |step: &Value| step["score"].as_f64().expect("score");
        steps
            .iter()
            .map(|step| (text(step), score(step)))
            .collect::<Vec<_>>()
    };
    let (cuda, cpu) = (steps(cuda), steps(cpu));
    assert!(!cpu.is_empty());
    assert_eq!(cuda.len(), cpu.len());
    for ((text, score), (want, want_score)) in cuda.iter().zip(&cpu) {
        assert_eq!(text, want);
        assert!((score - want_score).abs() < 1e-3, "{score} {want_score}");
    }
}
