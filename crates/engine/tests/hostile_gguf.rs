//! Checks that malicious GGUF files are refused.

mod common;
#[path = "common/hostile.rs"]
mod hostile;

use std::alloc::System;
use std::path::{Path, PathBuf};

use beamgen_engine::{Checkpoint, ModelConfig};
use cap::Cap;
use hostile::{LIMIT, assert_refused, damage, damaged, folder_with, read_all};
use proptest::prelude::*;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, LIMIT);

/// The parts of a GGUF file, from which tests build damaged ones.
#[derive(Clone)]
struct Crafted {
    version: u32,
    pairs: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: usize,
}

fn text(s: &str) -> Vec<u8> {
    [&(s.len() as u64).to_le_bytes(), s.as_bytes()].concat()
}

fn pair(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&text(key), &kind.to_le_bytes()[..], value].concat()
}

fn number(key: &str, n: u32) -> Vec<u8> {
    pair(key, 4, &n.to_le_bytes())
}

fn string(key: &str, value: &str) -> Vec<u8> {
    pair(key, 8, &text(value))
}

/// Encodes a tensor's entry. GGUF has the innermost dimension first.
fn tensor(name: &str, dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut out = text(name);
    out.extend((dims.len() as u32).to_le_bytes());
    for d in dims.iter() {
        out.extend(d.to_le_bytes());
    }
    out.extend(kind.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}

impl Crafted {
    /// Creates a valid file. Tests change parts of it.
    fn new() -> Self {
        Self {
            version: 3,
            pairs: vec![
                string("general.architecture", "llama"),
                number("llama.context_length", 16),
                number("llama.embedding_length", 4),
                number("llama.feed_forward_length", 4),
                number("llama.block_count", 1),
                number("llama.attention.head_count", 1),
                pair(
                    "llama.attention.layer_norm_rms_epsilon",
                    6,
                    &1e-5f32.to_le_bytes(),
                ),
            ],
            tensors: vec![tensor("token_embd.weight", &[4, 2], 0, 0)],
            data: 32,
        }
    }

    fn pair(mut self, pair: Vec<u8>) -> Self {
        self.pairs.push(pair);
        self
    }

    fn tensor(mut self, tensor: Vec<u8>) -> Self {
        self.tensors.push(tensor);
        self
    }

    fn without(mut self, key: &str) -> Self {
        self.pairs.retain(|pair| !pair.starts_with(&text(key)));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.pairs.len() as u64).to_le_bytes());
        out.extend(self.pairs.concat());
        out.extend(self.tensors.concat());
        out.resize(out.len().next_multiple_of(32) + self.data, 1);
        out
    }

    #[track_caller]
    fn refused(&self, words: &[&str]) {
        bytes_refused(&self.bytes(), words);
    }
}

#[track_caller]
fn bytes_refused(bytes: &[u8], words: &[&str]) {
    let (_dir, path) = folder_with("model.gguf", bytes);
    assert_refused(&path, &[&["model.gguf"], words].concat());
}

