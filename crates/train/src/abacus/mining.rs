//! Search for hard negatives: wrong lines or chains that a reward model rates as right. Such mistakes are rare in
//! common samples, but a search over N chains finds them for large N, because it keeps the highest rated chain.
//! Mining does the same: it samples many texts, rates the wrong ones and keeps the highest rated. The texts are
//! single lines after right prefixes for the PRM, and whole chains for the ORM.

use super::sample;
use super::tokenizer::{encode, prompt};
use crate::Result;
use beamgen_engine::{Append, Engine, EngineConfig, Model, Output, SeqId, Want, Weights};
use beamgen_world::{Checker, Verdict, WorldProblem};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use tokenizers::Tokenizer;

/// The settings of the search for hard negatives, for both reward models.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mining {
    /// The number of rounds of mining and training for the PRM; 0 skips them.
    pub rounds: usize,
    /// The number of rounds of mining and training for the ORM; 0 skips them.
    pub orm_rounds: usize,
    /// The number of problems to sample for in a round.
    pub problems: usize,
    /// The number of samples: lines after each right prefix for the PRM, whole chains of each problem for the ORM.
    pub samples: usize,
    /// The sampling temperature of lines. A value above 1 finds rare lines with fewer samples. Whole chains are
    /// always sampled at 1.
    pub temperature: f64,
    /// The number of wrong lines or wrong chains to keep for each problem.
    pub keep: usize,
}

/// The mistakes that a round found, for the next training stage.
pub struct Mined {
    /// Right prefixes with one wrong line, or chains with a wrong answer. At most [`Mining::keep`] of each problem
    /// are here, the highest rated.
    pub chains: Vec<(WorldProblem, Vec<String>)>,
    /// The number of different mistakes before the choice of the highest rated.
    pub wrong: usize,
    /// The number of mistakes among `wrong` with a score above 0.5, which the reward model misses.
    pub missed: usize,
}

/// A mistake after the first `done` right lines of a problem.
struct Wrong {
    done: usize,
    /// One line, or the lines of a whole chain joined by newlines.
    text: String,
    /// The reward model's score at the last newline before the sigmoid; above 0 the mistake is rated as right.
    logit: f32,
}

impl Wrong {
    fn unrated(done: usize, text: String) -> Self {
        let logit = 0.0;
        Self { done, text, logit }
    }
}

/// The number of problems rated at a time, which bounds the key-value caches in memory.
const RATED_TOGETHER: usize = 16;

/// The generator, the reward model and the settings of a round of mining.
pub struct Miner<'a> {
    /// The numbers of samples and of kept mistakes, and the temperature.
    pub mining: &'a Mining,
    /// The folder of the generator's checkpoint, from which texts are sampled.
    pub generator: &'a Path,
    /// The folder of the reward model's checkpoint: the PRM for [`Miner::lines`], the ORM for [`Miner::chains`].
    pub judge: &'a Path,
    /// The tokenizer of the generator, which is also that of the reward model.
    pub tok: &'a Tokenizer,
    /// The seed of the samples.
    pub seed: u64,
}

