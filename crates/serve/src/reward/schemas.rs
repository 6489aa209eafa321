//! The JSON schemas of the scoring routes in the OpenAPI document.

use serde_json::{Value, json};

use super::vllm::{REFUSED, WITHOUT_EFFECT};
use crate::openapi::Schema;
use crate::schema::{SCORE as OURS, SCORED, closed, list, object};

/// The schemas of a route's body and of its answer.
pub(crate) type Pair = (Schema, Schema);

pub(crate) const SCORE: Pair = (
    Schema {
        name: "ScoreOrPairsRequest",
        make: || {
            let mut forms = pairs();
            forms.insert(0, (OURS.make)());
            json!({"anyOf": forms})
        },
    },
    Schema {
        name: "ScoredOrPairs",
        make: || json!({"anyOf": [(SCORED.make)(), list(entry(json!({"score": number()})))]}),
    },
);

pub(crate) const PAIRS: Pair = (
    Schema {
        name: "PairsRequest",
        make: || json!({"anyOf": pairs()}),
    },
    Schema {
        name: "ScoredPairs",
        make: || list(entry(json!({"score": number()}))),
    },
);

pub(crate) const RERANK: Pair = (
    Schema {
        name: "RerankRequest",
        make: || {
            let properties = json!({
                "query": {"type": "string", "description": "The problem."},
                "documents": {"type": "array", "minItems": 1, "description": "Responses."},
                "top_n": {"type": ["integer", "null"], "minimum": 0},
                "return_documents": flag(),
            });
            of_vllm(&["query", "documents"], properties)
        },
    },
    Schema {
        name: "Reranked",
        make: || {
            let result = json!({
                "index": {"type": "integer"},
                "relevance_score": number(),
                "document": {"type": "object"},
            });
            let properties = json!({
                "id": {"type": "string"},
                "results": {"type": "array", "items": object(&["index", "relevance_score"], result)},
                "errors": {"type": "array", "items": {"type": "object"}},
                "usage": {"type": "object"},
            });
            object(&["id", "results", "usage"], properties)
        },
    },
);

pub(crate) const POOLING: Pair = (
    CHATS_TO_POOL,
    Schema {
        name: "Pooled",
        make: || {
            let rows = json!({"type": "array", "items": {"type": "array", "items": number()}});
            list(entry(json!({
                "data": {"anyOf": [rows, {"type": "string"}]},
                "offsets": {"type": "array"},
            })))
        },
    },
);

pub(crate) const CLASSIFY: Pair = (
    CHATS_TO_CLASSIFY,
    Schema {
        name: "Classified",
        make: || {
            list(entry(json!({
                "label": {"type": "string"},
                "probs": {"type": "array", "items": {"type": "number"}},
                "num_classes": {"const": 2},
            })))
        },
    },
);

pub(crate) const EMBEDDINGS: Pair = (
    CHATS,
    Schema {
        name: "Embedded",
        make: || {
            let numbers = json!({"type": "array", "items": {"type": "number"}});
            list(entry(
                json!({"embedding": {"anyOf": [numbers, {"type": "string"}]}}),
            ))
        },
    },
);

pub(crate) const GET_REWARD: Pair = (
    Schema {
        name: "RewardRequest",
        make: || {
            let queries = json!({
                "query": texts(),
                "prompts": texts(),
                "problems": texts(),
                "labels": {"description": "Not read."},
                "model": {"description": "Not read."},
            });
            let sample = json!({
                "prompt": {"description": "The prompt, or its messages."},
                "response": {"type": "string"},
                "label": {"description": "Not read."},
            });
            let forms = [(&["query"][..], queries), (&["prompt", "response"], sample)];
            let forms = forms.map(|(required, mut properties)| {
                properties["unscored"] = json!({"type": ["number", "null"]});
                of_all(required, properties)
            });
            json!({"anyOf": forms})
        },
    },
    Schema {
        name: "Rewards",
        make: || {
            let numbers = json!({"type": "array", "items": {"type": ["number", "null"]}});
            let lists = json!({
                "rewards": numbers,
                "scores": numbers,
                "extra_logs": {"type": "object"},
                "step_rewards": {"type": "array"},
                "offsets": {"type": "array"},
                "errors": {"type": "array"},
            });
            json!({"anyOf": [{"type": "number"}, object(&["rewards", "scores", "extra_logs"], lists)]})
        },
    },
);

const CHATS: Schema = Schema {
    name: "ChatsToScore",
    make: || json!({"anyOf": chats(json!({"encoding_format": text(), "embed_dtype": text()}))}),
};

const CHATS_TO_CLASSIFY: Schema = Schema {
    name: "ChatsToClassify",
    make: || json!({"anyOf": chats(activation())}),
};

const CHATS_TO_POOL: Schema = Schema {
    name: "ChatsToPool",
    make: || {
        let mut properties = activation();
        for name in ["encoding_format", "embed_dtype"] {
            properties[name] = text();
        }
        json!({"anyOf": chats(properties)})
    },
};

fn activation() -> Value {
    json!({"use_activation": flag(), "activation": flag(), "softmax": flag()})
}

/// Returns two schemas: of a chat as `messages`, and of a chat template's text as `input`. Both get
/// `properties`.
fn chats(properties: Value) -> Vec<Value> {
    let messages = json!({"type": "array", "description": "A chat that ends with the response."});
    let forms = [("messages", messages), ("input", texts())];
    let forms = forms.into_iter().map(|(name, schema)| {
        let mut properties = properties.clone();
        properties[name] = schema;
        of_vllm(&[name], properties)
    });
    forms.collect()
}

/// Adds the fields that all formats share to `properties`, and returns the schema of a body.
fn of_all(required: &[&str], mut properties: Value) -> Value {
    properties["aggregation"] = text();
    properties["step_separator"] = text();
    closed(required, properties)
}

/// Adds the fields that all of vLLM's formats share to `properties`, and returns the schema of a
/// body.
fn of_vllm(required: &[&str], mut properties: Value) -> Value {
    for name in WITHOUT_EFFECT {
        properties[name] = json!({"description": "Ignored."});
    }
    for (name, _) in REFUSED {
        properties[name] = json!({"type": "null", "description": "Not supported."});
    }
    of_all(required, properties)
}

fn flag() -> Value {
    json!({"type": ["boolean", "null"]})
}

fn text() -> Value {
    json!({"type": ["string", "null"]})
}

fn number() -> Value {
    json!({"type": "number"})
}

fn texts() -> Value {
    json!({"anyOf": [
        {"type": ["string", "null"]},
        {"type": "array", "items": {"type": "string"}},
    ]})
}

/// Returns one schema for each pair of names in [`NAMES`](super::pairs::NAMES).
fn pairs() -> Vec<Value> {
    let forms = super::pairs::NAMES.iter().map(|&(one, other)| {
        let mut properties = json!({});
        for name in [one, other] {
            properties[name] = texts();
        }
        of_vllm(&[one, other], properties)
    });
    forms.collect()
}

/// Returns the schema of an entry of `data`, which has `properties` or an error.
fn entry(mut properties: Value) -> Value {
    properties["index"] = json!({"type": "integer"});
    properties["error"] = json!({"type": "string"});
    object(&["index", "object"], properties)
}
