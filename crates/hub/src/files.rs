//! The choice of files to download from a repository.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;

use crate::HubError;
use crate::error::{RequestError, RequestTarget};
use crate::id::{is_gguf, safe_path};

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
/// The older pair of files that replaces `tokenizer.json`.
const TOKENIZER_PAIR: [&str; 2] = ["vocab.json", "merges.txt"];
/// Tokenizers in unsupported formats; the error names the one that was found.
const OTHER_TOKENIZERS: [&str; 5] = [
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "tekken.json",
    "spiece.model",
];
const OPTIONAL: [&str; 8] = [
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "prm.json",
    "prm.toml",
];

/// Weights in order of preference: one file, or the index of its shards. Never two formats.
const WEIGHTS: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// The configuration that Python's peft writes next to an adapter's weights.
const ADAPTER: &str = "adapter_config.json";
/// The weights of an adapter, in order of preference.
const ADAPTER_WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];

fn is_index(weights: &str) -> bool {
    weights.ends_with(".index.json")
}

/// The files to download first. If the weights are sharded, their index names the rest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    /// The names of the files. The weights or their index come last, so that a missing tokenizer is
    /// noticed before gigabytes are downloaded.
    pub files: Vec<String>,
    /// The index in `files` that names the shards; `None` if the weights are one file.
    pub index: Option<&'static str>,
}

/// The part of a model that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// All files but the weights. A GGUF file cannot be split and is fetched whole.
    Tokenizer,
    /// All files, but the tokenizer may be missing.
    NoTokenizer,
}

impl Part {
    /// The files without which the part is of no use.
    fn required(self) -> &'static [&'static str] {
        match self {
            Self::Whole => &[CONFIG, TOKENIZER],
            Self::Tokenizer => &[TOKENIZER],
            Self::NoTokenizer => &[CONFIG],
        }
    }
}

/// Chooses from the files `listed` by the hub. `gguf` is the requested GGUF file, if any.
pub(crate) fn needed(
    listed: &BTreeSet<String>,
    gguf: Option<&str>,
    part: Part,
    target: &RequestTarget,
) -> Result<Needed, HubError> {
    // Weights next to an adapter are those of its base, or checkpoints of its training.
    if part != Part::Tokenizer && gguf.is_none() && listed.contains(ADAPTER) {
        return adapter(listed, target);
    }
    // A GGUF file contains the configuration and the tokenizer.
    let must = gguf.map_or(part.required(), |_| &[]);
    let must = must.iter().copied().chain(gguf);
    let mut files = Vec::new();
    let has = |name: &&str| listed.contains(*name);
    for name in must {
        if name == TOKENIZER && !has(&name) && TOKENIZER_PAIR.iter().all(has) {
            files.extend(TOKENIZER_PAIR.map(str::to_owned));
            continue;
        }
        if !has(&name) {
            let other = OTHER_TOKENIZERS.iter().find(|name| listed.contains(**name));
            if let Some(other) = other.filter(|_| name == TOKENIZER) {
                return Err(target.failed(RequestError::OtherTokenizer(other)));
            }
            return Err(target.with_file(name).failed(RequestError::NoFile));
        }
        files.push(name.to_owned());
    }
    let mut index = None;
    if gguf.is_none() {
        let rest: &[&str] = match part {
            Part::Whole => &[],
            Part::Tokenizer => &[CONFIG],
            Part::NoTokenizer => tokenizer_files(listed),
        };
        let optional = rest.iter().chain(&OPTIONAL).filter(|name| has(name));
        files.extend(optional.map(|name| (*name).to_owned()));
        if part == Part::Tokenizer {
            return Ok(Needed { files, index });
        }
        let Some(weights) = WEIGHTS.into_iter().find(|name| listed.contains(*name)) else {
            let gguf = listed.iter().filter(|name| is_gguf(name)).cloned();
            return Err(target.failed(RequestError::NoWeights {
                gguf: gguf.collect(),
            }));
        };
        files.push(weights.to_owned());
        index = Some(weights).filter(|name| is_index(name));
    }
    Ok(Needed { files, index })
}

/// The files of the tokenizer, which may be missing.
fn tokenizer_files(listed: &BTreeSet<String>) -> &'static [&'static str] {
    if listed.contains(TOKENIZER) {
        &[TOKENIZER]
    } else {
        &TOKENIZER_PAIR
    }
}

