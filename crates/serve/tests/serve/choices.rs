//! Tests requests with several answers: `n`, and lists of prompts.

use std::collections::{BTreeMap, BTreeSet};

use beamgen::Config;
use beamgen_serve::{Limits, ServeOptions};
use serde_json::{Value, json};

use crate::client::{Running, ask, essence, problem};

fn contents(answer: &Value) -> Vec<String> {
    let choices = answer["choices"].as_array().unwrap().iter();
    let content = |choice: &Value| match &choice["message"] {
        Value::Null => choice["text"].as_str().unwrap().to_owned(),
        message => message["content"].as_str().unwrap().to_owned(),
    };
    choices.map(content).collect()
}

/// Returns a request for `n` answers with the preset `model`.
fn several(model: &str, n: usize, own: Value) -> Value {
    let mut body = ask(&problem(3), own);
    (body["model"], body["n"]) = (model.into(), n.into());
    body
}

#[test]
fn without_a_scorer_n_answers_are_independent_and_each_repeats_by_its_seed() {
    let server = Running::start(ServeOptions::default());
    let answer = server.chat(&several("single", 8, json!({"seed": 5}))).ok();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 8);
    let mut completion = 0;
    for (at, choice) in choices.iter().enumerate() {
        assert_eq!(choice["index"], at);
        let own = json!({"seed": choice["beamgen"]["seed"]});
        let alone = server.chat(&several("single", 1, own)).ok();
        assert_eq!(alone["choices"][0]["message"], choice["message"]);
        assert_eq!(
            alone["choices"][0]["finish_reason"],
            choice["finish_reason"]
        );
        for key in ["answer", "score", "finish"] {
            assert_eq!(alone["beamgen"][key], choice["beamgen"][key]);
        }
        assert!(alone["choices"][0].get("beamgen").is_none());
        completion += alone["usage"]["completion_tokens"].as_u64().unwrap();
        // The tokens of the prompt count once, not for each answer.
        assert_eq!(
            alone["usage"]["prompt_tokens"],
            answer["usage"]["prompt_tokens"]
        );
    }
    assert_eq!(answer["usage"]["completion_tokens"], completion);
    assert_eq!(choices[0]["beamgen"]["seed"], 5);
    assert_eq!(answer["beamgen"]["seed"], 5);
    let seeds = choices.iter().map(|c| c["beamgen"]["seed"].as_u64());
    assert_eq!(seeds.collect::<BTreeSet<_>>().len(), 8);
    assert!(BTreeSet::from_iter(contents(&answer)).len() > 1);
    // A smaller `n` gives the first answers of a larger one.
    let fewer = server.chat(&several("single", 3, json!({"seed": 5}))).ok();
    assert_eq!(contents(&fewer), contents(&answer)[..3]);
    // Greedy decoding cannot give different answers, so it repeats one.
    let greedy = server
        .chat(&several("beamgen", 3, json!({"strategy": "greedy"})))
        .ok();
    assert_eq!(BTreeSet::from_iter(contents(&greedy)).len(), 1);
    assert_eq!(greedy["choices"].as_array().unwrap().len(), 3);
}

#[test]
fn a_search_gives_its_best_chains_of_different_texts() {
    let server = Running::start(ServeOptions::default());
    let one = server
        .chat(&several(
            "beamgen",
            1,
            json!({"n": 16, "strategy": "best-of-n"}),
        ))
        .ok();
    let answer = server
        .chat(&several(
            "beamgen",
            4,
            json!({"n": 16, "strategy": "best-of-n", "tree": true}),
        ))
        .ok();
    let texts = contents(&answer);
    assert_eq!(texts[0], contents(&one)[0], "the first is the chosen one");
    assert_eq!(answer["beamgen"]["steps"], one["beamgen"]["steps"]);
    assert_eq!(BTreeSet::from_iter(&texts).len(), texts.len());
    let choices = answer["choices"].as_array().unwrap();
    let scores: Vec<f64> = choices[1..]
        .iter()
        .filter(|choice| {
            choice["finish_reason"] == "stop" && choice["beamgen"]["answer"].is_string()
        })
        .map(|choice| choice["beamgen"]["score"].as_f64().unwrap())
        .collect();
    assert!(
        scores.windows(2).all(|pair| pair[0] >= pair[1]),
        "{scores:?}"
    );
    let tokens = |answer: &Value| answer["usage"]["completion_tokens"].as_u64().unwrap();
    assert!(tokens(&answer) > tokens(&one));
    // Each answer is the text of a finished chain in the tree.
    let tree = answer["beamgen"]["tree"].as_array().unwrap();
    let ends = tree
        .iter()
        .enumerate()
        .filter(|(_, node)| !node["finish"].is_null());
    let whole = |mut at: usize| {
        let mut text = String::new();
        while let Some(parent) = tree[at]["parent"].as_u64() {
            text = tree[at]["text"].as_str().unwrap().to_owned() + &text;
            at = parent as usize;
        }
        text.trim().to_owned()
    };
    let ends: BTreeSet<String> = ends.map(|(at, _)| whole(at)).collect();
    assert!(texts.iter().all(|text| ends.contains(text)));
}

