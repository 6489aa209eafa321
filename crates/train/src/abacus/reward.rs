//! Reward-model stages: the PRM (a label at every line end, and at the first wrong token, which
//! the world knows exactly) and the ORM (the final outcome only).

use super::config::TrainConfig;
use super::lm::{length, of_size, people};
use super::stage::Schedule;
use super::tokenizer::{decode, encode, encode_chain};
use crate::Result;
use crate::tune::Example;
use crate::tune::labelled::Target;
use beamgen_world::{self as world, Checker, Split, Verdict, WorldProblem};
use rand::Rng;
use std::collections::BTreeMap;
use tokenizers::Tokenizer;

/// Chains that the generator wrote, by the number of people of their problem.
#[derive(Default)]
pub struct SamplePool {
    by_people: BTreeMap<usize, Vec<(WorldProblem, Vec<String>)>>,
}

impl SamplePool {
    /// Puts a chain of a problem into the pool.
    pub fn add(&mut self, problem: WorldProblem, lines: Vec<String>) {
        let of_size = self.by_people.entry(problem.facts.len()).or_default();
        of_size.push((problem, lines));
    }

    fn draw(&self, rng: &mut impl Rng, people: usize) -> Option<&(WorldProblem, Vec<String>)> {
        let of_size = self.by_people.get(&people)?;
        Some(&of_size[rng.random_range(0..of_size.len())])
    }
}

/// Weights of the dense labels beside the line ends' 1.
const FIRST_WRONG_TOKEN: f32 = 2.0;
const RIGHT_TOKEN: f32 = 0.3;

/// The batches of one reward model.
pub struct Batches<'a> {
    /// Turns lines into tokens.
    pub tok: &'a Tokenizer,
    /// Chains of the generator.
    pub pool: &'a SamplePool,
    /// Hard negatives: half of the chains, where there are any.
    pub mined: Option<&'a SamplePool>,
    /// The part of a chain that is learnt: every line up to the first wrong one, or the answer, at
    /// the end of the last line only.
    pub target: Target,
    /// How long, how fast, and the size of a batch.
    pub schedule: Schedule,
    /// Fresh problems, and the mistakes of the noisy solutions that the outcome model reads.
    pub config: &'a TrainConfig,
}

impl Batches<'_> {
    /// One batch: half chains of the sample pool, half made here from the world's own mistakes; or,
    /// of each, a quarter, and half hard negatives.
    ///
    /// # Errors
    /// Errors of candle and of the tokenizer.
    pub fn batch(&self, step: usize) -> Result<Vec<Example>> {
        let (config, target) = (self.config, self.target);
        let stage = match target {
            Target::Process => 3,
            Target::Outcome => 4,
        };
        let mut rng = world::rng(config.seed, stage, step);
        let n = people(&mut rng, config.difficulty, 1, 1);
        let d = of_size(config.difficulty, n);
        let mut examples = Vec::new();
        for i in 0..(self.schedule.batch_tokens / length(n)).max(1) {
            let from = match (self.mined, i % 4) {
                (Some(mined), 0 | 1) => Some(mined),
                (_, 0 | 2) => Some(self.pool),
                _ => None,
            };
            let drawn = from.and_then(|pool| pool.draw(&mut rng, n)).cloned();
            let (problem, mut lines) = drawn.unwrap_or_else(|| {
                let p = world::problem(&mut rng, d, Split::Train);
                let lines = match target {
                    Target::Process => corrupted(&mut rng, &p),
                    Target::Outcome => {
                        let rates = config.error_rates.scaled(care(step));
                        world::noisy_solution(&mut rng, &p, &rates)
                    }
                };
                (p, lines)
            });
            let verdicts = judge(&problem, &lines);
            if target == Target::Process
                && let Some(wrong) = verdicts.iter().position(|v| *v != Verdict::Right)
            {
                lines.truncate(wrong + 1);
            }
            if lines.is_empty() {
                continue;
            }
            let chain = encode_chain(self.tok, &problem, &lines, false)?;
            let mut example = Example::of(chain.ids);
            match target {
                Target::Process => {
                    for ((range, line), verdict) in chain.lines.iter().zip(&lines).zip(verdicts) {
                        let end = range.end - 1;
                        let first_wrong = match verdict {
                            Verdict::Right => range.end,
                            Verdict::Wrong { from } => token_at(self.tok, range, line, from)?,
                        };
                        for t in range.start..range.end {
                            if t == end {
                                example.judge(t, verdict == Verdict::Right, 1.0);
                            } else if t < first_wrong {
                                example.judge(t, true, RIGHT_TOKEN);
                            } else if t == first_wrong {
                                example.judge(t, false, FIRST_WRONG_TOKEN);
                            }
                            if t < first_wrong {
                                example.predict(t, example.ids[t]);
                            }
                        }
                    }
                }
                Target::Outcome => {
                    let good = lines.last() == Some(&WorldProblem::answer_line(problem.answer()));
                    example.judge(example.ids.len() - 1, good, 1.0);
                    for t in chain.prompt..example.ids.len() {
                        example.predict(t, example.ids[t]);
                    }
                }
            }
            examples.push(example);
        }
        Ok(examples)
    }
}

/// Outcome chains come from careful and careless pupils in turn, so that half of them are right.
fn care(step: usize) -> f64 {
    [0.0, 0.25, 0.5, 1.0][step % 4]
}

/// A right prefix of random length, then one wrong line (three in four) or the rest of the right
/// solution.
fn corrupted(rng: &mut impl Rng, p: &WorldProblem) -> Vec<String> {
    let mut lines = p.solution();
    if rng.random_bool(0.25) {
        return lines;
    }
    let keep = rng.random_range(0..lines.len());
    lines.truncate(keep);
    lines.push(world::corrupt(rng, p, keep));
    lines
}

/// The exact checker's verdict on each line.
pub fn judge(problem: &WorldProblem, lines: &[String]) -> Vec<Verdict> {
    let mut checker = Checker::new(problem);
    lines.iter().map(|l| checker.next(l)).collect()
}

/// The token of a line that holds its byte `from`.
fn token_at(
    tok: &Tokenizer,
    range: &std::ops::Range<usize>,
    line: &str,
    from: usize,
) -> Result<usize> {
    let ids = encode(tok, &format!("{line}\n"))?;
    debug_assert_eq!(ids.len(), range.len());
    let mut at = 0;
    for (i, id) in ids.into_iter().enumerate() {
        at += decode(tok, &[id], false)?.len();
        if at > from {
            return Ok(range.start + i);
        }
    }
    Ok(range.end - 1)
}
