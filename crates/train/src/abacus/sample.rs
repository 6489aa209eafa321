//! Sampling from the exported generator with the inference engine. Reward models thus train on chains like those of a
//! search.

use super::tokenizer::{END, decode, encode, id, prompt};
use crate::Result;
use beamgen_engine::rng::Key;
use beamgen_engine::{
    Append, Engine, EngineConfig, Model, Output, Sampler, SamplingParams, SeqId, Want,
};
use beamgen_world::WorldProblem;
use std::path::Path;
use std::sync::Arc;
use tokenizers::Tokenizer;

/// The approximate number of sequences in a forward pass.
const ROWS: usize = 256;

/// Returns the number of tokens at which a chain is cut. Every right solution is shorter.
fn longest(problem: &WorldProblem) -> usize {
    (27 * (problem.facts.len() + 1)).max(220)
}

/// The number of tokens at which a line is cut, about twice the longest right line.
const LONGEST_LINE: usize = 48;

/// A text to continue, with the number of continuations to sample.
struct Stem {
    tokens: Vec<u32>,
    samples: usize,
    /// The number of tokens at which a continuation is cut.
    longest: usize,
}

struct Row {
    stem: usize,
    /// The index of the continuation, from 0 to `samples` of the stem.
    sample: usize,
    sequence: SeqId,
    /// The tokens that the engine has not read: the whole stem at first, later the last sampled token.
    pending: Vec<u32>,
    written: Vec<u32>,
}

/// Samples the continuations of every stem. A continuation ends with a token of `ends` or is cut at its longest
/// length.
fn continuations(
    checkpoint: &Path,
    stems: &[Stem],
    ends: &[u32],
    params: &SamplingParams,
    seed: u64,
) -> Result<Vec<Vec<Vec<u32>>>> {
    let mut engine = Engine::new(Arc::new(Model::load(checkpoint)?), EngineConfig::default())?;
    let mut sampler = Sampler::new();
    let mut out: Vec<Vec<Vec<u32>>> = stems.iter().map(|s| vec![Vec::new(); s.samples]).collect();
    let mut rows: Vec<Row> = Vec::new();
    let mut next = 0;
    loop {
        // The engine reads a stem once, in a single row, and forks this row into the samples afterwards. `promised`
        // counts the future forks too, so that there are not many more rows than `ROWS`.
        let mut promised = rows.len();
        while promised < ROWS && next < stems.len() {
            promised += stems[next].samples;
            rows.push(Row {
                stem: next,
                sample: 0,
                sequence: engine.create(),
                pending: stems[next].tokens.clone(),
                written: Vec::new(),
            });
            next += 1;
        }
        if rows.is_empty() {
            return Ok(out);
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
        let mut going: Vec<Row> = Vec::with_capacity(ROWS);
        for (i, mut row) in rows.drain(..).enumerate() {
            // The random key depends on stem, sample and position only, so results do not depend on the batch.
            let mut next_token = |sample: usize, at: usize| {
                let key = Key {
                    seed,
                    problem: row.stem as u64,
                    chain: sample as u64,
                };
                sampler
                    .sample(logits.row(i), params, &mut key.at(at as u32))
                    .token
            };
            // The row that read the stem becomes sample 0; the other samples are forks of the row.
            if row.written.is_empty() {
                for sample in 1..stems[row.stem].samples {
                    let token = next_token(sample, 0);
                    going.push(Row {
                        stem: row.stem,
                        sample,
                        sequence: engine.fork(row.sequence),
                        pending: vec![token],
                        written: vec![token],
                    });
                }
            }
            let token = next_token(row.sample, row.written.len());
            row.written.push(token);
            row.pending = vec![token];
            going.push(row);
        }
        engine.recycle(logits);
        for row in going {
            let done = row.pending.first().is_some_and(|t| ends.contains(t))
                || row.written.len() >= stems[row.stem].longest;
            if done {
                engine.free(row.sequence);
                out[row.stem][row.sample] = row.written;
            } else {
                rows.push(row);
            }
        }
    }
}

/// Makes the stem of each problem: the prompt and the first right lines, as many as given.
fn stems(
    tok: &Tokenizer,
    problems: &[(&WorldProblem, usize)],
    samples: usize,
    longest: fn(&WorldProblem) -> usize,
) -> Result<Vec<Stem>> {
    problems
        .iter()
        .map(|&(problem, given)| {
            let mut text = prompt(&problem.text());
            for line in problem.solution().iter().take(given) {
                text += line;
                text.push('\n');
            }
            Ok(Stem {
                tokens: encode(tok, &text)?,
                samples,
                longest: longest(problem),
            })
        })
        .collect()
}

/// Samples `samples` chains at temperature 1 for each problem, after the given number of right lines. Returns the
/// given and the sampled complete lines, without newlines.
///
/// # Errors
/// The checkpoint cannot be read, or the engine fails.
pub fn chains(
    checkpoint: &Path,
    tok: &Tokenizer,
    problems: &[(&WorldProblem, usize)],
    samples: usize,
    seed: u64,
) -> Result<Vec<Vec<Vec<String>>>> {
    let stems = stems(tok, problems, samples, longest)?;
    let params = SamplingParams::default();
    continuations(checkpoint, &stems, &[id(tok, END)?], &params, seed)?
        .iter()
        .zip(problems)
        .map(|(all, (p, given))| {
            all.iter()
                .map(|written| {
                    let text = decode(tok, written, true)?;
                    // Text after the last newline is an incomplete line, cut at the length limit.
                    let complete = text.rfind('\n').map_or("", |n| &text[..n]);
                    let mut lines = p.solution();
                    lines.truncate(*given);
                    lines.extend(complete.lines().map(str::to_owned));
                    Ok(lines)
                })
                .collect()
        })
        .collect()
}

/// Samples `samples` single lines at `temperature` for each problem, after the given number of right lines. Returns
/// the different lines in sorted order, without newlines; cut lines are left out.
///
/// # Errors
/// The checkpoint cannot be read, or the engine fails.
pub fn lines(
    checkpoint: &Path,
    tok: &Tokenizer,
    problems: &[(&WorldProblem, usize)],
    samples: usize,
    temperature: f64,
    seed: u64,
) -> Result<Vec<Vec<String>>> {
    let stems = stems(tok, problems, samples, |_| LONGEST_LINE)?;
    let mut ends = encode(tok, "\n")?;
    ends.push(id(tok, END)?);
    let params = SamplingParams {
        temperature: temperature as f32,
        ..SamplingParams::default()
    };
    continuations(checkpoint, &stems, &ends, &params, seed)?
        .iter()
        .map(|all| {
            let mut texts = all
                .iter()
                .map(|written| decode(tok, written, true))
                .collect::<Result<Vec<_>>>()?;
            texts.sort();
            texts.dedup();
            Ok(texts
                .iter()
                .filter_map(|text| text.strip_suffix('\n'))
                .filter(|line| !line.is_empty() && !line.contains('\n'))
                .map(str::to_owned)
                .collect())
        })
        .collect()
}
