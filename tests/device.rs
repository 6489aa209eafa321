//! `--device`: what is said where there is no such device, and the same search on an emulated one.

use std::path::Path;

use beamgen_test_support::{Missing, skip};
use serde_json::Value;

use crate::run::{Place, Ran, root};

const PROBLEM: &str = "{\"problem\": \"Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?\", \"answer\": 42}\n";

/// The binary on the emulated driver; none without a C++ compiler.
fn emulated(place: &Place, args: &[&str], device: &[(&str, &str)]) -> Option<Ran> {
    let library = beamgen_emulated_cuda::library()?;
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
        skip(Missing::Gpu, "this machine has a driver");
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
    type Environment = [(&'static str, &'static str)];
    let place = Place::new();
    place.write("p.jsonl", PROBLEM);
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
            &["free", "device cpu"],
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
}

/// Arguments that run a small model of another family for a few tokens on a device.
fn few_tokens(model: &str, device: &'static str) -> Vec<String> {
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
        "generator.max_chain_tokens=8",
        "--json",
        "--device",
        device,
    ];
    args.map(str::to_owned).to_vec()
}

/// Faults of a device, and what is said of each.
const FAULTS: [(&str, &str, &str); 12] = [
    // Before anything is computed.
    ("EMULATED_CUDA_CAPABILITY", "7.5", "7.5"),
    ("EMULATED_CUDA_MEMORY", "100000", "free"),
    // Found by the test of its operations.
    ("EMULATED_CUDA_WRONG", "rmsnorm", "wrong numbers: rmsnorm"),
    ("EMULATED_CUDA_WRONG", "linear_any", "wrong numbers: linear"),
    (
        "EMULATED_CUDA_WRONG",
        "linear_64_bf16@last",
        "wrong numbers: linear of 61 rows",
    ),
    ("EMULATED_CUDA_WRONG", "rope_kv_f16", "wrong numbers: rope"),
    (
        "EMULATED_CUDA_WRONG",
        "attention_64",
        "wrong numbers: attention",
    ),
    ("EMULATED_CUDA_WRONG", "sample", "wrong numbers: sample"),
    ("EMULATED_CUDA_FAIL", "silu", "an illegal memory access"),
    // Found by the first passes of the model, which is loaded then.
    (
        "EMULATED_CUDA_FAIL",
        "embed_f32:2",
        "an illegal memory access",
    ),
    (
        "EMULATED_CUDA_WRONG",
        "embed_f32:2",
        "wrong numbers: two passes",
    ),
    ("EMULATED_CUDA_MEMORY", "1000000", "free"),
];

#[test]
fn a_device_that_fails_at_load_is_left_for_the_cpu_unless_it_was_named() {
    let place = Place::new();
    place.write("p.jsonl", PROBLEM);
    let model = root().join("tests/fixtures/formats/llama.gguf");
    let model = model.to_str().expect("a path in UTF-8");
    let (auto, cuda) = (few_tokens(model, "auto"), few_tokens(model, "cuda"));
    let auto: Vec<&str> = auto.iter().map(String::as_str).collect();
    let cuda: Vec<&str> = cuda.iter().map(String::as_str).collect();
    let cpu = few_tokens(model, "cpu");
    let cpu = place.run(&cpu.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(cpu.code, Some(0), "{}", cpu.stderr);
    for (variable, value, says) in FAULTS {
        let fault = [(variable, value)];
        let Some(ran) = emulated(&place, &auto, &fault) else {
            return;
        };
        assert_eq!(ran.code, Some(0), "{variable}={value}: {}", ran.stderr);
        let mut told = ran
            .stderr
            .lines()
            .filter(|line| line.contains("the cpu computes"));
        let (line, others) = (told.next().unwrap_or_default(), told.count());
        assert!(line.contains(says), "{variable}={value}: {}", ran.stderr);
        assert_eq!(others, 0, "{variable}={value}: {}", ran.stderr);
        assert_eq!(chain(&ran), chain(&cpu), "{variable}={value}");
        let ran = emulated(&place, &cuda, &fault).expect("there is a compiler");
        assert_eq!(ran.code, Some(2), "{variable}={value}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(says),
            "{variable}={value}: {}",
            ran.stderr
        );
    }
    // Without a fault it serves.
    let ran = emulated(&place, &auto, &[]).expect("there is a compiler");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!ran.stderr.contains("the cpu computes"), "{}", ran.stderr);
}