impl Miner<'_> {
    /// Samples lines after every right prefix of `problems` and rates the wrong ones.
    ///
    /// # Errors
    /// A checkpoint cannot be read, or the engine fails.
    pub fn lines(&self, problems: &[WorldProblem]) -> Result<Mined> {
        let prefixes: Vec<(&WorldProblem, usize)> = problems
            .iter()
            .flat_map(|p| (0..=p.facts.len()).map(move |done| (p, done)))
            .collect();
        let (samples, temperature) = (self.mining.samples, self.mining.temperature);
        let sampled = sample::lines(
            self.generator,
            self.tok,
            &prefixes,
            samples,
            temperature,
            self.seed,
        )?;
        let mut sampled = sampled.into_iter();
        let found = problems
            .iter()
            .map(|p| (p, wrong_lines(p, sampled.by_ref().take(p.facts.len() + 1))))
            .collect();
        self.highest_rated(found)
    }

    /// Samples whole chains of `problems` and rates those with a wrong answer.
    ///
    /// # Errors
    /// A checkpoint cannot be read, or the engine fails.
    pub fn chains(&self, problems: &[WorldProblem]) -> Result<Mined> {
        let whole: Vec<(&WorldProblem, usize)> = problems.iter().map(|p| (p, 0)).collect();
        let samples = self.mining.samples;
        let sampled = sample::chains(self.generator, self.tok, &whole, samples, self.seed)?;
        let found = problems
            .iter()
            .zip(sampled)
            .map(|(p, chains)| (p, wrong_chains(p, chains)))
            .collect();
        self.highest_rated(found)
    }

    fn highest_rated(&self, mut found: Vec<(&WorldProblem, Vec<Wrong>)>) -> Result<Mined> {
        let mut rater = Rater::open(self.judge)?;
        for some in found.chunks_mut(RATED_TOGETHER) {
            rater.rate(self.tok, some)?;
        }
        let wrong = found.iter().map(|(_, wrong)| wrong.len()).sum();
        let mistakes = found.iter().flat_map(|(_, wrong)| wrong);
        let missed = mistakes.filter(|w| w.logit > 0.0).count();
        let mut chains = Vec::new();
        for (p, mut wrong) in found {
            // The sort is stable, so mistakes of equal rating keep their order and the result is reproducible.
            wrong.sort_by(|a, b| b.logit.total_cmp(&a.logit));
            for w in wrong.into_iter().take(self.mining.keep) {
                let mut lines = p.solution();
                lines.truncate(w.done);
                lines.extend(w.text.lines().map(str::to_owned));
                chains.push((p.clone(), lines));
            }
        }
        Ok(Mined {
            chains,
            wrong,
            missed,
        })
    }
}

/// Returns the wrong lines among those sampled after each right prefix.
fn wrong_lines(p: &WorldProblem, sampled: impl Iterator<Item = Vec<String>>) -> Vec<Wrong> {
    let mut checker = Checker::new(p);
    let mut out = Vec::new();
    for ((done, lines), right) in sampled.enumerate().zip(p.solution()) {
        for line in lines {
            // Each sampled line continues the same prefix, so each needs the checker's state before it.
            if checker.clone().next(&line) != Verdict::Right {
                out.push(Wrong::unrated(done, line));
            }
        }
        checker.next(&right);
    }
    out
}

/// Returns the different chains without the right answer at their end. Empty chains are skipped.
fn wrong_chains(p: &WorldProblem, chains: Vec<Vec<String>>) -> Vec<Wrong> {
    let answer = WorldProblem::answer_line(p.answer());
    let mut texts: Vec<String> = chains
        .into_iter()
        .filter(|lines| lines.last().is_some_and(|last| *last != answer))
        .map(|lines| lines.join("\n"))
        .collect();
    // Sorting removes the influence of the sampling order and lets `dedup` find equal texts.
    texts.sort();
    texts.dedup();
    let texts = texts.into_iter();
    texts.map(|text| Wrong::unrated(0, text)).collect()
}

/// A reward model in the inference engine, with the weights of its head.
struct Rater {
    engine: Engine,
    weight: Vec<f32>,
    bias: f32,
}

impl Rater {
    fn open(checkpoint: &Path) -> Result<Self> {
        let model = Arc::new(Model::load(checkpoint)?);
        let weights = Weights::load(checkpoint)?;
        let weight = weights.values("score.weight", &[1, model.config().hidden_size])?;
        Ok(Self {
            engine: Engine::new(model, EngineConfig::default())?,
            weight,
            bias: weights.values("score.bias", &[1])?[0],
        })
    }

