//! The bundled models' tokenizer: byte-level BPE, trained on the world's own text until every name,
//! thing, word, sign and number is a single token in every position.

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

/// The token at the beginning of every text.
pub const BEGIN: &str = "<|begin|>";
/// The token at the end of every text, also used for padding.
pub const END: &str = "<|end|>";

/// The context length of the bundled models, in tokens.
pub const MAX_POSITIONS: usize = 512;

/// The chat template, which puts each fact on its own line. A person whom a line is about is then a
/// token without a leading space, in the problem as in the solution; every other mention is a token
/// with a leading space.
pub const CHAT_TEMPLATE: &str = "{{ '<|begin|>' }}{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] | trim | replace('. ', '.\n') }}{{ '\n' }}{% else %}{{ m['content'] }}{% endif %}{% endfor %}";

/// Returns the prompt that [`CHAT_TEMPLATE`] makes of a problem.
pub fn prompt(text: &str) -> String {
    format!("{BEGIN}{}\n", text.trim().replace(". ", ".\n"))
}

fn wrap(e: impl std::fmt::Display) -> Error {
    Error::Tokenizer(e.to_string())
}

/// Trains the tokenizer. The result is always the same.
///
/// # Errors
/// Training fails, or a word of the world is not a single token.
pub fn train() -> Result<Tokenizer> {
    use tokenizers::Trainer;
    // A fixed seed: all bundled models share one vocabulary.
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
    // Rare words in both positions, often enough that BPE merges each into one token.
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

/// Returns the token ids of `text`, without special tokens.
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

/// Returns the text of tokens, without special tokens if `skip_special` is set.
///
/// # Errors
/// The tokenizer fails.
pub fn decode(tok: &Tokenizer, ids: &[u32], skip_special: bool) -> Result<String> {
    tok.decode(ids, skip_special).map_err(wrap)
}

/// Returns the id of a special token.
///
/// # Errors
/// The tokenizer lacks the token.
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

/// The tokens of a whole training text: the prompt, each line with its newline, the end token.
pub struct Encoded {
    /// The ids of all tokens, prompt and lines together.
    pub ids: Vec<u32>,
    /// The number of tokens of the prompt.
    pub prompt: usize,
    /// The range of token positions of each line, its newline included.
    pub lines: Vec<std::ops::Range<usize>>,
}

/// Tokenises a problem and its lines piece by piece, with the end token if `end` is set. The pieces
/// can be joined because no token contains text on both sides of a newline.
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
