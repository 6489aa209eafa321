//! Batches of the reward-model stages. The world's checker knows the exact truth of each line: the PRM gets a label
//! at each line end and at the first wrong token. The ORM gets only the outcome of a chain.

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

/// Chains, grouped by the number of facts of their problem. A batch has problems of one size.
#[derive(Default)]
pub struct SamplePool {
    by_people: BTreeMap<usize, Vec<(WorldProblem, Vec<String>)>>,
}

impl SamplePool {
    /// Adds a chain to the group of its problem's size.
    pub fn add(&mut self, problem: WorldProblem, lines: Vec<String>) {
        let chains = self.by_people.entry(problem.facts.len()).or_default();
        chains.push((problem, lines));
    }

    fn sample(&self, rng: &mut impl Rng, people: usize) -> Option<&(WorldProblem, Vec<String>)> {
        let chains = self.by_people.get(&people)?;
        Some(&chains[rng.random_range(0..chains.len())])
    }
}

/// The weight of the label at the first wrong token of a line; a line end has weight 1.
const FIRST_WRONG_TOKEN: f32 = 2.0;
/// The weight of the label at a right token inside a line.
const RIGHT_TOKEN: f32 = 0.3;

/// The inputs from which a reward model's batches are made.
pub struct Batches<'a> {
    /// The tokenizer of the bundled models, which all stages share.
    pub tok: &'a Tokenizer,
    /// The chains that the generator sampled once, for all updates.
    pub pool: &'a SamplePool,
    /// Mined chains, which become half of each batch; `None` before the first round of mining.
    pub mined: Option<&'a SamplePool>,
    /// The kind of labels: one for each line up to the first wrong line (PRM), or one at the end of the chain (ORM).
    pub target: Target,
    /// The schedule of the stage; only `batch_tokens` is used here.
    pub schedule: Schedule,
    /// The seed, the difficulty of fresh problems and the rates of the mistakes in them.
    pub config: &'a TrainConfig,
}

impl Batches<'_> {
    /// Makes the batch of update `step`. Half of the chains are from `pool` and half are new problems with the
    /// world's own mistakes. With `mined`, half are mined and a quarter is from each of these two sources.
    ///
    /// # Errors
    /// The tokenizer fails.
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
            // The position in the batch decides the source, so every batch has the same mixture.
            let from = match (self.mined, i % 4) {
                (Some(mined), 0 | 1) => Some(mined),
                (_, 0 | 2) => Some(self.pool),
                _ => None,
            };
            let sampled = from.and_then(|pool| pool.sample(&mut rng, n)).cloned();
            // In small runs `pool` may have no problem of this size.
            let (problem, mut lines) = sampled.unwrap_or_else(|| {
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
                // Lines after the first wrong line have no defined truth.
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
                            // The language-model loss must not teach the wrong tokens.
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

/// Returns the factor of the error rates in the batch of update `step`, from 0 (no mistakes) to 1. The factors
/// alternate, so that about half of the outcomes are right.
fn care(step: usize) -> f64 {
    [0.0, 0.25, 0.5, 1.0][step % 4]
}

/// Makes a right prefix of random length with one wrong line after it. One chain in four is a right solution instead.
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

/// Returns the verdict of the world's exact checker on each line.
pub fn judge(problem: &WorldProblem, lines: &[String]) -> Vec<Verdict> {
    let mut checker = Checker::new(problem);
    lines.iter().map(|l| checker.next(l)).collect()
}

/// Returns the position of the token that contains byte `from` of `line`. `range` holds the positions of the line's
/// tokens.
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