#[test]
fn gguf_headers_that_cannot_be() {
    let good = Crafted::new();
    // The headers are valid, so only the missing tokenizer is reported.
    good.refused(&["tokenizer.ggml.tokens", "missing"]);

    bytes_refused(b"", &["not a GGUF file"]);
    bytes_refused(b"PK\x03\x04 something else", &["not a GGUF file"]);
    for (version, word) in [(1, "version 1"), (4, "version 4"), (3 << 24, "big endian")] {
        Crafted {
            version,
            ..good.clone()
        }
        .refused(&[word]);
    }
    for (at, word) in [
        (8, "tensors do not fit"),
        (16, "entries of metadata do not fit"),
    ] {
        for count in [u64::MAX, u64::MAX / 24, 1 << 32, 5000] {
            let mut bytes = good.bytes();
            bytes[at..at + 8].copy_from_slice(&count.to_le_bytes());
            bytes_refused(&bytes, &[word, &count.to_string()]);
        }
    }
    let list = |kind: u32, len: u64| {
        let head = [&kind.to_le_bytes()[..], &len.to_le_bytes()].concat();
        pair("list", 9, &head)
    };
    for len in [u64::MAX, u64::MAX / 8 + 1, 1 << 40] {
        for kind in [0, 5, 8, 10] {
            good.clone()
                .pair(list(kind, len))
                .refused(&["values of a list do not fit"]);
        }
        let long = pair("text", 8, &len.to_le_bytes());
        good.clone().pair(long).refused(&["bytes wanted at"]);
    }
    good.clone().pair(list(9, 1)).refused(&["lists of lists"]);
    good.clone().pair(list(13, 1)).refused(&["unknown type 13"]);
    good.clone()
        .pair(pair("x", 99, &[]))
        .refused(&["unknown type 99"]);
    good.clone()
        .pair(number("llama.block_count", 1))
        .refused(&["`llama.block_count` appears twice"]);
    good.clone()
        .pair(pair("general.alignment", 8, &text("wide")))
        .refused(&["general.alignment", "wide"]);
    for n in [0, 3, 48] {
        good.clone()
            .pair(number("general.alignment", n))
            .refused(&["general.alignment", "power of two"]);
    }
    good.clone()
        .pair(
            [
                &3u64.to_le_bytes()[..],
                b"\xff\xfe\xfd",
                &0u32.to_le_bytes(),
                &[0],
            ]
            .concat(),
        )
        .refused(&["not UTF-8"]);
}

#[test]
fn gguf_tensors_that_cannot_be() {
    let good = Crafted::new();
    let name = "output_norm.weight";
    good.clone()
        .tensor(tensor("token_embd.weight", &[4, 2], 0, 0))
        .refused(&["token_embd.weight", "twice"]);
    for (dims, words) in [
        (&[4, 1, 1, 1, 1][..], &["5 dimensions"][..]),
        (&[4, 0], &["dimension of 0"]),
        (
            &[u64::MAX],
            &["corrupt GGUF header", "18446744073709551615"],
        ),
        (&[1 << 40, 1 << 40], &["dimension of"]),
        (&[1 << 62], &["corrupt GGUF header", "beyond all sizes"]),
        (&[9], &["36 bytes", "truncated or corrupt"]),
    ] {
        good.clone()
            .tensor(tensor(name, dims, 0, 0))
            .refused(&[&[name], words].concat());
    }
    for offset in [u64::MAX - 31, 1 << 40, 64] {
        good.clone()
            .tensor(tensor(name, &[4], 0, offset))
            .refused(&[name, "truncated or corrupt"]);
    }
    good.clone()
        .tensor(tensor(name, &[4], 0, 8))
        .refused(&[name, "not a multiple of 32"]);
    good.clone()
        .tensor(tensor(name, &[33], 8, 0))
        .refused(&[name, "multiples of 32"]);
    good.clone()
        .tensor(tensor(name, &[128], 12, 0))
        .refused(&[name, "multiples of 256"]);
    good.clone()
        .tensor(tensor(name, &[256], 16, 0))
        .refused_without_file(&["model.norm.weight", "IQ2_XXS"]);
    good.clone()
        .tensor(tensor(name, &[256], 77, 0))
        .refused_without_file(&["model.norm.weight", "number 77"]);
    for unknown in [
        "blk.0.ssm_a.weight",
        "blk.x.attn_q.weight",
        "blk.0.attn_q.scale",
        "v.patch",
    ] {
        good.clone()
            .tensor(tensor(unknown, &[4], 0, 0))
            .refused_without_file(&[unknown, "no use for it"]);
    }
    // Two rows are not a whole head of four rows, and a head of one row has no halves.
    good.clone()
        .tensor(tensor("blk.0.attn_q.weight", &[4, 2], 0, 0))
        .refused(&["blk.0.attn_q.weight", "heads of 4"]);
    good.clone()
        .pair(number("llama.attention.key_length", 1))
        .tensor(tensor("blk.0.attn_k.weight", &[4, 2], 0, 0))
        .refused(&["blk.0.attn_k.weight", "heads of 1"]);
}