/// Chooses the files of an adapter. What it lacks, such as the tokenizer, is its base's.
fn adapter(listed: &BTreeSet<String>, target: &RequestTarget) -> Result<Needed, HubError> {
    let optional = OPTIONAL.iter().chain(tokenizer_files(listed));
    let optional = optional.filter(|name| listed.contains(**name));
    let mut files: Vec<String> = [ADAPTER]
        .iter()
        .chain(optional)
        .map(|name| (*name).to_owned())
        .collect();
    let weights = ADAPTER_WEIGHTS
        .into_iter()
        .find(|name| listed.contains(*name));
    let Some(weights) = weights else {
        let target = target.with_file(ADAPTER_WEIGHTS[0]);
        return Err(target.failed(RequestError::NoFile));
    };
    files.push(weights.to_owned());
    Ok(Needed { files, index: None })
}

#[derive(Deserialize)]
struct Index {
    weight_map: std::collections::BTreeMap<String, String>,
}

/// Returns the names of the shards in an index, without repetitions.
///
/// # Errors
/// Returns [`RequestError::BadReply`] if the text is not an index, names no file, or names a file
/// outside the folder.
pub(crate) fn shards(index: &str) -> Result<BTreeSet<String>, RequestError> {
    let index: Index = serde_json::from_str(index)
        .map_err(|error| RequestError::BadReply(format!("not a weight index, {error}")))?;
    let shards: BTreeSet<String> = index.weight_map.into_values().collect();
    match shards
        .iter()
        .find_map(|name| Some((name, safe_path(name).err()?)))
    {
        Some((name, reason)) => Err(RequestError::BadReply(format!(
            "the weight index names the file {name:?}, which has {reason}"
        ))),
        None if shards.is_empty() => Err(RequestError::BadReply(
            "the weight index names no file".to_owned(),
        )),
        None => Ok(shards),
    }
}

