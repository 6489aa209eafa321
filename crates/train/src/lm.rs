//! Language-model stages: the base model (right solutions, easy problems first) and the generator
//! (noisy solutions).

use crate::Result;
use crate::tokenizer::{BEGIN, encode, encode_chain};
use crate::trainer::{Batch, Schedule};
use beamgen_world::{self as world, Difficulty, ErrorRates, Split};
use rand::Rng;
use tokenizers::Tokenizer;

/// People of the batch's problems: few at first, any number from `full` steps on. One batch in
/// eight is already of the next size, so that no length comes as a surprise.
pub(crate) fn people(rng: &mut impl Rng, d: Difficulty, step: usize, full: usize) -> usize {
    let grown = d.min_people + (d.max_people - d.min_people) * step.min(full) / full.max(1);
    if rng.random_bool(0.125) {
        return (grown + 1).min(d.max_people);
    }
    // longer problems hold more lines to learn from
    rng.random_range(d.min_people..=grown)
        .max(rng.random_range(d.min_people..=grown))
}

/// Tokens of one problem with its solution, about, by its number of people.
pub(crate) fn length(people: usize) -> usize {
    14 + 24 * people
}

/// One batch of problems with solutions, all of the same number of people; the loss is on the
/// solution only. With `error_rates` the solutions are noisy.
pub fn batch(
    tok: &Tokenizer,
    seed: u64,
    stage: u64,
    step: usize,
    schedule: &Schedule,
    difficulty: Difficulty,
    error_rates: Option<&ErrorRates>,
) -> Result<Batch> {
    let mut rng = world::rng(seed, stage, step);
    if error_rates.is_none()
        && rng.random_bool(if step < schedule.steps * 3 / 5 {
            0.3
        } else {
            0.1
        })
    {
        return drill(tok, &mut rng, schedule);
    }
    // only the base model begins with short problems
    let full = if error_rates.is_some() {
        1
    } else {
        schedule.steps / 4
    };
    let n = people(
        &mut rng,
        difficulty,
        if error_rates.is_some() { 1 } else { step },
        full,
    );
    let d = Difficulty {
        min_people: n,
        max_people: n,
        ..difficulty
    };
    let mut chains = Vec::new();
    for _ in 0..(schedule.batch_tokens / length(n)).max(1) {
        let p = world::problem(&mut rng, d, Split::Train);
        let lines = match error_rates {
            Some(rates) => world::noisy_solution(&mut rng, &p, rates),
            None => p.solution(),
        };
        chains.push(encode_chain(tok, &p, &lines, true)?);
    }
    let ids: Vec<Vec<u32>> = chains.iter().map(|c| c.ids.clone()).collect();
    let mut b = Batch::pad(&ids);
    for (i, c) in chains.iter().enumerate() {
        for t in c.prompt..c.ids.len() {
            b.lm.push(((i * b.time + t - 1) as u32, c.ids[t], 1.0));
        }
    }
    Ok(b)
}

/// A batch of bare sums: a fact of arithmetic in seven tokens, where a problem takes twenty-four.
fn drill(tok: &Tokenizer, rng: &mut impl Rng, schedule: &Schedule) -> Result<Batch> {
    const SUMS: usize = 16;
    let mut sequences = Vec::new();
    for _ in 0..(schedule.batch_tokens / (SUMS * 7 + 1)).max(1) {
        let text: Vec<String> = (0..SUMS).map(|_| world::sum(rng)).collect();
        sequences.push(encode(tok, &format!("{BEGIN}{}", text.join("\n")))?);
    }
    let mut b = Batch::pad(&sequences);
    let equals = encode(tok, " =")?;
    for (i, s) in sequences.iter().enumerate() {
        for t in 1..s.len() {
            // only what follows from what stands there
            if equals.contains(&s[t - 1]) {
                b.lm.push(((i * b.time + t - 1) as u32, s[t], 1.0));
            }
        }
    }
    Ok(b)
}