impl Crafted {
    /// Checks an error that names a tensor and not the file.
    #[track_caller]
    fn refused_without_file(&self, words: &[&str]) {
        let (_dir, path) = folder_with("model.gguf", &self.bytes());
        assert_refused(&path, words);
    }
}

#[test]
fn gguf_metadata_that_is_missing_or_not_known() {
    let good = Crafted::new();
    for key in [
        "general.architecture",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.block_count",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    ] {
        good.clone()
            .without(key)
            .refused(&[&format!("`{key}` is missing")]);
    }
    let other = good.clone().without("general.architecture");
    other
        .clone()
        .pair(string("general.architecture", "mamba"))
        .refused(&["general.architecture", "`mamba`", "llama"]);
    other
        .pair(number("general.architecture", 7))
        .refused(&["general.architecture", "7", "text"]);
    good.clone()
        .without("llama.block_count")
        .pair(string("llama.block_count", "many"))
        .refused(&["llama.block_count", "`many`", "whole number"]);
    good.clone()
        .pair(number("split.count", 3))
        .refused(&["split.count", "3", "gguf-split"]);
    good.clone()
        .pair(number("llama.attention.value_length", 8))
        .refused(&["value_length", "8"]);
    good.clone()
        .pair(number("llama.expert_count", 8))
        .refused(&["num_local_experts", "8"]);

    good.clone()
        .pair(number("llama.attention.sliding_window", 8))
        .refused(&["sliding_window", "8"]);
    let zeros = ["llama.attention.sliding_window", "llama.expert_count"];
    let zeros = zeros.map(|key| number(key, 0)).into_iter();
    let (_dir, path) = folder_with(
        "model.gguf",
        &zeros.fold(good.clone(), Crafted::pair).bytes(),
    );
    assert_eq!(ModelConfig::load(&path).unwrap().windows, [None]);

    let vocabulary = |kinds: &[i32]| {
        let tokens = [text("a"), text("b"), text("ab")].concat();
        let tokens = [&8u32.to_le_bytes()[..], &3u64.to_le_bytes(), &tokens].concat();
        let kinds = kinds
            .iter()
            .flat_map(|k| k.to_le_bytes())
            .collect::<Vec<u8>>();
        let count = (kinds.len() as u64 / 4).to_le_bytes();
        let kinds = [&5u32.to_le_bytes()[..], &count, &kinds].concat();
        good.clone()
            .pair(pair("tokenizer.ggml.tokens", 9, &tokens))
            .pair(pair("tokenizer.ggml.token_type", 9, &kinds))
    };
    vocabulary(&[1]).refused(&["tokenizer.ggml.token_type", "one for each of 3"]);
    let known = vocabulary(&[1, 1, 1]);
    known.refused(&["tokenizer.ggml.model", "missing"]);
    let model = |name: &str| known.clone().pair(string("tokenizer.ggml.model", name));
    model("t5").refused(&["tokenizer.ggml.model", "`t5`"]);
    model("llama").refused(&["tokenizer.ggml.scores", "missing"]);
    model("gpt2").refused(&["tokenizer.ggml.pre", "missing"]);
    let pre = |name: &str| model("gpt2").pair(string("tokenizer.ggml.pre", name));
    pre("tekken").refused(&["tokenizer.ggml.pre", "`tekken`", "qwen2"]);
    pre("qwen2").refused(&["tokenizer.ggml.merges", "missing"]);
    let merges = |merge: &str| {
        let list = [&8u32.to_le_bytes()[..], &1u64.to_le_bytes(), &text(merge)].concat();
        pre("qwen2").pair(pair("tokenizer.ggml.merges", 9, &list))
    };
    for merge in ["ab", "a c", "b a", "a b c", ""] {
        merges(merge).refused(&["tokenizer.ggml.merges", &format!("`{merge}`")]);
    }
    merges("a b")
        .pair(number("tokenizer.ggml.bos_token_id", 3))
        .refused(&["bos_token_id", "one of 3 tokens"]);
}

