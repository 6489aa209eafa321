//! Batches of the language-model stages: the base model (right solutions, easy problems first) and
//! the generator (noisy solutions).

use super::config::TrainConfig;
use super::stage::Schedule;
use super::tokenizer::{BEGIN, encode, encode_chain};
use crate::Result;
use crate::tune::Example;
use beamgen_world::{self as world, Difficulty, Split};
use rand::Rng;
use tokenizers::Tokenizer;

/// Returns the number of people in a batch's problems: few at first, any number from step `full`
/// on. One batch in eight already has the next size, so that no length is entirely new.
pub(crate) fn people(rng: &mut impl Rng, d: Difficulty, step: usize, full: usize) -> usize {
    let grown = d.min_people + (d.max_people - d.min_people) * step.min(full) / full.max(1);
    if rng.random_bool(0.125) {
        return (grown + 1).min(d.max_people);
    }
    // The larger of two samples: longer problems have more lines to learn from.
    rng.random_range(d.min_people..=grown)
        .max(rng.random_range(d.min_people..=grown))
}

/// Returns the difficulty with a fixed number of people.
pub(crate) fn of_size(difficulty: Difficulty, people: usize) -> Difficulty {
    Difficulty {
        min_people: people,
        max_people: people,
        ..difficulty
    }
}

/// Estimates the number of tokens of a problem with its solution.
pub(crate) fn length(people: usize) -> usize {
    14 + 24 * people
}

/// Makes a batch of problems with solutions, all with the same number of people. Only solutions
/// have a loss. The base model reads right solutions, the generator `noisy` ones.
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
    // A stream per stage and step: a batch does not depend on the batches before it.
    let mut rng = world::rng(config.seed, stage, step);
    let n = if noisy {
        people(&mut rng, config.difficulty, 1, 1)
    } else {
        let early = step < schedule.steps * 3 / 5;
        // More bare sums early: a line cannot be right before its sum is.
        if rng.random_bool(if early { 0.3 } else { 0.1 }) {
            return drill(tok, &mut rng, schedule);
        }
        // The base model begins with short problems, which teach it to copy names and numbers.
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

/// Makes a batch of bare sums. A sum teaches a fact of arithmetic in seven tokens, a line of a
/// problem takes 24.
fn drill(tok: &Tokenizer, rng: &mut impl Rng, schedule: &Schedule) -> Result<Vec<Example>> {
    const SUMS: usize = 16;
    let equals = encode(tok, " =")?;
    let mut examples = Vec::new();
    for _ in 0..(schedule.batch_tokens / (SUMS * 7 + 1)).max(1) {
        let text: Vec<String> = (0..SUMS).map(|_| world::sum(rng)).collect();
        let mut example = Example::of(encode(tok, &format!("{BEGIN}{}", text.join("\n")))?);
        for t in 1..example.ids.len() {
            // Only results can be predicted; the terms of a sum are random.
            if equals.contains(&example.ids[t - 1]) {
                example.predict(t, example.ids[t]);
            }
        }
        examples.push(example);
    }
    Ok(examples)
}