    /// Rates mistakes in place. The engine reads the right solution of a problem once and forks the sequence after
    /// each right prefix.
    fn rate(&mut self, tok: &Tokenizer, some: &mut [(&WorldProblem, Vec<Wrong>)]) -> Result<()> {
        let most = some.iter().map(|(p, _)| p.facts.len()).max().unwrap_or(0);
        let trunks: Vec<SeqId> = some.iter().map(|_| self.engine.create()).collect();
        for done in 0..=most {
            let mut given = Vec::new();
            for ((p, _), &trunk) in some.iter().zip(&trunks) {
                let text = match done {
                    0 => prompt(&p.text()),
                    _ if done <= p.facts.len() => p.line(done - 1) + "\n",
                    _ => continue,
                };
                given.push((trunk, encode(tok, &text)?));
            }
            self.read(&given, Want::None)?;
            let mut wrong: Vec<(SeqId, &mut Wrong)> = Vec::new();
            for ((_, all), &trunk) in some.iter_mut().zip(&trunks) {
                wrong.extend(
                    all.iter_mut()
                        .filter(|w| w.done == done)
                        .map(|w| (trunk, w)),
                );
            }
            let mut lines = Vec::with_capacity(wrong.len());
            for (trunk, w) in &wrong {
                let tokens = encode(tok, &format!("{}\n", w.text))?;
                // A fork shares the cache of the prefix, so the engine reads only the mistake.
                lines.push((self.engine.fork(*trunk), tokens));
            }
            let logits = self.read(&lines, Want::Last)?;
            for ((_, w), logit) in wrong.into_iter().zip(logits) {
                w.logit = logit;
            }
            for (branch, _) in lines {
                self.engine.free(branch);
            }
        }
        for trunk in trunks {
            self.engine.free(trunk);
        }
        Ok(())
    }

    /// Appends tokens to sequences and returns the head's score before the sigmoid for each row that `want` selects.
    fn read(&mut self, texts: &[(SeqId, Vec<u32>)], want: Want<'static>) -> Result<Vec<f32>> {
        let items: Vec<Append> = texts
            .iter()
            .map(|(seq, tokens)| Append {
                seq: *seq,
                tokens,
                want,
            })
            .collect();
        let rows = self.engine.forward(&items, Output::Hidden)?;
        let logits = rows
            .iter()
            .map(|row| {
                let products = row.iter().zip(&self.weight).map(|(h, w)| h * w);
                self.bias + products.sum::<f32>()
            })
            .collect();
        self.engine.recycle(rows);
        Ok(logits)
    }
}

#[cfg(test)]
mod tests {
    use super::{wrong_chains, wrong_lines};
    use beamgen_world as world;

    #[test]
    fn wrong_lines_are_those_that_the_checker_refuses_after_their_prefix() {
        let p = world::parse(
            "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?",
        )
        .unwrap();
        let right = p.solution();
        let sampled = [
            vec![right[0].clone(), "Mia has".into()],
            vec![right[1].clone(), right[0].clone(), right[2].clone()],
            vec![right[2].clone(), "The answer is 34.".into()],
        ];
        let found: Vec<(usize, String)> = wrong_lines(&p, sampled.into_iter())
            .into_iter()
            .map(|w| (w.done, w.text))
            .collect();
        assert_eq!(
            found,
            [
                (0, "Mia has".into()),
                (1, right[0].clone()),
                (1, right[2].clone()),
                (2, "The answer is 34.".into()),
            ]
        );
    }
    #[test]
    fn wrong_chains_are_those_whose_last_line_is_not_the_right_answer() {
        let p = world::parse(
            "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?",
        )
        .unwrap();
        let right = p.solution();
        let mut wrong = right.clone();
        wrong[2] = "The answer is 43.".into();
        let unfinished = right[..1].to_vec();
        let chains = vec![
            right,
            wrong.clone(),
            vec![],
            unfinished.clone(),
            wrong.clone(),
        ];
        let found: Vec<String> = wrong_chains(&p, chains)
            .into_iter()
            .map(|w| w.text)
            .collect();
        assert_eq!(found, [unfinished.join("\n"), wrong.join("\n")]);
    }
}