/// Returns the field `rope_scaling` of the `config.json` that the GGUF file replaces.
fn scaling(path: &Path) -> serde_json::Value {
    let text = Checkpoint::from(path).required_text("config.json").unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config["rope_scaling"].clone()
}

#[test]
fn rescaling_by_metadata() {
    let good = Crafted::new();
    let kind = |name: &str| good.clone().pair(string("llama.rope.scaling.type", name));
    let four = |key: &str| pair(key, 6, &4f32.to_le_bytes());
    let of = |file: Crafted| {
        let (_dir, path) = folder_with("model.gguf", &file.bytes());
        scaling(&path)
    };
    assert!(of(good.clone()).is_null());
    assert!(of(kind("none")).is_null());
    let yarn = kind("yarn")
        .pair(four("llama.rope.scaling.factor"))
        .pair(number("llama.rope.scaling.original_context_length", 4096));
    let expected = serde_json::json!({
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 4096,
    });
    assert_eq!(of(yarn), expected);
    let expected = serde_json::json!({ "rope_type": "linear", "factor": 4.0 });
    assert_eq!(
        of(good.clone().pair(four("llama.rope.scale_linear"))),
        expected
    );
    kind("yarn").refused(&["`llama.rope.scaling.factor` is missing"]);
    let longrope = tensor("rope_factors_long.weight", &[2], 0, 0);
    good.clone()
        .tensor(longrope)
        .refused(&["rope_scaling", "longrope"]);
}

/// Creates a file whose `rope_freqs.weight` has the value `divisor(frequency)` for each frequency.
/// Heads have 128 values, and the base is 500,000.
fn rescaled(divisor: impl Fn(f64) -> f64) -> (tempfile::TempDir, PathBuf) {
    let mut file = Crafted::new()
        .without("llama.embedding_length")
        .pair(number("llama.embedding_length", 128))
        .pair(pair("llama.rope.freq_base", 6, &500_000f32.to_le_bytes()));
    file.tensors = vec![
        tensor("rope_freqs.weight", &[64], 0, 0),
        tensor("token_embd.weight", &[2, 2], 0, 0),
    ];
    file.data = 0;
    let mut bytes = file.bytes();
    for i in 0..64 {
        let frequency = 500_000f64.powf(-f64::from(i) / 64.0);
        bytes.extend((divisor(frequency) as f32).to_le_bytes());
    }
    folder_with("model.gguf", &bytes)
}

#[test]
fn llama_3_rescaling_is_recognised() {
    let llama3 = |frequency: f64| {
        // The formula is that of llama.cpp's converter, with the numbers of Llama 3.2.
        let (factor, low, high, context) = (32.0, 1.0, 4.0, 8192.0);
        let wavelength = 2.0 * std::f64::consts::PI / frequency;
        if wavelength < context / high {
            1.0
        } else if wavelength > context / low {
            factor
        } else {
            let smooth = (context / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    let (_dir, path) = rescaled(llama3);
    let expected = serde_json::json!({
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    });
    assert_eq!(scaling(&path), expected);
    let (_dir, path) = rescaled(|_| 1.0);
    assert!(scaling(&path).is_null());
    for other in [|_| 8.0, |f: f64| 1.0 + f] {
        let (_dir, path) = rescaled(other);
        let error = ModelConfig::load(&path).unwrap_err().to_string();
        assert!(error.contains("rope_freqs.weight"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_gguf_files_never_panic(
        name in prop_oneof![Just("llama.gguf"), Just("qwen2.gguf"), Just("sentencepiece.gguf")],
        damage in damage(),
    ) {
        let (_dir, path) = folder_with("model.gguf", &damaged(name, damage));
        if let Err(message) = read_all(&path) {
            prop_assert!(!message.is_empty());
        }
    }
}
