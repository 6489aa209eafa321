//! Compares scores with those on model cards, for models whose weights are in folders of that name
//! in `BEAMGEN_TEST_WEIGHTS`. The texts are read from the cards (`README.md` next to the weights),
//! since only the cards have them exactly.

use std::path::PathBuf;

use beamgen_engine::ThreadPool;
use beamgen_prm::RewardModel;
use beamgen_test_support::{Missing, skip};

use crate::models::on_cpu;

/// The model's folder and card, if both are there; else `None` after a skip.
fn card(model: &str) -> Option<(PathBuf, String)> {
    let weights = std::env::var_os("BEAMGEN_TEST_WEIGHTS");
    let folder = weights.map(|weights| PathBuf::from(weights).join(model));
    let found = folder.and_then(|folder| {
        let card = std::fs::read_to_string(folder.join("README.md")).ok()?;
        Some((folder, card))
    });
    if found.is_none() {
        let reason = format_args!("no {model}/README.md and weights below BEAMGEN_TEST_WEIGHTS");
        skip(Missing::Model, reason);
    }
    found
}

fn check(model: &str, problem: &str, chains: &[Vec<String>], golden: &[&[f32]], tolerance: f32) {
    let (folder, _) = card(model).unwrap();
    let config = on_cpu();
    let mut prm = RewardModel::load(&folder, None, None, config, ThreadPool::new(0)).unwrap();
    for (steps, golden) in chains.iter().zip(golden) {
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let scores = prm.whole_chain(problem, &steps).unwrap();
        println!("{model}: {scores:?}, on the card {golden:?}");
        assert_eq!(scores.len(), golden.len());
        for (score, golden) in scores.iter().zip(*golden) {
            assert!((score - golden).abs() < tolerance, "{model}: {scores:?}");
        }
    }
}

#[test]
fn math_shepherd() {
    let model = "math-shepherd-mistral-7b-prm";
    let Some((_, card)) = card(model) else { return };
    let (problem, chains) = shepherd_example(&card).expect("the card's example");
    let golden: [&[f32]; 2] = [
        &[0.9955, 0.9958, 0.9983, 0.9957],
        &[0.9955, 0.9958, 0.9983, 0.0240],
    ];
    assert!(chains.len() >= golden.len());
    check(model, &problem, &chains, &golden, 0.01);
}

#[test]
fn qwen_math_prm() {
    let golden: [(&str, [f32; 4]); 2] = [
        ("Qwen2.5-Math-PRM-7B", [1.0, 0.190_43, 0.9765625, 1.0]),
        (
            "Qwen2.5-Math-PRM-72B",
            [0.9921875, 0.004_761, 0.32421875, 0.8203125],
        ),
    ];
    for (model, golden) in golden {
        let Some((_, card)) = card(model) else {
            continue;
        };
        let (problem, steps) = qwen_example(&card).expect("the card's example");
        // Others who ran the card's code got 0.154 for the second step.
        check(model, &problem, &[steps], &[&golden], 0.05);
    }
}

/// The first Python string in `text` and what follows it.
fn python_string(text: &str) -> Option<(String, &str)> {
    let text = &text[text.find('"')?..];
    let quote = if text.starts_with("\"\"\"") {
        "\"\"\""
    } else {
        "\""
    };
    let mut rest = &text[quote.len()..];
    let mut value = String::new();
    while !rest.starts_with(quote) {
        let c = rest.chars().next()?;
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            value.push(c);
            continue;
        }
        let escaped = rest.chars().next()?;
        rest = &rest[escaped.len_utf8()..];
        match escaped {
            'n' => value.push('\n'),
            't' => value.push('\t'),
            'b' => value.push('\u{8}'),
            'f' => value.push('\u{c}'),
            'r' => value.push('\r'),
            '\\' | '"' | '\'' => value.push(escaped),
            'u' => {
                let code = u32::from_str_radix(rest.get(..4)?, 16).ok()?;
                value.push(char::from_u32(code)?);
                rest = &rest[4..];
            }
            other => value.extend(['\\', other]),
        }
    }
    Some((value, &rest[quote.len()..]))
}

/// `"query": "..."` and `"response": ["...", ...]`.
fn qwen_example(card: &str) -> Option<(String, Vec<String>)> {
    let (problem, rest) = python_string(card.split_once("\"query\":")?.1)?;
    let (_, mut rest) = rest.split_once("\"response\":")?;
    let mut steps = Vec::new();
    rest = rest.trim_start().strip_prefix('[')?.trim_start();
    while !rest.starts_with(']') {
        let (step, after) = python_string(rest)?;
        steps.push(step);
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    Some((problem, steps))
}

/// `question = """..."""` and `output1 = """..."""`, whose steps end in the step tag.
fn shepherd_example(card: &str) -> Option<(String, Vec<Vec<String>>)> {
    let (problem, _) = python_string(card.split_once("question = ")?.1)?;
    let mut chains = Vec::new();
    while let Some((_, rest)) = card.split_once(&format!("output{} = ", chains.len() + 1)) {
        let (output, _) = python_string(rest)?;
        let steps = output.split("ки").map(|step| step.trim().to_owned());
        chains.push(steps.filter(|step| !step.is_empty()).collect());
    }
    Some((problem, chains))
}

#[test]
fn examples_are_found_on_cards() {
    let card = "data = {\n \"query\": \"What's \\\"it\\\"?  Say \\u2019.\",\n \"response\": [\n  \
        \"a, \\\\(b\\\\)\",\n  \"\\boxed{1}\\n\"\n ]\n}";
    let (problem, steps) = qwen_example(card).unwrap();
    assert_eq!(problem, "What's \"it\"?  Say \u{2019}.");
    assert_eq!(steps, ["a, \\(b\\)", "\u{8}oxed{1}\n"]);
    let card = "question = \"\"\"Q \"?\"\"\"\noutput1 = \"\"\"Step 1: a ки\nStep 2: b ки\"\"\" # ok\n\
        output2 = \"\"\"Step 1: c ки\"\"\"";
    let (problem, chains) = shepherd_example(card).unwrap();
    assert_eq!(problem, "Q \"?");
    assert_eq!(chains, [vec!["Step 1: a", "Step 2: b"], vec!["Step 1: c"]]);
}
