//! Tests stop texts, log-probabilities, token biases, forms of answers, and calls of tools.

use beamgen_serve::ServeOptions;
use serde_json::{Value, json};

use crate::client::{Running, ask, problem};

fn greedy(more: Value) -> Value {
    let mut body = ask(&problem(0), json!({"strategy": "greedy", "tree": true}));
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

/// Returns the texts of all nodes joined, for an answer whose tree is a single chain.
fn written(answer: &Value) -> String {
    let tree = answer["beamgen"]["tree"].as_array().unwrap().iter();
    tree.map(|node| node["text"].as_str().unwrap()).collect()
}

#[test]
fn an_answer_ends_before_or_with_the_text_to_stop_at() {
    let server = Running::start(ServeOptions::default());
    let plain = server.chat(&greedy(json!({}))).ok();
    let text = written(&plain);
    // One stop text spans the end of the first step; the other is within a word of the second step.
    let line = text.find('\n').unwrap();
    for stop in [&text[line - 1..line + 3], &text[line + 2..line + 4]] {
        let at = text.find(stop).unwrap();
        for (include, end) in [(false, at), (true, at + stop.len())] {
            let more = json!({"stop": stop, "include_stop_str_in_output": include});
            let answer = server.chat(&greedy(more.clone())).ok();
            assert_eq!(content(&answer), &text[..end], "{stop:?}");
            let choice = &answer["choices"][0];
            assert_eq!(choice["finish_reason"], "stop");
            assert_eq!(choice["stop_reason"], stop);
            assert_eq!(answer["beamgen"]["finish"], "stop");
            let mut body = greedy(more);
            body["stream"] = json!(true);
            let chunks = server.chat(&body).chunks();
            let pieces = chunks.iter().filter_map(|chunk| chunk["choices"].get(0));
            let pieces =
                pieces.map(|choice| choice["delta"]["content"].as_str().unwrap_or_default());
            assert_eq!(pieces.collect::<String>(), content(&answer));
        }
    }
    // The body that lm-eval 0.4.13 sends. None of its stop texts occurs, so the answer is
    // unchanged.
    let lm_eval = json!({
        "model": "single", "max_tokens": 256, "temperature": 0, "seed": 1234,
        "stop": ["Question:", "</s>", "<|im_end|>"],
    });
    let answer = server.chat(&greedy(lm_eval)).ok();
    assert_eq!(content(&answer).trim(), content(&plain));
    assert_eq!(answer["choices"][0]["stop_reason"], Value::Null);
    for (stop, reason) in [
        (json!([""]), "not texts"),
        (json!([1]), "not texts"),
        (json!(7), "not a text"),
        (json!(vec!["x"; 17]), "up to 16"),
    ] {
        let reply = server.chat(&greedy(json!({"stop": stop})));
        assert_eq!(reply.refusal().2, json!("stop"));
        assert!(reply.text().contains(reason), "{}", reply.text());
    }
}

#[test]
fn every_chain_of_a_search_ends_at_the_text() {
    let server = Running::start(ServeOptions::default());
    let mut body = ask(&problem(2), json!({"n": 8, "m": 4, "tree": true}));
    body["stop"] = json!(["answer", "="]);
    let answer = server.chat(&body).ok();
    assert!(!content(&answer).contains('=') && !content(&answer).contains("answer"));
    assert_eq!(answer["beamgen"]["finish"], "stop");
}

#[test]
fn the_tokens_of_an_answer_have_their_log_probabilities() {
    let server = Running::start(ServeOptions::default());
    let body = greedy(json!({"logprobs": true, "top_logprobs": 3}));
    let answer = server.chat(&body).ok();
    let tokens = answer["choices"][0]["logprobs"]["content"]
        .as_array()
        .unwrap();
    let joined: String = tokens
        .iter()
        .map(|token| token["token"].as_str().unwrap())
        .collect();
    assert_eq!(joined.trim(), content(&answer));
    for token in tokens {
        let top = token["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 3);
        // Greedy decoding takes the likeliest token, which is therefore the first alternative.
        for key in ["token", "logprob", "bytes"] {
            assert_eq!(top[0][key], token[key]);
        }
        let probabilities: Vec<f64> = top.iter().map(|t| t["logprob"].as_f64().unwrap()).collect();
        assert!(probabilities.is_sorted_by(|a, b| a >= b) && probabilities[0] <= 0.0);
        let text = String::from_utf8_lossy(
            &serde_json::from_value::<Vec<u8>>(token["bytes"].clone()).unwrap(),
        )
        .into_owned();
        assert_eq!(token["token"], text);
    }
    let plain = server.chat(&greedy(json!({}))).ok();
    assert_eq!(content(&plain), content(&answer));
    assert_eq!(plain["choices"][0]["logprobs"], Value::Null);

    let mut streamed = body;
    streamed["stream"] = json!(true);
    let chunks = server.chat(&streamed).chunks();
    let told = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array());
    let told: Vec<Value> = told.flatten().cloned().collect();
    assert_eq!(&told, tokens);

    let body =
        json!({"prompt": problem(0), "logprobs": 2, "seed": 0, "beamgen": {"strategy": "greedy"}});
    let completion = server.post("/v1/completions", &body).ok();
    let (text, logprobs) = (
        completion["choices"][0]["text"].as_str().unwrap(),
        &completion["choices"][0]["logprobs"],
    );
    let list = |key: &str| logprobs[key].as_array().unwrap();
    assert_eq!(list("tokens").len(), tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        assert_eq!(list("tokens")[at], token["token"]);
        assert_eq!(list("token_logprobs")[at], token["logprob"]);
        assert_eq!(
            list("top_logprobs")[at][token["token"].as_str().unwrap()],
            token["logprob"]
        );
        let offset = list("text_offset")[at].as_u64().unwrap() as usize;
        let rest: String = text.chars().skip(offset).collect();
        let said = token["token"].as_str().unwrap();
        assert!(
            rest.starts_with(said.trim_end()) || at == 0,
            "{rest:?} {said:?}"
        );
    }
    for (more, field) in [
        (json!({"top_logprobs": 2}), "top_logprobs"),
        (
            json!({"logprobs": true, "top_logprobs": 21}),
            "top_logprobs",
        ),
        (json!({"logprobs": 5}), "logprobs"),
    ] {
        assert_eq!(server.chat(&greedy(more)).refusal().2, json!(field));
    }
}

#[test]
fn a_bias_changes_what_is_sampled() {
    let server = Running::start(ServeOptions::default());
    let plain = server.chat(&greedy(json!({}))).ok();
    let token = plain["beamgen"]["tree"][1]["tokens"][0].to_string();
    let bias = |token: &str, bias: Value| greedy(json!({"logit_bias": {token: bias}}));
    let other = server.chat(&bias(&token, json!(-100))).ok();
    assert_ne!(other["beamgen"]["tree"][1]["tokens"][0].to_string(), token);
    let same = server.chat(&bias(&token, json!(100))).ok();
    assert_eq!(same["beamgen"]["tree"][1]["tokens"][0].to_string(), token);
    for (token, value) in [
        ("5000000", json!(1)),
        ("x", json!(1)),
        ("5", json!("x")),
        ("5", json!(101)),
    ] {
        let refused = server.chat(&bias(token, value)).refusal();
        assert_eq!(
            (refused.0, refused.2),
            (400, json!("logit_bias")),
            "{token}"
        );
    }
}

#[test]
fn forms_are_followed_or_refused_by_name() {
    let server = Running::start(ServeOptions::default());
    let schema = json!({
        "type": "object",
        "properties": {"answer": {"enum": ["yes", "no"]}},
        "required": ["answer"],
        "additionalProperties": false,
    });
    let format = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
    let reply = server.chat(&greedy(json!({"response_format": format})));
    if cfg!(feature = "structured") {
        let answer = reply.ok();
        let read: Value = serde_json::from_str(content(&answer)).unwrap();
        assert!(read == json!({"answer": "yes"}) || read == json!({"answer": "no"}));
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    } else {
        assert_eq!(reply.refusal().2, json!("response_format"));
        assert!(reply.text().contains("structured"), "{}", reply.text());
    }
    let text = json!({"response_format": {"type": "text"}});
    server.chat(&greedy(text)).ok();
    for format in [
        json!({"type": "xml"}),
        json!({"a": 1}),
        json!({"type": "json_schema"}),
        json!({"type": "json_schema", "json_schema": {"schema": 3}}),
        json!({"type": "json_schema", "json_schema": {"schema": {"type": "nonesuch"}}}),
        json!("text"),
    ] {
        let refused = server
            .chat(&greedy(json!({"response_format": format})))
            .refusal();
        assert_eq!((refused.0, refused.2), (400, json!("response_format")));
    }
}

fn tool() -> Value {
    json!({"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}})
}

#[test]
fn tools_need_a_template_with_a_form_of_calls() {
    let server = Running::start(ServeOptions::default());
    let refused = server.chat(&greedy(json!({"tools": [tool()]})));
    assert_eq!(refused.refusal().2, json!("tools"));
    let none = json!({"tools": [tool()], "tool_choice": "none"});
    server.chat(&greedy(none)).ok();
    for (more, field) in [
        (
            json!({"tools": [tool()], "tool_choice": "required"}),
            "tool_choice",
        ),
        (json!({"tools": [{"type": "x"}]}), "tools[0]"),
        (json!({"tools": 3}), "tools"),
    ] {
        assert_eq!(server.chat(&greedy(more)).refusal().2, json!(field));
    }
}