#[test]
fn a_narrow_search_is_widened_and_missing_answers_are_told() {
    let server = Running::start(ServeOptions::default());
    let answer = server.chat(&several("fast", 12, json!({}))).ok();
    assert_eq!(answer["beamgen"]["n"], 12);
    let found = answer["choices"].as_array().unwrap().len();
    assert!((1..=12).contains(&found));
    let note = answer["beamgen"]["note"].as_str().unwrap_or_default();
    assert_eq!(
        note.starts_with(&format!("{found} of 12 choices")),
        found < 12
    );
    // This search can find only one text, because the temperature is 0.
    let same = json!({"strategy": "best-of-n", "n": 4, "temperature": 0.0});
    let same = server.chat(&several("beamgen", 4, same)).ok();
    assert_eq!(contents(&same).len(), 1);
    let note = same["beamgen"]["note"].as_str().unwrap();
    assert!(note.starts_with("1 of 4 choices: "), "{note}");
    // Chains that score below the threshold are not returned.
    let low = server
        .chat(&several("beamgen", 4, json!({"n": 16, "threshold": 1.0})))
        .ok();
    assert_eq!(low["choices"].as_array().unwrap().len(), 1);
    assert!(low["choices"][0]["message"]["refusal"].is_string());
}

#[test]
fn a_list_of_prompts_has_an_answer_for_each_as_if_it_came_alone() {
    let server = Running::start(ServeOptions::default());
    let ask = |prompt: Value, n: usize| {
        let own = json!({"seed": 2, "m": 2});
        let body = json!({"model": "fast", "prompt": prompt, "n": n, "beamgen": own});
        server.post("/v1/completions", &body).ok()
    };
    let texts: Vec<String> = (0..5).map(problem).collect();
    let all = ask(json!(texts), 1);
    let alone: Vec<Value> = texts.iter().map(|text| ask(json!(text), 1)).collect();
    let firsts: Vec<String> = alone
        .iter()
        .map(|answer| contents(answer)[0].clone())
        .collect();
    assert_eq!(contents(&all), firsts);
    for key in ["prompt_tokens", "completion_tokens", "total_tokens"] {
        let sum = alone
            .iter()
            .map(|answer| answer["usage"][key].as_u64().unwrap());
        assert_eq!(all["usage"][key], sum.sum::<u64>(), "{key}");
    }
    let sum = alone
        .iter()
        .map(|answer| &answer["beamgen"]["ledger"]["generated_tokens"]);
    let sum: u64 = sum.map(|tokens| tokens.as_u64().unwrap()).sum();
    assert_eq!(all["beamgen"]["ledger"]["generated_tokens"], sum);

    // With two answers for each prompt, the answers of a prompt are next to each other.
    let body = json!({"model": "single", "prompt": texts, "n": 2, "seed": 1});
    let two = server.post("/v1/completions", &body).ok();
    let choices = two["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 10);
    for (at, choice) in choices.iter().enumerate() {
        assert_eq!(choice["index"], at);
        let seed = choice["beamgen"]["seed"].clone();
        let body = json!({"model": "single", "prompt": texts[at / 2], "seed": seed});
        let alone = server.post("/v1/completions", &body).ok();
        assert_eq!(contents(&alone)[0], choice["text"]);
    }
    // Without a seed in the request, equal prompts get different seeds.
    let body = json!({"model": "single", "prompt": vec![&texts[0]; 8]});
    let same = server.post("/v1/completions", &body).ok();
    let choices = same["choices"].as_array().unwrap().iter();
    let seeds = choices.map(|choice| choice["beamgen"]["seed"].as_u64());
    assert_eq!(seeds.collect::<BTreeSet<_>>().len(), 8);
}

#[test]
fn several_answers_stream_and_each_has_its_index() {
    let server = Running::start(ServeOptions::default());
    for (model, own) in [("single", json!({})), ("beamgen", json!({"n": 8}))] {
        let mut body = several(model, 4, own);
        let whole = server.chat(&body).ok();
        body["stream"] = json!(true);
        body["beamgen"]["events"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
        let chunks = server.chat(&body).chunks();
        let mut told: BTreeMap<u64, (String, Value, Value)> = BTreeMap::new();
        for choice in chunks.iter().filter_map(|chunk| chunk["choices"].get(0)) {
            let entry = told.entry(choice["index"].as_u64().unwrap()).or_default();
            entry.0 += choice["delta"]["content"].as_str().unwrap_or_default();
            if !choice["finish_reason"].is_null() {
                entry.1 = choice["finish_reason"].clone();
                entry.2 = choice["beamgen"].clone();
            }
        }
        let wanted: BTreeMap<u64, (String, Value, Value)> = whole["choices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|choice| {
                let content = choice["message"]["content"].as_str().unwrap().to_owned();
                let told = (
                    content,
                    choice["finish_reason"].clone(),
                    choice["beamgen"].clone(),
                );
                (choice["index"].as_u64().unwrap(), told)
            })
            .collect();
        assert_eq!(told, wanted);
        let last = chunks
            .iter()
            .rfind(|chunk| chunk["beamgen"]["ledger"].is_object());
        let last = &last.unwrap()["beamgen"];
        for key in ["seed", "answer", "steps", "n"] {
            assert_eq!(last[key], whole["beamgen"][key], "{key}");
        }
        assert_eq!(chunks.last().unwrap()["usage"], whole["usage"]);
        let events = chunks
            .iter()
            .filter(|chunk| chunk["beamgen"]["events"].is_array());
        assert!(events.clone().count() > 0);
        assert!(
            events
                .clone()
                .all(|chunk| chunk["beamgen"]["choice"].is_u64())
        );
    }
}

#[test]
fn what_would_be_too_much_is_refused_by_name_and_leaves_nothing_behind() {
    let mut config = Config::default();
    config.search.in_flight = 1;
    let limits = Limits {
        queue: 6,
        tokens: 64 * 2048,
        ..Limits::default()
    };
    let server = Running::with(
        config,
        ServeOptions {
            limits,
            ..ServeOptions::default()
        },
    );
    let full = server.chat(&several("single", 32, json!({}))).refusal();
    assert_eq!((full.0, full.1.as_str()), (429, "queue_full"));
    let many = server.chat(&several("single", 65, json!({}))).refusal();
    assert_eq!((many.0, many.2), (400, json!("n")));
    let prompt = vec!["x"; 129];
    let body = json!({"model": "single", "prompt": prompt});
    let many = server.post("/v1/completions", &body).refusal();
    assert_eq!((many.0, many.2), (400, json!("prompt")));
    // A prompt that does not fit is an error of the whole request, which names the prompt.
    let body = json!({"model": "single", "prompt": [problem(0), "pens ".repeat(5000)], "seed": 0});
    let long = server.post("/v1/completions", &body).refusal();
    assert_eq!(long.2, json!("prompt[1]"));
    let body = json!({"prompt": ["a", "b"], "beamgen": {"reference": "7"}});
    let one = server.post("/v1/completions", &body).refusal();
    assert_eq!(one.2, json!("beamgen.reference"));
    server.wait_until_idle();
    assert!(server.metric("beamgen_stopped_total{reason=\"cancelled\"} ") > 0.0);
    let (own, first) = (
        json!({"seed": 5}),
        server.chat(&several("single", 1, json!({"seed": 5}))),
    );
    let again = server.chat(&several("single", 1, own));
    assert_eq!(essence(&first.ok()), essence(&again.ok()));
}

#[test]
fn each_of_several_answers_is_compared_with_the_reference() {
    let server = Running::start(ServeOptions::default());
    let reference = beamgen::bundled::sample().unwrap().problems[3]
        .answer
        .clone()
        .unwrap();
    let own = json!({"reference": reference, "seed": 1});
    let answer = server.chat(&several("single", 16, own)).ok();
    let choices = answer["choices"].as_array().unwrap();
    let mut seen = BTreeSet::new();
    for choice in choices {
        let own = &choice["beamgen"];
        assert_eq!(own["correct"], json!(own["answer"] == json!(reference)));
        seen.insert(own["correct"].as_bool().unwrap());
    }
    assert_eq!(
        answer["beamgen"]["correct"],
        choices[0]["beamgen"]["correct"]
    );
    assert!(!seen.is_empty());
}
