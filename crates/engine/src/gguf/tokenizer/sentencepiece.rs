//! `SentencePiece`'s BPE (`tokenizer.ggml.model` is `llama`). Characters without a token become
//! byte tokens. The file has scores instead of merges, so the merges are derived from the scores
//! like in `transformers`.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::{Value, json};

use super::Vocabulary;
use crate::Error;
use crate::gguf::Gguf;

const SCORES: &str = "tokenizer.ggml.scores";

/// Returns the fields of `tokenizer.json` that depend on the kind of tokenizer.
pub(super) fn parts(file: &Gguf, vocabulary: &Vocabulary<'_>) -> Result<Value, Error> {
    let scores = file.numbers(SCORES)?.ok_or_else(|| file.missing(SCORES))?;
    if scores.len() != vocabulary.tokens.len() {
        let expected = format!("one for each of {} tokens", vocabulary.tokens.len());
        return Err(file.bad(SCORES, &format!("a list of {}", scores.len()), &expected));
    }
    let unknown = super::token(file, vocabulary, "tokenizer.ggml.unknown_token_id")?;
    let space = file
        .flag("tokenizer.ggml.add_space_prefix")?
        .unwrap_or(true);
    let mut decoders = vec![
        json!({ "type": "Replace", "pattern": { "String": "▁" }, "content": " " }),
        json!({ "type": "ByteFallback" }),
        json!({ "type": "Fuse" }),
    ];
    if space {
        decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
    }
    // Phi-3 adds a space before every piece of text between special tokens. Other models add a
    // space only before the first piece.
    let everywhere = file.required_string("general.architecture")? == "phi3";
    let (normalizer, pre_tokenizer) = if everywhere && space {
        let parts = [
            json!({ "type": "Prepend", "prepend": "▁" }),
            json!({ "type": "Replace", "pattern": { "String": " " }, "content": "▁" }),
        ];
        (
            json!({ "type": "Sequence", "normalizers": parts }),
            Value::Null,
        )
    } else {
        let scheme = if space { "first" } else { "never" };
        let metaspace = json!({
            "type": "Metaspace",
            "replacement": "▁",
            "prepend_scheme": scheme,
            "split": false,
        });
        (Value::Null, metaspace)
    };
    Ok(json!({
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "decoder": { "type": "Sequence", "decoders": decoders },
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": unknown.map(|(_, token)| token),
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": true,
            "byte_fallback": true,
            "ignore_merges": false,
            "vocab": vocabulary.as_json(),
            "merges": merges(vocabulary, &scores),
        },
    }))
}

/// Lists every pair of tokens whose concatenation is a token, sorted by that token's score from
/// high to low.
fn merges<'a>(vocabulary: &Vocabulary<'a>, scores: &[f32]) -> Vec<(&'a str, &'a str)> {
    struct Merge<'a> {
        parts: (&'a str, &'a str),
        score: f32,
        lengths: (usize, usize),
        ids: (usize, usize),
    }
    let ids: HashMap<&str, usize> = vocabulary.used().map(|(id, token)| (token, id)).collect();
    let mut merges = Vec::new();
    for (id, token) in vocabulary.used() {
        let length = token.chars().count();
        let mut found: Vec<Merge<'_>> = token
            .char_indices()
            .enumerate()
            .skip(1)
            .filter_map(|(left, (at, _))| {
                let parts = token.split_at(at);
                Some(Merge {
                    parts,
                    score: scores[id],
                    lengths: (left, length - left),
                    ids: (*ids.get(parts.0)?, *ids.get(parts.1)?),
                })
            })
            .collect();
        found.sort_by_key(|merge| merge.ids);
        merges.extend(found);
    }
    // The sort is stable, like Python's with `reverse`, so equal merges keep the order of their
    // ids.
    merges.sort_by(|a, b| {
        let scores = b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal);
        scores.then(b.lengths.cmp(&a.lengths))
    });
    merges.into_iter().map(|merge| merge.parts).collect()
}
