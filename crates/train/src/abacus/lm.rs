//! Batches of the two language-model stages. The base model reads right solutions, short problems first. The
//! generator reads noisy solutions.

use super::config::TrainConfig;
use super::stage::Schedule;
use super::tokenizer::{BEGIN, encode, encode_chain};
use crate::Result;
use crate::tune::Example;
use beamgen_world::{self as world, Difficulty, Split};
use rand::Rng;
use tokenizers::Tokenizer;

/// Samples the number of people of a batch's problems. The largest number grows linearly until step `full`. One batch
/// in eight is one person larger, which prepares the model for the next size.
pub(crate) fn people(rng: &mut impl Rng, d: Difficulty, step: usize, full: usize) -> usize {
    let grown = d.min_people + (d.max_people - d.min_people) * step.min(full) / full.max(1);
    if rng.random_bool(0.125) {
        return (grown + 1).min(d.max_people);
    }
    // The larger of two samples, because longer problems have more lines to learn from.
    rng.random_range(d.min_people..=grown)
        .max(rng.random_range(d.min_people..=grown))
}

pub(crate) fn of_size(difficulty: Difficulty, people: usize) -> Difficulty {
    Difficulty {
        min_people: people,
        max_people: people,
        ..difficulty
    }
}

/// Estimates the number of tokens of a problem of `people` people with its solution.
pub(crate) fn length(people: usize) -> usize {
    14 + 24 * people
}

/// Makes a batch of problems with solutions, right or `noisy`. All problems have the same number of people, which
/// keeps the padding small. Only tokens of solutions have a loss.
///
/// # Errors
/// The tokenizer fails.
pub fn batch(
    tok: &Tokenizer,
    config: &TrainConfig,
    step: usize,
    noisy: bool,
) -> Result<Vec<Example>> {
    let (stage, schedule) = if noisy {
        (2, &config.generator)
    } else {
        (0, &config.base)
    };
    // Each stage and step has its own random stream, so a batch does not depend on earlier batches.
    let mut rng = world::rng(config.seed, stage, step);
    let n = if noisy {
        people(&mut rng, config.difficulty, 1, 1)
    } else {
        let early = step < schedule.steps * 3 / 5;
        // Bare sums are frequent early, because a line cannot be right before its sum is.
        if rng.random_bool(if early { 0.3 } else { 0.1 }) {
            return drill(tok, &mut rng, schedule);
        }
        // Short problems come first; they teach the model to copy names and numbers.
        let short = Difficulty {
            min_people: 2,
            ..config.difficulty
        };
        people(&mut rng, short, step, schedule.steps / 4)
    };
    let d = of_size(config.difficulty, n);
    let mut examples = Vec::new();
    for _ in 0..(schedule.batch_tokens / length(n)).max(1) {
        let p = world::problem(&mut rng, d, Split::Train);
        let lines = if noisy {
            world::noisy_solution(&mut rng, &p, &config.error_rates)
        } else {
            p.solution()
        };
        let chain = encode_chain(tok, &p, &lines, true)?;
        let mut example = Example::of(chain.ids);
        for t in chain.prompt..example.ids.len() {
            example.predict(t, example.ids[t]);
        }
        examples.push(example);
    }
    Ok(examples)
}

/// Makes a batch of bare sums. A sum teaches arithmetic in seven tokens, a line of a problem in 24.
fn drill(tok: &Tokenizer, rng: &mut impl Rng, schedule: &Schedule) -> Result<Vec<Example>> {
    const SUMS: usize = 16;
    let equals = encode(tok, " =")?;
    let mut examples = Vec::new();
    for _ in 0..(schedule.batch_tokens / (SUMS * 7 + 1)).max(1) {
        let text: Vec<String> = (0..SUMS).map(|_| world::sum(rng)).collect();
        let mut example = Example::of(encode(tok, &format!("{BEGIN}{}", text.join("\n")))?);
        for t in 1..example.ids.len() {
            // The terms of a sum are random, so only its result can be predicted.
            if equals.contains(&example.ids[t - 1]) {
                example.predict(t, example.ids[t]);
            }
        }
        examples.push(example);
    }
    Ok(examples)
}
