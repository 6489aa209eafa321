//! Sampling chains from the exported generator through the engine: what the reward models see in
//! training is what the search will produce.

use crate::tokenizer::{END, encode, prompt};
use crate::world::WorldProblem;
use crate::{Error, Result};
use beamgen_engine::rng::Key;
use beamgen_engine::{
    Append, Engine, EngineConfig, Model, Output, Sampler, SamplingParams, SeqId, Want,
};
use std::path::Path;
use std::sync::Arc;
use tokenizers::Tokenizer;

/// Rows decoded together.
const ROWS: usize = 256;

/// Tokens after which a chain that does not end is cut: more than any right solution has.
fn longest(problem: &WorldProblem) -> usize {
    (27 * (problem.facts.len() + 1)).max(220)
}

struct Row {
    index: usize,
    sequence: SeqId,
    /// Tokens not yet in the cache: the prompt at first, then the last sampled one.
    pending: Vec<u32>,
    written: Vec<u32>,
}

/// For each problem one chain at temperature 1: its first `n` lines right (given), the rest
/// sampled. Returns all complete lines without their newlines.
pub fn chains(
    checkpoint: &Path,
    tok: &Tokenizer,
    problems: &[(WorldProblem, usize)],
    seed: u64,
) -> Result<Vec<Vec<String>>> {
    let model = Arc::new(Model::load(checkpoint)?);
    let mut engine = Engine::new(model, EngineConfig::default())?;
    let end = tok.token_to_id(END);
    let (params, mut sampler) = (SamplingParams::default(), Sampler::new());
    let mut out = vec![Vec::new(); problems.len()];
    let mut rows: Vec<Row> = Vec::new();
    let mut next = 0;
    loop {
        while rows.len() < ROWS && next < problems.len() {
            let (p, given) = &problems[next];
            let mut text = prompt(&p.text());
            for line in p.solution().into_iter().take(*given) {
                text += &line;
                text.push('\n');
                out[next].push(line);
            }
            rows.push(Row {
                index: next,
                sequence: engine.create(),
                pending: encode(tok, &text)?,
                written: Vec::new(),
            });
            next += 1;
        }
        if rows.is_empty() {
            break;
        }
        let items: Vec<Append> = rows
            .iter()
            .map(|r| Append {
                seq: r.sequence,
                tokens: &r.pending,
                want: Want::Last,
            })
            .collect();
        let logits = engine.forward(&items, Output::Logits)?;
        for (i, row) in rows.iter_mut().enumerate() {
            let key = Key {
                seed,
                problem: row.index as u64,
                chain: 0,
            };
            let drawn = sampler.sample(
                logits.row(i),
                &params,
                &mut key.at(row.written.len() as u32),
            );
            row.written.push(drawn.token);
            row.pending = vec![drawn.token];
        }
        engine.recycle(logits);
        let mut i = 0;
        while i < rows.len() {
            let done = rows[i].pending.first().copied() == end
                || rows[i].written.len() >= longest(&problems[rows[i].index].0);
            if done {
                let row = rows.swap_remove(i);
                engine.free(row.sequence);
                let text = tok
                    .decode(&row.written, true)
                    .map_err(|e| Error::Tokenizer(e.to_string()))?;
                // what follows the last newline was cut by the length cap
                let complete = text.rfind('\n').map_or("", |n| &text[..n]);
                out[row.index].extend(complete.lines().map(str::to_owned));
            } else {
                i += 1;
            }
        }
    }
    Ok(out)
}
