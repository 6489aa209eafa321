//! The OpenAPI document of the server. It is built from the tables that route, read and refuse
//! requests, so the document cannot differ from what the server does.

use std::collections::BTreeMap;

use axum::Json;
use serde_json::{Map, Value, json};

use crate::refusal::CODES;
use crate::routes::{Method, ROUTES, Route};
use crate::schema::SHARED;

/// A JSON schema, with the name by which the document refers to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schema {
    pub name: &'static str,
    pub make: fn() -> Value,
}

/// The body of an answer with status 200.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gives {
    Json(Schema),
    /// JSON, or a stream of chunks if the request asks for one.
    Answer(Schema),
    /// Text of this media type.
    Text(&'static str),
}

impl Schema {
    /// Returns a reference to the schema in the document's components.
    pub(crate) fn reference(self) -> Value {
        json!({"$ref": format!("#/components/schemas/{}", self.name)})
    }
}

/// The handler of `/openapi.json`.
pub(crate) async fn document() -> Json<Value> {
    Json(made())
}

fn made() -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    let mut schemas: BTreeMap<&str, Value> = BTreeMap::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_default();
        path.insert(route.method.lower().to_owned(), operation(route));
        let given = match route.gives {
            Gives::Json(schema) | Gives::Answer(schema) => Some(schema),
            Gives::Text(_) => None,
        };
        for schema in route.takes.into_iter().chain(given) {
            schemas.insert(schema.name, (schema.make)());
        }
    }
    for schema in SHARED {
        schemas.insert(schema.name, (schema.make)());
    }
    schemas.insert("Error", error());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "beamgen",
            "summary": "Answers by a search that a reward model guides, in the shape of OpenAI's API.",
            "description": "docs/reference/http.md is the reference in prose.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
            "version": env!("CARGO_PKG_VERSION"),
        },
        "security": [{"key": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {
                "type": "http",
                "scheme": "bearer",
                "description": "An API key, if the server was started with one.",
            }},
            "parameters": {"RequestId": {
                "name": "X-Request-ID",
                "in": "header",
                "description": "An id for the log. Another value than 1 to 128 visible ASCII characters is replaced.",
                "schema": {"type": "string"},
            }},
            "headers": {"RequestId": {
                "description": "The id of the request in the log.",
                "required": true,
                "schema": {"type": "string", "pattern": "^[!-~]{1,128}$"},
            }},
            "responses": {"Error": {
                "description": "An error in the shape of OpenAI's API.",
                "headers": headers(),
                "content": {"application/json": {
                    "schema": {"$ref": "#/components/schemas/Error"},
                }},
            }},
        },
    })
}

fn headers() -> Value {
    json!({"X-Request-ID": {"$ref": "#/components/headers/RequestId"}})
}

fn operation(route: &Route) -> Value {
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric());
    let words = [route.method.lower()].into_iter().chain(words);
    let id: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut parameters = vec![json!({"$ref": "#/components/parameters/RequestId"})];
    for part in route.path.split('/') {
        if let Some(name) = part.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
            parameters.push(json!({
                "name": name,
                "in": "path",
                "required": true,
                "schema": {"type": "string"},
            }));
        }
    }
    let content = match route.gives {
        Gives::Text(kind) => json!({kind: {"schema": {"type": "string"}}}),
        Gives::Json(schema) => json!({"application/json": {"schema": schema.reference()}}),
        Gives::Answer(schema) => json!({
            "application/json": {"schema": schema.reference()},
            "text/event-stream": {"schema": {"type": "string"}},
        }),
    };
    let mut operation = json!({
        "operationId": id.join("_"),
        "summary": route.summary,
        "parameters": parameters,
    });
    if let Some(schema) = route.takes {
        operation["requestBody"] = json!({
            "required": true,
            "content": {"application/json": {"schema": schema.reference()}},
        });
    }
    operation["responses"] = json!({
        "200": {"description": "done", "headers": headers(), "content": content},
        "default": {"$ref": "#/components/responses/Error"},
    });
    if !route.needs_key() {
        operation["security"] = json!([]);
    }
    operation
}

fn error() -> Value {
    let codes: Vec<&str> = CODES.iter().map(|(code, _)| *code).collect();
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string", "description": "The fault, and what to do, in a line."},
                "type": {"type": "string"},
                "param": {
                    "type": ["string", "null"],
                    "description": "The name of the field at fault.",
                },
                "code": {"type": "string", "enum": codes},
            },
        }},
    })
}

impl Method {
    fn lower(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
        }
    }
}
