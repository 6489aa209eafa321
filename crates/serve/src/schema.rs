//! The JSON schemas of requests and answers in the OpenAPI document. The fields of a request come
//! from the tables that parse it.

use beamgen::settings::{Kind, SETTINGS, Scope};
use serde_json::{Value, json};

use crate::field_table::FIELDS;
use crate::openapi::Schema;
use crate::own::MOST_REFERENCE;

pub(crate) const STATUS: Schema = Schema {
    name: "Status",
    make: || object(&["status"], json!({"status": {"type": "string"}})),
};

pub(crate) const DOCUMENT: Schema = Schema {
    name: "Document",
    make: || json!({"type": "object", "description": "An OpenAPI document."}),
};

pub(crate) const MODEL: Schema = Schema {
    name: "Model",
    make: model,
};

pub(crate) const MODELS: Schema = Schema {
    name: "Models",
    make: || list(model()),
};

pub(crate) const PROBLEMS: Schema = Schema {
    name: "Problems",
    make: || list(json!({"type": "object"})),
};

pub(crate) const RELOADED: Schema = Schema {
    name: "Reloaded",
    make: || {
        let properties = json!({
            "object": {"const": "reload"},
            "models": {"type": "array", "items": {"type": "string"}},
            "keys": {"type": "integer"},
        });
        object(&["object", "models", "keys"], properties)
    },
};

pub(crate) const SCORED: Schema = Schema {
    name: "Scored",
    make: || {
        list(object(
            &["index", "id"],
            json!({
                "index": {"type": "integer"},
                "id": {"type": "string"},
                "scores": {"type": "array", "items": {"type": "number"}},
                "score": {"type": "number"},
                "offsets": {
                    "type": "array",
                    "items": {"type": "array", "items": {"type": "integer"}},
                    "description": "The place of each step in the response, in Unicode code points.",
                },
                "error": {"type": "string"},
            }),
        ))
    },
};

pub(crate) const REFINED: Schema = Schema {
    name: "Refined",
    make: || {
        list(given_answer(
            json!({"before": {"type": "object"}, "after": {"type": "object"}}),
        ))
    },
};

pub(crate) const GUARDED: Schema = Schema {
    name: "Guarded",
    make: || {
        list(given_answer(json!({
            "verdict": {"enum": ["accept", "mend", "withhold"]},
            "reasons": {"type": "array", "items": {"type": "object"}},
        })))
    },
};

pub(crate) const SCORE: Schema = Schema {
    name: "ScoreRequest",
    make: || {
        let mut properties = json!({
            "model": {"description": "Ignored: a server has one reward model."},
            "aggregation": {"type": ["string", "null"]},
            "step_separator": {"type": ["string", "null"]},
        });
        properties["chains"] = chains();
        closed(&["chains"], properties)
    },
};

pub(crate) const REFINE: Schema = Schema {
    name: "RefineRequest",
    make: || {
        of_answers(json!({
            "rounds": {"type": ["integer", "null"], "minimum": 0},
            "below": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        }))
    },
};

pub(crate) const GUARD: Schema = Schema {
    name: "GuardRequest",
    make: || {
        of_answers(json!({
            "rounds": {"type": ["integer", "null"], "minimum": 0},
            "bound": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "samples": {"type": ["integer", "null"], "minimum": 0},
        }))
    },
};

pub(crate) const CHAT: Schema = Schema {
    name: "ChatRequest",
    make: || {
        let message = json!({
            "type": "object",
            "required": ["role"],
            "properties": {"role": {"type": "string"}, "content": {}},
        });
        let messages = json!({"messages": {"type": "array", "items": message}});
        solved(&["messages"], messages)
    },
};

pub(crate) const COMPLETION: Schema = Schema {
    name: "CompletionRequest",
    make: || {
        let prompt = json!({"prompt": {"type": ["string", "array"]}});
        solved(&["prompt"], prompt)
    },
};

pub(crate) const CHAT_ANSWER: Schema = Schema {
    name: "ChatAnswer",
    make: || answer("chat.completion", "message"),
};

pub(crate) const COMPLETION_ANSWER: Schema = Schema {
    name: "CompletionAnswer",
    make: || answer("text_completion", "text"),
};

/// The object `beamgen` in a request for an answer.
const OWN: Schema = Schema {
    name: "Beamgen",
    make: own,
};

/// The object `beamgen` in a request about given answers.
const OWN_OF_ANSWERS: Schema = Schema {
    name: "BeamgenOfAnswers",
    make: || settings(json!({"timeout": timeout()})),
};

/// The schemas that other schemas refer to by name.
pub(crate) const SHARED: &[Schema] = &[OWN, OWN_OF_ANSWERS];

/// Returns the schema of an object that may have more than these properties.
pub(crate) fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

/// Returns the schema of an object that must not have other properties.
pub(crate) fn closed(required: &[&str], properties: Value) -> Value {
    let mut object = object(required, properties);
    object["additionalProperties"] = false.into();
    object
}

/// Returns the schema of a list in the form of OpenAI's API.
pub(crate) fn list(item: Value) -> Value {
    object(
        &["object", "data"],
        json!({"object": {"const": "list"}, "data": {"type": "array", "items": item}}),
    )
}

