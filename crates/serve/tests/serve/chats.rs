//! Tests chats of several turns, and answers whose beginning the request gives.

use beamgen::{Problem, Request, Role, Solver, Turn};
use beamgen_serve::ServeOptions;
use serde_json::{Value, json};

use crate::client::{Running, problem};

fn greedy(messages: Value, more: Value) -> Value {
    let mut body =
        json!({"messages": messages, "seed": 0, "beamgen": {"strategy": "greedy", "tree": true}});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

#[test]
fn earlier_turns_are_a_part_of_the_prompt() {
    let server = Running::start(ServeOptions::default());
    let (first, second) = (problem(0), problem(1));
    let alone = server.chat(&greedy(json!([user(&second)]), json!({}))).ok();
    let answered = server.chat(&greedy(json!([user(&first)]), json!({}))).ok();
    let said = answered["choices"][0]["message"].clone();
    // SDKs send the message of an earlier answer back unchanged.
    let messages = json!([user(&first), said, user(&second)]);
    let chat = server.chat(&greedy(messages, json!({}))).ok();
    let read = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(read(&chat) > read(&alone));

    let turn = |role, content: &str| Turn {
        role,
        content: content.to_owned(),
    };
    let mut solver = Solver::builder().build().unwrap();
    let mut settings = solver.settings();
    settings.search.strategy = "greedy".parse().unwrap();
    let wanted = Problem {
        turns: vec![
            turn(Role::User, &first),
            turn(Role::Assistant, said["content"].as_str().unwrap()),
        ],
        ..Problem::from(second)
    };
    let wanted = solver.solve(Request::new(wanted, settings)).unwrap();
    let text = wanted.tree.text(wanted.chosen.unwrap());
    assert_eq!(chat["choices"][0]["message"]["content"], text.trim());
    assert_eq!(read(&chat), wanted.ledger.prompt_tokens);
}

#[test]
fn an_answer_continues_the_beginning_that_a_request_gives() {
    let server = Running::start(ServeOptions::default());
    let text = problem(0);
    let whole = server.chat(&greedy(json!([user(&text)]), json!({}))).ok();
    let tree = whole["beamgen"]["tree"].as_array().unwrap();
    let whole: String = tree
        .iter()
        .map(|node| node["text"].as_str().unwrap())
        .collect();
    let line = whole.find('\n').unwrap() + 1;
    let continued = json!({"continue_final_message": true, "add_generation_prompt": false});
    // Positions before a word: within the first step, between two steps, and within the second
    // step.
    let word = |from: usize| from + whole[from..].find(' ').unwrap();
    for at in [word(0), line, word(line)] {
        let (prefix, rest) = whole.split_at(at);
        let messages = json!([user(&text), assistant(prefix)]);
        let body = greedy(messages, continued.clone());
        let answer = server.chat(&body).ok();
        let content = answer["choices"][0]["message"]["content"].as_str().unwrap();
        assert_eq!(content.trim_end(), rest.trim_end(), "{at}");
        assert_eq!(
            answer["beamgen"]["given"].as_u64().unwrap_or(0),
            u64::from(at >= line)
        );
        let mut streamed = body;
        streamed["stream"] = json!(true);
        let chunks = server.chat(&streamed).chunks();
        let pieces = chunks.iter().filter_map(|chunk| chunk["choices"].get(0));
        let pieces = pieces.map(|choice| choice["delta"]["content"].as_str().unwrap_or_default());
        assert_eq!(pieces.collect::<String>(), content);
    }
}

#[test]
fn what_is_no_chat_is_refused() {
    let server = Running::start(ServeOptions::default());
    let both = json!({"continue_final_message": true, "add_generation_prompt": true});
    for (messages, more, field) in [
        (json!([user("x"), assistant("y")]), json!({}), "messages[1]"),
        (
            json!([user("x"), assistant("y")]),
            both,
            "add_generation_prompt",
        ),
        (
            json!([user("x")]),
            json!({"continue_final_message": true}),
            "continue_final_message",
        ),
        (
            json!([user("x"), {"role": "tool", "content": "y"}, user("z")]),
            json!({}),
            "messages[1]",
        ),
    ] {
        let refused = server.chat(&greedy(messages, more)).refusal();
        assert_eq!((refused.0, refused.2), (400, json!(field)));
    }
}
