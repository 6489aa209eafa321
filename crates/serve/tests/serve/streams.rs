//! Streams: chunks of `OpenAI`'s shape, events that tell the whole search, comments.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::time::Duration;

use beamgen::Config;
use beamgen_serve::{Limits, ServeOptions};
use serde_json::{Value, json};

use crate::client::{Reply, Running, ask, problem, request};

fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

#[test]
fn a_streamed_answer_is_the_one_that_comes_at_once() {
    let server = Running::start(ServeOptions::default());
    let own = json!({"n": 8, "seed": 2});
    let whole = server.chat(&ask(&problem(2), own.clone())).ok();
    let mut body = streamed(ask(&problem(2), own.clone()));
    body["stream_options"] = json!({"include_usage": true});
    let chunks = server.chat(&body).chunks();
    let first = &chunks[0];
    assert_eq!(first["choices"][0]["delta"]["role"], "assistant");
    let (mut content, mut finish, mut usage, mut own_object) =
        (String::new(), Value::Null, Value::Null, Value::Null);
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        for key in ["id", "created", "model"] {
            assert_eq!(chunk[key], first[key]);
        }
        if let Some(choice) = chunk["choices"].get(0) {
            content += choice["delta"]["content"].as_str().unwrap_or_default();
            if !choice["finish_reason"].is_null() {
                finish = choice["finish_reason"].clone();
                own_object = chunk["beamgen"].clone();
            }
        } else {
            usage = chunk["usage"].clone();
        }
    }
    assert_eq!(content, whole["choices"][0]["message"]["content"]);
    assert_eq!(finish, whole["choices"][0]["finish_reason"]);
    assert_eq!(usage, whole["usage"]);
    assert_eq!(own_object["steps"], whole["beamgen"]["steps"]);
    // One piece a step.
    let pieces = chunks
        .iter()
        .filter(|c| c["choices"][0]["delta"]["content"].is_string());
    assert_eq!(
        pieces.count(),
        1 + whole["beamgen"]["steps"].as_array().unwrap().len()
    );

    let body = json!({"prompt": problem(2), "stream": true, "beamgen": own});
    let chunks = server.post("/v1/completions", &body).chunks();
    let texts = chunks
        .iter()
        .map(|c| c["choices"][0]["text"].as_str().unwrap());
    assert_eq!(texts.collect::<String>(), content);
}

/// A node as the events told it.
#[derive(Default, Debug)]
struct Told {
    parent: Option<u64>,
    step: Value,
    score: Value,
    partial: Value,
    state: String,
    pruned: Value,
    finish: Value,
    duplicate_of: Value,
    copies: u64,
    children: Vec<u64>,
}

/// Plays the events into a tree, as a page would.
fn played(chunks: &[Value]) -> BTreeMap<u64, Told> {
    let mut nodes = BTreeMap::from([(0, Told::default())]);
    let told = chunks
        .iter()
        .filter_map(|chunk| chunk["beamgen"]["events"].as_array());
    for event in told.flatten() {
        let node = event["node"].as_u64();
        match event["type"].as_str().unwrap() {
            "started" => continue,
            "restarted" => panic!("there is memory enough"),
            _ => {}
        }
        let id = node.unwrap();
        if event["type"] == "expanded" {
            for child in event["children"].as_array().unwrap() {
                let child = child.as_u64().unwrap();
                let told = Told {
                    parent: Some(id),
                    copies: 1,
                    ..Told::default()
                };
                assert!(nodes.insert(child, told).is_none(), "{event}");
                nodes.get_mut(&id).unwrap().children.push(child);
            }
            nodes.get_mut(&id).unwrap().state = "expanded".to_owned();
            continue;
        }
        let known = nodes
            .get_mut(&id)
            .unwrap_or_else(|| panic!("unknown node: {event}"));
        match event["type"].as_str().unwrap() {
            "step" => {
                assert_eq!(event["parent"].as_u64(), known.parent);
                known.state = event["state"].as_str().unwrap().to_owned();
                known.finish = event["finish"].clone();
                known.step = event.clone();
            }
            "score" => known.score = event["score"].clone(),
            "partial_score" => known.partial = event["partial_score"].clone(),
            "pruned" => {
                known.state = "pruned".to_owned();
                known.pruned = event["pruned"].clone();
            }
            "finished" => {
                known.state = "finished".to_owned();
                known.finish = event["finish"].clone();
            }
            "duplicate" => {
                known.state = "duplicate".to_owned();
                known.duplicate_of = event["duplicate_of"].clone();
                let twin = event["duplicate_of"].as_u64().unwrap();
                nodes.get_mut(&twin).unwrap().copies = event["copies"].as_u64().unwrap();
            }
            "answer" => assert!(event["votes"].as_u64() > Some(0) && event["answer"].is_string()),
            other => panic!("{other}"),
        }
    }
    nodes
}

