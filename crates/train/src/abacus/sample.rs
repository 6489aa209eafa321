//! Sampling from the exported generator by the engine, so that reward models train on what a search
//! will produce.

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

/// The number of sequences decoded together.
const ROWS: usize = 256;

/// Returns the number of tokens after which an endless chain is cut, more than any right solution
/// has.
fn longest(problem: &WorldProblem) -> usize {
    (27 * (problem.facts.len() + 1)).max(220)
}

/// The number of tokens after which an endless line is cut, about twice the longest right line.
const LONGEST_LINE: usize = 48;

/// A text with the number of continuations to sample.
struct Stem {
    tokens: Vec<u32>,
    samples: usize,
    /// The largest number of tokens of a continuation.
    longest: usize,
}

struct Row {
    stem: usize,
    /// The index among the stem's continuations.
    sample: usize,
    sequence: SeqId,
    /// The tokens that are not in the cache yet: the stem at first, later the last sampled token.
    pending: Vec<u32>,
    written: Vec<u32>,
}

/// Samples continuations of every stem. Each ends with one of the tokens `ends`, or is cut.
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
        // A stem is read once, by a single row, and then forked into its samples; the count of rows
        // includes these samples already.
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
            // The key names only stem, sample and position, so results do not depend on the batch.
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
            // The first row of a stem becomes its sample 0; the others are forks of it.
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

/// Makes a stem of each problem: its prompt and the given number of right lines.
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

/// Samples `samples` chains at temperature 1 for each problem. A chain begins with the given number
/// of right lines. Returns all complete lines, without their newlines.
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
                    // Text after the last newline is a line that was cut at the length limit.
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

/// Samples `samples` single lines at `temperature` for each problem, after the given number of
/// right lines. Returns the lines that ended with a newline, without it, sorted, each text once.
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
