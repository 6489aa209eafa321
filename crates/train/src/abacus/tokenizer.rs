//! The tokenizer of the bundled models: byte-level BPE. The training text makes every name, item, word, sign and
//! number of the world a single token, at the start of a line and inside it.

use crate::write::{write, write_json};
use crate::{Error, Result};
use beamgen_world::{self as world, Difficulty, ITEMS, MAX_NUMBER, NAMES, Split, WorldProblem};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::path::Path;
use tokenizers::{
    AddedToken, Tokenizer,
    decoders::byte_level::ByteLevel as ByteLevelDecoder,
    models::bpe::{BPE, BpeTrainerBuilder},
    pre_tokenizers::byte_level::ByteLevel,
};

/// The first token of every prompt, from the chat template.
pub const BEGIN: &str = "<|begin|>";
/// The last token of a finished chain, which also pads batches.
pub const END: &str = "<|end|>";

/// The context length that checkpoints of the bundled models declare, in tokens.
pub const MAX_POSITIONS: usize = 512;

/// The chat template, which puts each fact of a problem on its own line. A line begins with the person it is about,
/// in the problem and in the solution: that token has no leading space. All later names in a line are tokens with a
/// leading space.
pub const CHAT_TEMPLATE: &str = "{{ '<|begin|>' }}{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] | trim | replace('. ', '.\n') }}{{ '\n' }}{% else %}{{ m['content'] }}{% endif %}{% endfor %}";

/// Returns the prompt of a problem, equal to the output of [`CHAT_TEMPLATE`].
pub fn prompt(text: &str) -> String {
    format!("{BEGIN}{}\n", text.trim().replace(". ", ".\n"))
}

fn wrap(e: impl std::fmt::Display) -> Error {
    Error::Tokenizer(e.to_string())
}

/// Trains the tokenizer on problems of a fixed seed, so that all runs get the same vocabulary.
///
/// # Errors
/// Training fails, or a word of the world is not a single token.
pub fn train() -> Result<Tokenizer> {
    use tokenizers::Trainer;
    // The models of different runs share one vocabulary, so the seed is not a setting.
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut corpus: Vec<String> = Vec::new();
    let difficulty = Difficulty {
        min_people: 2,
        max_people: 8,
        dependency_distance: 8,
    };
    for _ in 0..2000 {
        let p = world::problem(&mut rng, difficulty, Split::Train);
        corpus.push(
            prompt(&p.text()).trim_start_matches(BEGIN).to_owned() + &p.solution().join("\n"),
        );
    }
    // Rare words are repeated, with and without a leading space, until BPE merges each into one token.
    for _ in 0..20 {
        corpus.extend(NAMES.map(|name| format!("{name} {name}")));
        corpus.extend(ITEMS.map(|item| format!(" {item}")));
        corpus.extend((0..=MAX_NUMBER).map(|n| format!(" {n}")));
    }
    let mut tok = Tokenizer::new(BPE::default());
    tok.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    tok.with_decoder(Some(ByteLevelDecoder::default()));
    let mut trainer = BpeTrainerBuilder::new()
        .vocab_size(768)
        .min_frequency(2)
        .show_progress(false)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(vec![
            AddedToken::from(BEGIN, true),
            AddedToken::from(END, true),
        ])
        .build();
    let mut model = BPE::default();
    trainer
        .feed(corpus.iter(), |s| {
            use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};
            let mut pre = PreTokenizedString::from(s);
            ByteLevel::new(false, true, true).pre_tokenize(&mut pre)?;
            Ok(pre
                .get_splits(OffsetReferential::Original, OffsetType::Byte)
                .into_iter()
                .map(|(s, _, _)| s.to_owned())
                .collect())
        })
        .map_err(wrap)?;
    let special = trainer.train(&mut model).map_err(wrap)?;
    tok.with_model(model);
    tok.add_special_tokens(special).map_err(wrap)?;
    for word in NAMES
        .iter()
        .flat_map(|n| [(*n).to_owned(), format!(" {n}")])
        .chain(ITEMS.iter().map(|i| format!(" {i}")))
        .chain((0..=MAX_NUMBER).map(|n| format!(" {n}")))
    {
        if encode(&tok, &word)?.len() != 1 {
            return Err(Error::Tokenizer(format!("{word:?} is not a single token")));
        }
    }
    Ok(tok)
}

/// Returns the token ids of `text`. Special tokens are not added; those written in `text` are recognised.
///
/// # Errors
/// The tokenizer fails.
pub fn encode(tok: &Tokenizer, text: &str) -> Result<Vec<u32>> {
    Ok(tok
        .encode_fast(text, false)
        .map_err(wrap)?
        .get_ids()
        .to_vec())
}

/// Returns the text of tokens. Special tokens are left out if `skip_special` is true.
///
/// # Errors
/// The tokenizer fails.
pub fn decode(tok: &Tokenizer, ids: &[u32], skip_special: bool) -> Result<String> {
    tok.decode(ids, skip_special).map_err(wrap)
}

/// Returns the id of `token`, which must be in the vocabulary as a whole.
///
/// # Errors
/// The vocabulary lacks the token.
pub fn id(tok: &Tokenizer, token: &str) -> Result<u32> {
    let id = tok.token_to_id(token);
    id.ok_or_else(|| Error::Tokenizer(format!("missing token {token}")))
}

/// Writes tokenizer.json, `tokenizer_config.json` and `generation_config.json` into a checkpoint
/// folder.
///
/// # Errors
/// A file cannot be written.
pub fn save(tok: &Tokenizer, dir: &Path) -> Result<()> {
    let text = tok.to_string(false).map_err(wrap)?;
    write(&dir.join("tokenizer.json"), text)?;
    let config = serde_json::json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN,
        "eos_token": END,
        "pad_token": END,
        "add_bos_token": false,
        "clean_up_tokenization_spaces": false,
        "model_max_length": MAX_POSITIONS,
        "chat_template": CHAT_TEMPLATE,
    });
    write_json(&dir.join("tokenizer_config.json"), &config)?;
    let generation = serde_json::json!({
        "bos_token_id": id(tok, BEGIN)?,
        "eos_token_id": id(tok, END)?,
        "pad_token_id": id(tok, END)?,
        "do_sample": true,
        "temperature": 1.0,
    });
    write_json(&dir.join("generation_config.json"), &generation)
}

/// The tokens of a prompt and of a chain after it.
pub struct Encoded {
    /// The ids of the prompt, of each line with its newline, and of [`END`] if wanted.
    pub ids: Vec<u32>,
    /// The number of tokens of the prompt, which is the position of the first line.
    pub prompt: usize,
    /// The positions of each line's tokens, including the newline.
    pub lines: Vec<std::ops::Range<usize>>,
}

/// Tokenises a problem and its lines, with [`END`] after them if `end` is true. The lines are tokenised one by one:
/// no token contains text on both sides of a newline, so the ids are those of the joined text.
///
/// # Errors
/// The tokenizer fails.
pub fn encode_chain(
    tok: &Tokenizer,
    p: &WorldProblem,
    lines: &[String],
    end: bool,
) -> Result<Encoded> {
    let mut ids = encode(tok, &prompt(&p.text()))?;
    let prompt = ids.len();
    let mut ranges = Vec::with_capacity(lines.len());
    for line in lines {
        let start = ids.len();
        ids.extend(encode(tok, &format!("{line}\n"))?);
        ranges.push(start..ids.len());
    }
    if end {
        ids.extend(tok.token_to_id(END));
    }
    Ok(Encoded {
        ids,
        prompt,
        lines: ranges,
    })
}