#[test]
fn the_card_is_named_in_full() {
    let place = Place::new();
    place.write("p.jsonl", PROBLEM);
    let model = root().join("tests/fixtures/formats/llama.gguf");
    let args = few_tokens(model.to_str().expect("a path in UTF-8"), "cuda:1");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let args = [&args[..], &["--verbose", "--out", "run.jsonl"]].concat();
    let Some(ran) = emulated(&place, &args, &[("EMULATED_CUDA_DEVICES", "2")]) else {
        return;
    };
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let named = "Emulated CUDA device (CUDA, compute capability 8.0, PCI 0000:66:00.0, \
                 UUID a1a2a3a4-a5a6-a7a8-a9aa-abacadaeafb0)";
    let header = place.read("run.jsonl");
    let header: Value =
        serde_json::from_str(header.lines().next().expect("a header")).expect("JSON");
    assert_eq!(header["effective"]["device"], named, "{header}");
    assert_eq!(header["effective"]["cuda_graphs"], true, "{header}");
    let device = format!("device: {named}");
    assert!(ran.stderr.contains(&device), "{}", ran.stderr);
}

#[test]
fn graphs_that_fail_are_done_without() {
    let place = Place::new();
    place.write("p.jsonl", PROBLEM);
    let model = root().join("tests/fixtures/formats/llama.gguf");
    let args = few_tokens(model.to_str().expect("a path in UTF-8"), "cuda");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let Some(recorded) = emulated(&place, &args, &[]) else {
        return;
    };
    let fails = ("EMULATED_CUDA_ERROR", "cuStreamEndCapture:901");
    let off = ("BEAMGEN_CUDA_GRAPHS", "0");
    let at_load = ("EMULATED_CUDA_ERROR", "cuGraphInstantiateWithFlags:2");
    // After loading: the fourth call is the first one of the search.
    let later = ("EMULATED_CUDA_ERROR", "cuGraphLaunch:2:6");
    for (faults, notes) in [
        (&[fails][..], 1),
        (&[at_load], 1),
        (&[later], 1),
        (&[fails, off], 0),
    ] {
        let ran = emulated(&place, &args, faults).expect("there is a compiler");
        assert_eq!(ran.code, Some(0), "{faults:?}: {}", ran.stderr);
        assert_eq!(chain(&ran), chain(&recorded), "{faults:?}");
        let noted = ran.stderr.matches("no CUDA graphs").count();
        assert_eq!(noted, notes, "{faults:?}: {}", ran.stderr);
    }
    let other = [("BEAMGEN_CUDA_GRAPHS", "no")];
    let ran = emulated(&place, &args, &other).expect("there is a compiler");
    assert_one_line(&ran, &["BEAMGEN_CUDA_GRAPHS", "no", "0 or 1"]);
}

#[test]
fn bundled_models_stay_on_the_cpu_unless_a_device_is_named() {
    let place = Place::new();
    place.write("p.jsonl", PROBLEM);
    let args = ["solve", "p.jsonl", "-n", "4", "--json"];
    // Whatever is wrong with the device, nobody opens it.
    let broken = [
        ("EMULATED_CUDA_FAIL", "gather"),
        ("EMULATED_CUDA_MEMORY", "1"),
    ];
    let Some(ran) = emulated(&place, &args, &broken) else {
        return;
    };
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!ran.stderr.contains("cpu"), "{}", ran.stderr);
    assert_eq!(chain(&ran), chain(&place.run(&args)));
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

/// The cache takes what is left, so the logits of the first passes and of all chains have to be in
/// the plan: here they are more than the tenth of the memory that is left to what is not.
#[test]
fn logits_are_in_the_plan() {
    let place = Place::new();
    let shape = serde_json::json!({
        "model_type": "llama", "vocab_size": 20_000, "hidden_size": 64, "intermediate_size": 64,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
    });
    place.write("wide/config.json", shape.to_string());
    for (batch, memory) in [("1", "24000000"), ("128", "32000000")] {
        let args = [
            "bench-engine",
            "--model",
            "wide",
            "--random",
            "--device",
            "cuda",
            "--dtype",
            "bf16",
            "--batch",
            batch,
            "--prefix",
            "1",
            "--new",
            "1",
            "--repeat",
            "1",
        ];
        let Some(ran) = emulated(&place, &args, &[("EMULATED_CUDA_MEMORY", memory)]) else {
            return;
        };
        assert_eq!(ran.code, Some(0), "{batch}: {}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn a_profile_is_refused_on_a_device() {
    let place = Place::new();
    let args = ["bench-engine", "--device", "cuda", "--profile"];
    let Some(ran) = emulated(&place, &args, &[]) else {
        return;
    };
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("use --device cpu"), "{}", ran.stderr);
}

/// Answer and steps of the first problem.
fn chain(ran: &Ran) -> [Value; 2] {
    let result = &results(ran)[0];
    let chain = ["answer", "steps"].map(|field| result[field].clone());
    assert!(chain[1].as_array().is_some_and(|steps| !steps.is_empty()));
    chain
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
