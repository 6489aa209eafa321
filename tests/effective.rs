//! Tests that a run shows its effective settings first, and explains the marks in its output last.

use crate::run::{Place, root};

const LABELS: [&str; 5] = [
    "search  ",
    "sampling  ",
    "prompt  ",
    "numbers  ",
    "memory  ",
];

/// The lines of the block of settings.
fn block(stderr: &str) -> Vec<&str> {
    let is_of_block = |line: &&str| LABELS.iter().any(|label| line.starts_with(label));
    stderr.lines().filter(is_of_block).collect()
}

#[test]
fn verbose_shows_the_settings_as_they_act() {
    let place = Place::new();
    let quiet = place.run(&["solve", "--limit", "1"]).ok();
    assert_eq!(block(&quiet.stderr), [""; 0], "stderr is no terminal");
    let args = [
        "solve",
        "--limit",
        "1",
        "--json",
        "--verbose",
        "-n",
        "8",
        "--temperature",
        "0.5",
        "--top-p",
        "0.9",
        "--seed",
        "3",
        "--set",
        "generator.system_prompt=Be brief.",
    ];
    let ran = place.run(&args).ok();
    assert_eq!(ran.json().len(), 2, "stdout is for programs");
    let block = block(&ran.stderr);
    assert_eq!(block.len(), 5, "{}", ran.stderr);
    for (line, words) in block.iter().zip([
        &["beam", "N 8", "M 4", "scorer prm"][..],
        &["temperature 0.5", "top-p 0.9", "top-k off", "seed 3"],
        &["the checkpoint's chat template", "Be brief."],
        &["generator bf16", "prm bf16", "values: f32", "cpu"],
        &["weights", "KV caches"],
    ]) {
        for word in words {
            assert!(line.contains(word), "{word}: {line}");
        }
    }
}

#[test]
fn what_the_checkpoint_says_of_sampling_and_prompts_is_shown() {
    let place = Place::new();
    let model = place.copy(&root().join("models/abacus/generator"), "model");
    place.edit("model/generation_config.json", |config| {
        config["do_sample"] = true.into();
        config["temperature"] = 0.7.into();
        config["top_p"] = 0.8.into();
        config["top_k"] = 20.into();
    });
    let args = [
        "solve",
        "--limit",
        "1",
        "--strategy",
        "single",
        "--scorer",
        "none",
        "--verbose",
        "--set",
        "generator.max_chain_tokens=8",
        "--generator",
        model.to_str().expect("UTF-8"),
    ];
    let ran = place.run(&args).ok();
    let block = block(&ran.stderr).join("\n");
    for word in ["temperature 0.7", "top-p 0.8", "top-k 20", "scorer none"] {
        assert!(block.contains(word), "{word}: {}", ran.stderr);
    }
}

#[test]
fn a_gguf_that_is_unpacked_is_told_of_int8() {
    let place = Place::new();
    let model = root().join("tests/fixtures/formats/llama.gguf");
    let solve = [
        "solve",
        "--limit",
        "1",
        "--strategy",
        "single",
        "--scorer",
        "none",
        "--set",
        "generator.max_chain_tokens=8",
        "--verbose",
        "--generator",
        model.to_str().expect("UTF-8"),
    ];
    let ran = place.run(&solve).ok();
    let hints = |stderr: &str| {
        stderr
            .lines()
            .filter(|line| line.contains("dtype int8"))
            .count()
    };
    assert_eq!(hints(&ran.stderr), 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("f32 (unpacked from q"),
        "{}",
        ran.stderr
    );
    let ran = place.run(&[&solve[..], &["--dtype", "int8"]].concat()).ok();
    assert_eq!(hints(&ran.stderr), 0, "{}", ran.stderr);
    // bfloat16 takes half of the memory that the hint is about.
    for (name, order) in [
        ("bf16", "bf16-"),
        ("bf16-pairs", "bf16-pairs;"),
        ("bf16-tiles", "bf16-tiles;"),
    ] {
        let ran = place.run(&[&solve[..], &["--compute", name]].concat()).ok();
        assert_eq!(hints(&ran.stderr), 0, "{}", ran.stderr);
        let words = format!("generator bf16; arithmetic: {order}");
        assert!(ran.stderr.contains(&words), "{}", ran.stderr);
    }
}

#[test]
fn marks_beside_scores_are_explained_once_below_the_output() {
    let place = Place::new();
    let shown = place.run(&["solve", "--limit", "12"]).ok().stdout;
    let marked = |mark: char| {
        let is_marked = |line: &&str| line.starts_with("  0.") && line.chars().nth(8) == Some(mark);
        shown.lines().filter(is_marked).count()
    };
    assert!(marked('?') > 0, "{shown}");
    let legend: Vec<&str> = shown
        .lines()
        .filter(|line| line.contains("a score below 0.9"))
        .collect();
    assert_eq!(legend.len(), 1, "{shown}");
    let (problems, _) = shown.split_once(legend[0]).expect("the legend");
    assert!(
        problems.contains("tokens generated)"),
        "it stands below the problems"
    );
    let json = place.run(&["solve", "--limit", "12", "--json"]).ok().stdout;
    assert!(!json.contains("a score below"));
    let quiet = place
        .run(&["solve", "--limit", "12", "--quiet"])
        .ok()
        .stdout;
    assert!(!quiet.contains("a score below"));
    let help = place.run(&["solve", "--help"]).ok().stdout;
    let words: Vec<&str> = help.split_whitespace().collect();
    assert!(
        words.join(" ").contains("? marks a score below 0.9"),
        "{help}"
    );
}
