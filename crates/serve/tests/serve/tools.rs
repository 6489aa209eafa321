//! Calls of tools from a request to its answer, with a chat template that has a form of them.

use std::path::Path;

use beamgen_serve::ServeOptions;
use serde_json::{Value, json};

use crate::client::{Running, ask};
use crate::pair::changed_pair;

/// The beginning of an answer. The bundled generator has learnt no calls, so a request gives it this one as a step.
const CALL: &str = "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 8}}</tool_call>\n";
/// The part of a chat template that reads tools. A comment is enough to tell the form of calls.
const TOOLS: &str = "{% for t in tools or [] %}{{ t['function']['name'] }} {% endfor %}{# <tool_call></tool_call> #}";
const PROBLEM: &str = "Mia has 3 pens. How many pens does Mia have?";

/// Starts a server whose generator reads the names of tools before the problem.
fn server(folder: &Path) -> Running {
    let config = changed_pair(folder, |model, file, content| {
        if (model, file) == ("generator", "tokenizer_config.json") {
            let template = content["chat_template"].as_str().unwrap();
            content["chat_template"] = json!(format!("{TOOLS}{template}"));
        }
    });
    Running::with(config, ServeOptions::default())
}

fn body(more: &Value) -> Value {
    let mut body = ask(PROBLEM, json!({"strategy": "greedy", "steps": [CALL]}));
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[test]
fn a_call_in_the_text_is_a_call_in_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let tools = json!([{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]);
    let plain = server.chat(&body(&json!({}))).ok();
    let text = plain["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.starts_with(CALL.trim_end()), "{text:?}");

    let asked = json!({"tools": tools});
    let answer = server.chat(&body(&asked)).ok();
    let read = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(read(&answer) > read(&plain), "the template reads the tools");
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["type"], "function");
    assert_eq!(
        calls[0]["function"],
        json!({"name": "add", "arguments": "{\"a\":8}"})
    );

    let mut streamed = body(&asked);
    streamed["stream"] = json!(true);
    let chunks = server.chat(&streamed).chunks();
    let choices = || chunks.iter().filter_map(|chunk| chunk["choices"].get(0));
    let told: Vec<&Value> = choices()
        .filter_map(|choice| choice["delta"]["tool_calls"].get(0))
        .collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["function"], calls[0]["function"]);
    assert!(choices().any(|choice| choice["finish_reason"] == "tool_calls"));

    let none = server
        .chat(&body(&json!({"tools": tools, "tool_choice": "none"})))
        .ok();
    assert_eq!(none["choices"][0]["message"]["content"], text);
}