/// Returns the needed files that a snapshot folder lacks; an empty list if the snapshot is
/// complete.
pub(crate) fn missing(snapshot: &Path, gguf: Option<&str>, part: Part) -> Vec<String> {
    // `is_file` follows links, so a link to a deleted blob counts as missing.
    let lacks = |name: &&str| !snapshot.join(name).is_file();
    if let Some(file) = gguf {
        let lacking = Some(file).filter(lacks);
        return lacking.into_iter().map(str::to_owned).collect();
    }
    if part != Part::Tokenizer && !lacks(&ADAPTER) {
        let has_weights = ADAPTER_WEIGHTS.iter().any(|name| !lacks(name));
        let lacking = Some(ADAPTER_WEIGHTS[0]).filter(|_| !has_weights);
        return lacking.into_iter().map(str::to_owned).collect();
    }
    let has_pair = !TOKENIZER_PAIR.iter().any(&lacks);
    let required = part.required().iter().filter(|name| lacks(name));
    let required = required.filter(|name| !(**name == TOKENIZER && has_pair));
    let mut missing: Vec<String> = required.map(|name| (*name).to_owned()).collect();
    if part == Part::Tokenizer {
        return missing;
    }
    match WEIGHTS.into_iter().find(|name| !lacks(name)) {
        // The hub's format is unknown here, so the most frequent one is reported.
        None => missing.push("model.safetensors".to_owned()),
        Some(name) if !is_index(name) => (),
        Some(name) => {
            let text = std::fs::read_to_string(snapshot.join(name));
            match text.ok().and_then(|text| shards(&text).ok()) {
                Some(shards) => {
                    missing.extend(shards.into_iter().filter(|shard| lacks(&shard.as_str())));
                }
                // A damaged index counts as missing, so that it is fetched again.
                None => missing.push(name.to_owned()),
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &str) -> BTreeSet<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    fn target() -> RequestTarget {
        RequestTarget {
            repo: "o/n".to_owned(),
            revision: "main".to_owned(),
            file: None,
            endpoint: "http://hub".to_owned(),
        }
    }

    fn files(names: &str) -> Vec<String> {
        let all = listed(&format!("config.json tokenizer.json {names}"));
        needed(&all, None, Part::Whole, &target())
            .expect("enough")
            .files
    }

    #[test]
    fn one_format_and_nothing_else() {
        fn with<'a>(names: &[&'a str]) -> Vec<&'a str> {
            [&["config.json", "tokenizer.json"], names].concat()
        }
        let safetensors = "model.safetensors";
        assert_eq!(
            files(
                "model.safetensors pytorch_model.bin onnx/model.onnx original/x.pth README.md tf_model.h5"
            ),
            with(&[safetensors])
        );
        assert_eq!(
            files("model.safetensors.index.json model-1.safetensors pytorch_model.bin"),
            with(&["model.safetensors.index.json"])
        );
        assert_eq!(
            files("pytorch_model.bin prm.toml chat_template.jinja"),
            with(&["chat_template.jinja", "prm.toml", "pytorch_model.bin"])
        );
    }

    #[test]
    fn the_older_pair_of_files_replaces_a_tokenizer() {
        let names = "config.json vocab.json merges.txt tokenizer_config.json model.safetensors";
        let fetched = |names: &str| needed(&listed(names), None, Part::Whole, &target());
        let files = fetched(names).expect("enough").files;
        let expected = "config.json vocab.json merges.txt tokenizer_config.json model.safetensors";
        assert_eq!(files.join(" "), expected);
        let both = fetched(&format!("{names} tokenizer.json"));
        assert!(
            !both
                .expect("enough")
                .files
                .contains(&"vocab.json".to_owned())
        );
        fetched("config.json vocab.json model.safetensors").expect_err("no merges");

        let folder = tempfile::tempdir().expect("a folder");
        let whole = |file: &str| {
            std::fs::write(folder.path().join(file), "{}").expect("written");
            missing(folder.path(), None, Part::Whole)
        };
        for file in ["config.json", "model.safetensors"] {
            whole(file);
        }
        assert_eq!(whole("vocab.json"), ["tokenizer.json"]);
        assert!(whole("merges.txt").is_empty());
    }

    #[test]
    fn missing_files_are_named() {
        fn refused(names: &str, gguf: Option<&str>) -> String {
            needed(&listed(names), gguf, Part::Whole, &target())
                .expect_err("refused")
                .to_string()
        }
        assert_eq!(
            refused("config.json model.safetensors", None),
            "o/n@main, tokenizer.json, from http://hub: the repository has no such file; check the name, or take another revision"
        );
        let text = refused("config.json tokenizer.json b.gguf a.gguf", None);
        assert!(
            text.ends_with("name one of its 2 GGUF files as ORG/NAME:a.gguf"),
            "{text}"
        );
        assert!(refused("a.gguf", Some("b.gguf")).contains("b.gguf"));
        let text = refused("config.json model.safetensors tokenizer.model", None);
        assert!(
            text.contains("tokenizer.model") && text.contains("save_pretrained"),
            "{text}"
        );
        let text = refused("adapter_config.json README.md", None);
        assert!(text.contains("adapter_model.safetensors"), "{text}");
    }

    #[test]
    fn a_model_may_lack_its_tokenizer_if_another_is_taken() {
        let names = "config.json model.safetensors";
        let fetched = |names: &str, part| needed(&listed(names), None, part, &target());
        fetched(names, Part::Whole).expect_err("no tokenizer");
        let files = |names: &str, part| fetched(names, part).expect("enough").files.join(" ");
        assert_eq!(files(names, Part::NoTokenizer), names);
        let own = "config.json tokenizer.json model.safetensors";
        assert_eq!(files(own, Part::NoTokenizer), own);
        assert_eq!(
            files("tokenizer.json a.gguf", Part::Tokenizer),
            "tokenizer.json"
        );
    }

    #[test]
    fn an_adapter_is_fetched_without_the_weights_next_to_it() {
        let names = "adapter_config.json adapter_model.safetensors adapter_model.bin config.json \
                     model.safetensors tokenizer.json tokenizer_config.json optimizer.pt";
        let found = needed(&listed(names), None, Part::Whole, &target()).expect("enough");
        let expected = [
            "adapter_config.json",
            "tokenizer_config.json",
            "tokenizer.json",
            "adapter_model.safetensors",
        ];
        assert_eq!(
            (found.files, found.index),
            (expected.map(str::to_owned).to_vec(), None)
        );
    }

    #[test]
    fn an_index_names_its_shards_once() {
        let good = shards(r#"{"metadata":{},"weight_map":{"a":"2.bin","b":"1.bin","c":"2.bin"}}"#);
        assert_eq!(good, Ok(listed("1.bin 2.bin")));
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"weight_map":{}}"#,
            r#"{"weight_map":{"a":"../x"}}"#,
            r#"{"weight_map":{"a":"/x"}}"#,
            r#"{"weight_map":{"a":7}}"#,
        ] {
            shards(bad).expect_err(bad);
        }
    }
}