/// Adds the properties of `more` to `properties`.
fn add(properties: &mut Value, more: Value) {
    if let (Value::Object(properties), Value::Object(more)) = (properties, more) {
        properties.extend(more);
    }
}

fn model() -> Value {
    object(
        &["id", "object", "created", "owned_by", "beamgen"],
        json!({
            "id": {"type": "string"},
            "object": {"const": "model"},
            "created": {"type": "integer"},
            "owned_by": {"type": "string"},
            "beamgen": {"type": "object"},
        }),
    )
}

/// Returns the schema of the entry of `data` for a given answer; `more` are properties besides
/// `index` and `error`.
fn given_answer(more: Value) -> Value {
    let mut properties = json!({"index": {"type": "integer"}, "error": {"type": "string"}});
    add(&mut properties, more);
    object(&["index"], properties)
}

/// Returns the schema of given chains. The items have no schema, since an invalid chain gets an
/// error of its own and does not make the request invalid.
fn chains() -> Value {
    json!({
        "type": "array",
        "minItems": 1,
        "description": "Chains: `problem` with `steps` or `response`, and maybe `id`, `context` and `answer`. To score, also `messages`.",
    })
}

/// Returns the schema of a request about given answers, with `properties` and the fields that all
/// such requests share.
fn of_answers(mut properties: Value) -> Value {
    let own = json!({
        "model": {"type": ["string", "null"]},
        "chains": chains(),
        "beamgen": OWN_OF_ANSWERS.reference(),
    });
    add(&mut properties, own);
    closed(&["chains"], properties)
}

/// Returns the schema of a request for an answer. Unknown fields are accepted and ignored.
fn solved(required: &[&str], mut properties: Value) -> Value {
    for row in FIELDS {
        properties[row.name] = row.schema();
    }
    add(&mut properties, json!({"beamgen": OWN.reference()}));
    object(required, properties)
}

fn own() -> Value {
    let texts = || {
        json!({"anyOf": [
            {"type": ["string", "null"]},
            {"type": "array", "items": {"type": "string"}},
        ]})
    };
    settings(json!({
        "id": {"type": ["string", "null"], "description": "The name of the problem."},
        "timeout": timeout(),
        "reference": {
            "type": ["string", "null"],
            "maxLength": MOST_REFERENCE,
            "description": "The reference answer, which the search never reads.",
        },
        "verifier": {"type": ["string", "null"], "description": "The name of the verifier of the chains."},
        "tests": {"description": "The data by which a verifier judges; any JSON."},
        "steps": {"type": ["array", "null"], "description": "Steps that every chain begins with."},
        "context": texts(),
        "events": {"type": ["boolean", "null"], "description": "Stream what the search does."},
        "tree": {"type": ["boolean", "null"], "description": "Answer with every node."},
    }))
}

fn timeout() -> Value {
    json!({
        "type": ["number", "null"],
        "exclusiveMinimum": 0,
        "description": "Seconds after which the search ends with what it has.",
    })
}

/// Returns the schema of an object that has all settings of a request besides `properties`.
fn settings(mut properties: Value) -> Value {
    for row in SETTINGS.iter().filter(|row| row.scope == Scope::Request) {
        let mut kind = match row.kind {
            Kind::Switch => json!({"type": ["boolean", "null"]}),
            Kind::Count => json!({"type": ["integer", "null"], "minimum": 0}),
            Kind::Number => json!({"type": ["number", "null"]}),
            Kind::Text | Kind::Path => json!({"type": ["string", "null"]}),
            Kind::Size => json!({"type": ["string", "integer", "null"]}),
            Kind::List | Kind::Texts => json!({"type": ["string", "array", "null"]}),
        };
        kind["description"] = row.help().into();
        properties[row.name] = kind;
    }
    let more = json!({
        "search": {"type": ["object", "null"], "description": "Any key of the table `search`."},
        "generator": {"type": ["object", "null"], "description": "Any key of the table `generator`."},
        "budget": {"description": "The earlier name of `budget_tokens`.", "deprecated": true},
        "deadline": {"description": "The earlier name of `timeout`.", "deprecated": true},
    });
    add(&mut properties, more);
    let mut settings = closed(&[], properties);
    settings["type"] = json!(["object", "null"]);
    settings
}

/// Returns the schema of an answer in the form of OpenAI's API. Each choice has its text under
/// `key`.
fn answer(kind: &str, key: &str) -> Value {
    let choice = object(
        &["index", key, "finish_reason"],
        json!({
            "index": {"type": "integer"},
            "finish_reason": {"type": ["string", "null"]},
        }),
    );
    let usage = object(
        &["prompt_tokens", "completion_tokens", "total_tokens"],
        json!({
            "prompt_tokens": {"type": "integer"},
            "completion_tokens": {"type": "integer"},
            "total_tokens": {"type": "integer"},
        }),
    );
    object(
        &[
            "id", "object", "created", "model", "choices", "usage", "beamgen",
        ],
        json!({
            "id": {"type": "string"},
            "object": {"const": kind},
            "created": {"type": "integer"},
            "model": {"type": "string"},
            "choices": {"type": "array", "items": choice},
            "usage": usage,
            "beamgen": {"type": "object", "description": "A problem line of a run file, and facts about the search."},
        }),
    )
}
