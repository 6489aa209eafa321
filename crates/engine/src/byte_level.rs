//! Writes byte-level BPE as the fields of `tokenizer.json`.

use serde_json::{Value, json};

/// The rule that splits a text into pieces. Merges never cross from one piece to another.
enum Split {
    /// GPT-2's pattern, which the crate `tokenizers` has built in.
    Gpt2,
    /// Each digit is a piece; GPT-2's pattern splits the rest.
    DigitsGpt2,
    /// A regular expression whose matches are the pieces.
    Pattern(&'static str),
}

pub(crate) struct PreTokenizer {
    /// The values of `tokenizer.ggml.pre` that select this pre-tokenizer.
    names: &'static [&'static str],
    split: Split,
    /// Whether texts are first normalised to Unicode's composed form (NFC).
    nfc: bool,
    /// Whether a piece that is itself a token becomes that token without merges.
    ignore_merges: bool,
}

pub(crate) const LLAMA3: &[&str] = &["llama-bpe", "llama3", "llama-v3"];

/// The pre-tokenizer of GPT-2, from which the rows below take their defaults.
const GPT2: PreTokenizer = PreTokenizer {
    names: &["gpt-2", "default"],
    split: Split::Gpt2,
    nfc: false,
    ignore_merges: false,
};

const PRE_TOKENIZERS: [PreTokenizer; 6] = [
    GPT2,
    PreTokenizer {
        names: &["smollm"],
        split: Split::DigitsGpt2,
        ..GPT2
    },
    PreTokenizer {
        names: &["qwen2", "deepseek-r1-qwen"],
        split: Split::Pattern(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        // Without NFC, a letter with a decomposed accent would get other tokens than in Qwen's
        // tokenizer.
        nfc: true,
        ..GPT2
    },
    PreTokenizer {
        names: LLAMA3,
        split: Split::Pattern(THREE_DIGITS),
        ignore_merges: true,
        ..GPT2
    },
    // Phi-4 uses this pre-tokenizer.
    PreTokenizer {
        names: &["dbrx"],
        split: Split::Pattern(THREE_DIGITS),
        ..GPT2
    },
    // Phi-4-mini uses this pre-tokenizer.
    PreTokenizer {
        names: &["gpt-4o"],
        split: Split::Pattern(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        ..GPT2
    },
];

const THREE_DIGITS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

fn byte_level(use_regex: bool) -> Value {
    json!({
        "type": "ByteLevel",
        "add_prefix_space": false,
        "trim_offsets": true,
        "use_regex": use_regex,
    })
}

impl PreTokenizer {
    /// Returns the pre-tokenizer that `tokenizer.ggml.pre` calls `name`.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        PRE_TOKENIZERS.iter().find(|pre| pre.names.contains(&name))
    }

    /// The names of all pre-tokenizers.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        PRE_TOKENIZERS.iter().flat_map(|pre| pre.names).copied()
    }

    /// Returns the fields of `tokenizer.json` that depend on the kind of tokenizer. `vocabulary`
    /// maps tokens to ids, and `merges` are pairs of tokens.
    pub(crate) fn parts(&self, vocabulary: Value, merges: Value) -> Value {
        let pre_tokenizer = match self.split {
            Split::Gpt2 => byte_level(true),
            Split::DigitsGpt2 => json!({
                "type": "Sequence",
                "pretokenizers": [{ "type": "Digits", "individual_digits": true }, byte_level(true)],
            }),
            Split::Pattern(pattern) => {
                let split = json!({
                    "type": "Split",
                    "pattern": { "Regex": pattern },
                    "behavior": "Isolated",
                    "invert": false,
                });
                json!({ "type": "Sequence", "pretokenizers": [split, byte_level(false)] })
            }
        };
        let normalizer = if self.nfc {
            json!({ "type": "NFC" })
        } else {
            Value::Null
        };
        json!({
            "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer,
            "decoder": byte_level(true),
            "model": {
                "type": "BPE",
                "dropout": null,
                "unk_token": null,
                "continuing_subword_prefix": null,
                "end_of_word_suffix": null,
                "fuse_unk": false,
                "byte_fallback": false,
                "ignore_merges": self.ignore_merges,
                "vocab": vocabulary,
                "merges": merges,
            },
        })
    }
}
