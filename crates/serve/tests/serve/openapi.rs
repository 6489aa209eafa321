//! Tests that the OpenAPI document is up to date and complete.

use std::collections::BTreeSet;

use beamgen_serve::ServeOptions;
use serde_json::{Map, Value, json};

use crate::client::Running;
use crate::client::schema::{ADVICE, path};

fn source(name: &str) -> String {
    let path = format!("{}/src/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a source file")
}

/// Returns the names of a schema's properties. A property of the object `beamgen` is
/// `beamgen.NAME`.
fn properties(document: &Value, schema: &Value) -> BTreeSet<String> {
    let own = schema["properties"]["beamgen"]["$ref"].as_str();
    let own = own.and_then(|to| document.pointer(to.strip_prefix('#')?));
    let own = own.map(names).unwrap_or_default();
    let own = own.iter().map(|name| format!("beamgen.{name}"));
    names(schema).into_iter().chain(own).collect()
}

fn names(schema: &Value) -> Vec<String> {
    let properties = schema["properties"].as_object();
    properties
        .into_iter()
        .flat_map(Map::keys)
        .cloned()
        .collect()
}

#[test]
fn the_document_of_the_book_is_that_of_the_server() {
    let server = Running::start(ServeOptions::default());
    let document = server.get("/openapi.json").ok();
    let mut text = serde_json::to_string_pretty(&document).expect("JSON");
    text.push('\n');
    if std::env::var_os("BEAMGEN_WRITE").is_some() {
        std::fs::write(path(), &text).expect("written");
    }
    let written = std::fs::read_to_string(path()).unwrap_or_default();
    assert!(
        written == text,
        "docs/reference/openapi.json is old: {ADVICE}"
    );
}

#[test]
fn every_route_of_the_document_is_answered_and_has_no_other_method() {
    let server = Running::start(ServeOptions::default());
    let document = server.get("/openapi.json").ok();
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() > 12, "{paths:?}");
    let mut ids = BTreeSet::new();
    for (path, methods) in paths {
        let path = path.replace("{name}", "fast");
        for method in ["get", "post"] {
            let reply = match method {
                "get" => server.get(&path),
                _ => server.post(&path, &json!({})),
            };
            let operation = &methods[method];
            if operation.is_null() {
                assert_eq!(reply.status, 405, "{method} {path}");
                continue;
            }
            assert!(![404, 405].contains(&reply.status), "{method} {path}");
            assert!(ids.insert(operation["operationId"].to_string()), "{path}");
            let content = &operation["responses"]["200"]["content"];
            if reply.status == 200 {
                let kind = reply.header("content-type").expect("a type");
                let kind = kind.split(';').next().expect("a type");
                assert!(!content[kind].is_null(), "{method} {path}: {kind}");
            }
        }
    }
}

#[test]
fn every_field_of_the_document_is_known_to_the_server_and_others_are_treated_as_it_says() {
    let server = Running::start(ServeOptions::default());
    let document = server.get("/openapi.json").ok();
    let mut checked = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let schema = &methods["post"]["requestBody"]["content"]["application/json"]["schema"];
        let Some(name) = schema["$ref"].as_str().and_then(|r| r.rsplit('/').next()) else {
            continue;
        };
        let schema = &document["components"]["schemas"][name];
        // A body may have one of several forms, or only a single one.
        let forms = schema["anyOf"].as_array();
        for form in forms.map_or(vec![schema], |forms| forms.iter().collect()) {
            let refused = |field: &str| {
                let mut body = json!({});
                for name in form["required"].as_array().expect("a list") {
                    let name = name.as_str().expect("a name");
                    body[name] = sample(name);
                }
                if path.ends_with("completions") {
                    // A short answer of one chain saves time: there are hundreds of fields.
                    body["model"] = json!("single");
                    body["max_tokens"] = json!(1);
                }
                // A null counts as a missing field, so a known field is accepted. An unknown field
                // is refused even with null.
                match field.strip_prefix("beamgen.") {
                    Some(own) => body["beamgen"] = json!({own: null}),
                    None if body[field].is_null() => body[field] = Value::Null,
                    None => {}
                }
                let reply = server.post(path, &body);
                reply.status == 400 && reply.refusal().1 == "unknown_field"
            };
            for field in properties(&document, form) {
                assert!(!refused(&field), "{path} does not know {field}");
                checked += 1;
            }
            let is_closed = form["additionalProperties"] == false;
            assert_eq!(refused("nonesuch"), is_closed, "{path}");
        }
    }
    assert!(checked > 100, "{checked}");
}

/// Returns a valid value of a required field.
fn sample(name: &str) -> Value {
    match name {
        "messages" => json!([{"role": "user", "content": "1 + 1?"}]),
        "prompt" => json!("1 + 1?"),
        "chains" => json!([{"problem": "1 + 1?", "steps": ["1 + 1 = 2."]}]),
        "input" | "query" | "response" | "text_1" | "queries" | "data_1" => json!("1 + 1?"),
        "text_2" | "documents" | "items" | "data_2" => json!(["1 + 1 = 2."]),
        name => panic!("no sample of {name}"),
    }
}

#[test]
fn every_code_of_an_error_stands_in_the_document_and_in_the_book() {
    let server = Running::start(ServeOptions::default());
    let document = server.get("/openapi.json").ok();
    let codes = &document["components"]["schemas"]["Error"]["properties"]["error"];
    let codes = codes["properties"]["code"]["enum"]
        .as_array()
        .expect("codes");
    let page = path().with_file_name("http.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, table) = page.split_once("\n## Errors\n").expect("a heading");
    let (table, _) = table.split_once("\n## ").expect("a heading");
    for code in codes {
        let code = code.as_str().expect("a code");
        assert!(table.contains(&format!("`{code}`")), "http.md lacks {code}");
    }
    // The sources use no code that is missing in the table.
    let table = source("refusal.rs");
    for name in sources() {
        let text = source(&name);
        for call in ["Refusal::new(", "Refusal::input(", "Refusal::field("] {
            for rest in text.split(call).skip(1) {
                let literals = rest.split('"').skip(1).step_by(2).take(1);
                for code in literals.filter(|code| is_code(code)) {
                    let row = format!("(\"{code}\", ");
                    let row_below = format!("\n        \"{code}\",\n");
                    let is_in = table.contains(&row) || table.contains(&row_below);
                    assert!(is_in, "{name}: {code} is not in CODES");
                }
            }
        }
    }
}

fn is_code(text: &str) -> bool {
    text.contains('_') && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

/// Returns the paths of all source files below `src`.
fn sources() -> Vec<String> {
    let mut found = Vec::new();
    let root = format!("{}/src", env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(format!("{root}/{folder}")).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = format!("{folder}{}", entry.file_name().to_string_lossy());
            if entry.file_type().expect("a type").is_dir() {
                folders.push(format!("{name}/"));
            } else {
                found.push(name);
            }
        }
    }
    found
}