/// Compares what was told of a node with the node of the answer's tree, and all below.
fn compare(told: &BTreeMap<u64, Told>, id: u64, tree: &Value, at: usize) -> usize {
    let (known, node) = (&told[&id], &tree[at]);
    if at > 0 {
        for key in ["text", "tokens", "logprob", "depth", "stream", "round"] {
            if !known.step.is_null() {
                assert_eq!(known.step[key], node[key], "{key} of {known:?} and {node}");
            }
        }
        assert_eq!(known.score, node["score"], "{known:?} and {node}");
        assert_eq!(known.partial, node["partial_score"], "{known:?} and {node}");
        assert_eq!(known.pruned, node["pruned"], "{known:?} and {node}");
        assert_eq!(known.state, node["state"], "{known:?} and {node}");
        assert_eq!(known.copies, node["copies"].as_u64().unwrap());
        let is_duplicate = !known.duplicate_of.is_null();
        assert_eq!(is_duplicate, !node["duplicate_of"].is_null());
        if known.state == "finished" {
            assert_eq!(known.finish, node["finish"]);
        }
    }
    let children = node["children"].as_array().unwrap();
    assert_eq!(known.children.len(), children.len(), "{known:?} and {node}");
    let below = known.children.iter().zip(children);
    let below = below.map(|(&id, at)| compare(told, id, tree, at.as_u64().unwrap() as usize));
    1 + below.sum::<usize>()
}

#[test]
fn events_tell_every_node_of_the_tree_as_it_ends_up() {
    let server = Running::start(ServeOptions::default());
    let (mut reasons, mut duplicates) = (Vec::new(), 0);
    for own in [
        json!({"n": 16, "m": 4}),
        json!({"n": 16, "m": 4, "search": {"early_rejection": 8}}),
        json!({"strategy": "majority", "n": 12}),
        json!({"strategy": "mcts", "n": 6}),
        json!({"strategy": "rebase", "n": 12, "budget_tokens": 400}),
    ] {
        let mut own = own;
        (own["events"], own["tree"]) = (json!(true), json!(true));
        let chunks = server
            .chat(&streamed(ask(&problem(3), own.clone())))
            .chunks();
        let told = played(&chunks);
        let last = chunks.last().unwrap();
        let tree = &last["beamgen"]["tree"];
        let compared = compare(&told, 0, tree, 0);
        assert_eq!(compared, tree.as_array().unwrap().len(), "{own}");
        reasons.extend(told.values().map(|told| told.pruned["reason"].to_string()));
        duplicates += told.values().filter(|t| t.state == "duplicate").count();

        // What was told of the votes at last is what the choice went by.
        let events = chunks
            .iter()
            .filter_map(|chunk| chunk["beamgen"]["events"].as_array());
        let answers = events.flatten().filter(|event| event["type"] == "answer");
        let votes: u64 = last["beamgen"]["answers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|answer| answer["votes"].as_u64().unwrap())
            .sum();
        assert!(answers.clone().count() > 0 && votes > 0, "{own}");
        if own["strategy"] == "majority" {
            let mut told: BTreeMap<&str, u64> = BTreeMap::new();
            for event in answers {
                let of = told.entry(event["answer"].as_str().unwrap()).or_default();
                *of = event["votes"].as_u64().unwrap();
            }
            for answer in last["beamgen"]["answers"].as_array().unwrap() {
                assert_eq!(
                    told[answer["answer"].as_str().unwrap()],
                    answer["votes"].as_u64().unwrap()
                );
            }
        }
        let progress: Vec<f64> = chunks
            .iter()
            .filter_map(|chunk| chunk["beamgen"]["seconds"].as_f64())
            .collect();
        assert!(progress.is_sorted() && !progress.is_empty());
    }
    assert!(duplicates > 0);
    assert!(reasons.iter().any(|reason| reason.contains("not-chosen")));
}

#[test]
fn a_stream_that_waits_is_kept_alive_and_ends_with_its_answer() {
    let limits = Limits {
        keep_alive: Duration::from_millis(10),
        ..Limits::default()
    };
    let mut config = Config::default();
    config.search.in_flight = 1;
    let server = Running::with(
        config,
        ServeOptions {
            limits,
            ..ServeOptions::default()
        },
    );
    // It keeps the only place while the other waits.
    let slow = ask(
        &problem(0),
        json!({"strategy": "best-of-n", "n": 200, "m": 1}),
    );
    let bytes = request("/v1/chat/completions", &slow.to_string(), "");
    let mut busy = server.connect();
    std::io::Write::write_all(&mut busy, &bytes).unwrap();
    let reply = server.chat(&streamed(ask(&problem(1), json!({"n": 4, "m": 2}))));
    let comments = reply
        .text()
        .lines()
        .filter(|line| *line == ": keep-alive")
        .count();
    assert!(comments > 0, "{}", reply.text());
    assert!(reply.chunks().len() > 3);
    assert_eq!(Reply::read(&mut BufReader::new(busy)).unwrap().status, 200);
}

#[test]
fn what_goes_wrong_in_a_stream_is_an_error_in_it() {
    let server = Running::start(ServeOptions::default());
    let chunks = server
        .chat(&streamed(ask(&"pens ".repeat(5000), json!({}))))
        .chunks();
    let error = &chunks.last().unwrap()["error"];
    assert_eq!(error["code"], "context_length_exceeded");
}
