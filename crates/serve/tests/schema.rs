//! Checks requests and answers against the OpenAPI document. The document must allow every request
//! that the server accepts, and describe every answer.

use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::Value;

/// The document of the reference manual.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let text = std::fs::read_to_string(path()).expect("the document");
    serde_json::from_str(&text).expect("JSON")
});

/// The command that writes the document again after a change of the server.
pub(crate) const ADVICE: &str = "BEAMGEN_WRITE=1 cargo test --release -p beamgen-serve --test serve -- the_document_of_the_book";

pub(crate) fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json")
}

/// Fails if the document forbids a request that the server answered with 200, or if it does not
/// describe the answer.
pub(crate) fn check(route: &str, request: &Value, status: u16, answer: Option<&Value>) {
    let operation = &DOCUMENT["paths"][route]["post"];
    if operation.is_null() {
        assert!([404, 405].contains(&status), "{route}: {ADVICE}");
        return;
    }
    let json = "application/json";
    if status == 200 {
        let schema = &operation["requestBody"]["content"][json]["schema"];
        assert_fits(&format!("a request to {route}"), schema, request);
    }
    let responses = &operation["responses"];
    let response = match status {
        200 => &responses["200"],
        _ => resolved(&responses["default"]),
    };
    if let Some(answer) = answer {
        let schema = &response["content"][json]["schema"];
        assert_fits(&format!("an answer of {route}"), schema, answer);
    }
}

fn assert_fits(what: &str, schema: &Value, value: &Value) {
    if let Err(fault) = fit(schema, value, "") {
        panic!(
            "{what} is not as the OpenAPI document says: {fault}. If the change is meant: {ADVICE}"
        );
    }
}

/// Returns the schema that `$ref` points to, or the schema itself without `$ref`.
fn resolved(schema: &Value) -> &Value {
    match schema["$ref"].as_str().and_then(|to| to.strip_prefix('#')) {
        Some(pointer) => DOCUMENT.pointer(pointer).expect("what it refers to"),
        None => schema,
    }
}

/// Checks a value against a schema. Panics at an unknown keyword, so that no keyword is skipped by
/// mistake.
fn fit(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let schema = resolved(schema).as_object().expect("a schema");
    for (keyword, rule) in schema {
        let fits = match keyword.as_str() {
            "description" | "deprecated" | "default" | "title" | "examples" => true,
            "type" => match rule {
                Value::Array(kinds) => kinds.iter().any(|kind| has_type(value, kind)),
                kind => has_type(value, kind),
            },
            "const" => value == rule,
            "enum" => rule.as_array().expect("a list").contains(value),
            "minimum" => compare(value, rule, |value, bound| value >= bound),
            "maximum" => compare(value, rule, |value, bound| value <= bound),
            "exclusiveMinimum" => compare(value, rule, |value, bound| value > bound),
            "minItems" => compare(&length(value), rule, |value, bound| value >= bound),
            "maxItems" => compare(&length(value), rule, |value, bound| value <= bound),
            "maxLength" => {
                let length = value.as_str().map(|text| text.chars().count());
                compare(&length.into(), rule, |value, bound| value <= bound)
            }
            "required" => rule.as_array().expect("a list").iter().all(|name| {
                value.get(name.as_str().expect("a name")).is_some() || !value.is_object()
            }),
            "properties" => {
                for (name, inner) in rule.as_object().expect("properties") {
                    if let Some(value) = value.get(name) {
                        fit(inner, value, &format!("{at}.{name}"))?;
                    }
                }
                true
            }
            "additionalProperties" => {
                assert_eq!(*rule, false, "{at}");
                let known = schema["properties"].as_object().expect("properties");
                let mut names = value.as_object().into_iter().flat_map(|v| v.keys());
                if let Some(name) = names.find(|name| !known.contains_key(*name)) {
                    return Err(format!("{at} must not have {name}"));
                }
                true
            }
            "items" => {
                for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                    fit(rule, value, &format!("{at}[{index}]"))?;
                }
                true
            }
            "anyOf" | "oneOf" => {
                let mut schemas = rule.as_array().expect("schemas").iter();
                schemas.any(|schema| fit(schema, value, at).is_ok())
            }
            unknown => panic!("{at}: teach tests/schema.rs the keyword {unknown}"),
        };
        if !fits {
            return Err(format!("{at}: {value} does not fit {keyword}: {rule}"));
        }
    }
    Ok(())
}

fn has_type(value: &Value, kind: &Value) -> bool {
    match kind.as_str().expect("a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        unknown => panic!("unknown type {unknown}"),
    }
}

/// Compares numbers. A value that is not a number passes, because JSON Schema applies such keywords
/// to numbers only.
fn compare(value: &Value, bound: &Value, fits: fn(f64, f64) -> bool) -> bool {
    let bound = bound.as_f64().expect("a bound");
    value.as_f64().is_none_or(|value| fits(value, bound))
}

/// Returns the length of a list; null for other values.
fn length(value: &Value) -> Value {
    value.as_array().map(Vec::len).into()
}
