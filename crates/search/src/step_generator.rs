//! Generators that write the next step of a chain from its text, without handles or caches.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::GenError;
use crate::finish::{Border, Finish};
use crate::generation::GeneratorConfig;
use crate::generator::{
    ChainId, Generator, GivenStep, Memory, OpenedProblem, PassOutput, Source, StepOutput, StepPlan,
};
use crate::problem::Problem;
use crate::strategy::DecodeMode;
use crate::stream::child_stream;

/// A generator that writes a step from the chain before it. Implemented by every closure `|problem:
/// &Problem, steps: &[&str], seed: u64| -> String`.
pub trait StepGenerator {
    /// Returns the next step after `steps`; an empty text ends the chain. A step ends with a
    /// newline, which is added if it is missing. The step counts as one token.
    ///
    /// All randomness has to come from `seed`, which differs for each step. The seed 0 asks for the
    /// likeliest step.
    ///
    /// # Errors
    /// The reason why no step can be written. The problem ends with this error, unless the
    /// generator is [lost](GenError::Lost), which ends the run.
    fn next_step(
        &mut self,
        problem: &Problem,
        steps: &[&str],
        seed: u64,
    ) -> Result<String, GenError>;
}

impl<F: FnMut(&Problem, &[&str], u64) -> String> StepGenerator for F {
    fn next_step(
        &mut self,
        problem: &Problem,
        steps: &[&str],
        seed: u64,
    ) -> Result<String, GenError> {
        Ok(self(problem, steps, seed))
    }
}

/// Adapts a [`StepGenerator`] to a [`Generator`] by remembering the steps of every chain.
#[derive(Debug)]
pub struct StepByStep<G> {
    generator: G,
    chains: BTreeMap<ChainId, Chain>,
    next: u64,
}

#[derive(Debug, Clone)]
struct Chain {
    problem: Arc<Problem>,
    seed: u64,
    steps: Vec<Arc<str>>,
    /// The plan for the next pass; `None` if the chain is idle.
    plan: Option<StepPlan>,
}

impl Chain {
    fn write(
        &mut self,
        chain: ChainId,
        generator: &mut impl StepGenerator,
        plan: StepPlan,
    ) -> Result<StepOutput, GenError> {
        let seed = match plan.mode {
            DecodeMode::Greedy => 0,
            // A text has no tokens at which a step could pause, so a step is always written to its
            // end.
            DecodeMode::Sample | DecodeMode::PauseAfter(_) | DecodeMode::PauseAtOnce => {
                child_stream(plan.stream ^ self.seed, 0)
            }
        };
        // A single token stands for each step, so limits on tokens count steps.
        let steps: Vec<&str> = self.steps.iter().map(|step| &**step).collect();
        let mut text = generator.next_step(&self.problem, &steps, seed)?;
        let ends = text.is_empty();
        if !ends {
            text = ended(text);
        }
        self.steps.push(text.as_str().into());
        Ok(StepOutput {
            chain,
            tokens: vec![0],
            text,
            leftover: Vec::new(),
            tokens_match_text: false,
            thought: None,
            logprob: 0.0,
            token_logprobs: Vec::new(),
            border: Border::Boundary,
            finish: ends.then_some(Finish::EndOfText),
            paused: false,
        })
    }
}

/// Appends the newline that ends a step, if it is missing.
fn ended(mut step: String) -> String {
    if !step.ends_with('\n') {
        step.push('\n');
    }
    step
}

impl<G: StepGenerator> StepByStep<G> {
    /// Wraps a generator; no chain exists yet.
    pub fn new(generator: G) -> Self {
        Self {
            generator,
            chains: BTreeMap::new(),
            next: 0,
        }
    }

    fn add(&mut self, chain: Chain) -> ChainId {
        self.next += 1;
        let id = ChainId(self.next);
        self.chains.insert(id, chain);
        id
    }
}

impl<G: StepGenerator> Generator for StepByStep<G> {
    fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError> {
        settings.check_without_logits(None)?;
        for (what, is_set) in [
            ("generator setting `stop`", !settings.stop.is_empty()),
            ("the problem's `prefix`", !problem.prefix.is_empty()),
        ] {
            if is_set {
                let reason = "needs a generator that writes in tokens, and this one writes whole steps: leave it out, or use a model";
                return Err(GenError::Settings(format!("{what} {reason}")));
            }
        }
        // Mixed before the key is applied: seeds such as 1 and 2 differ in only a few bits.
        let strategy_seed = child_stream(settings.seed, 0) ^ key;
        let given = problem.steps.iter().map(|step| GivenStep {
            text: ended(step.clone()),
            tokens: vec![0],
            tokens_match_text: false,
            thought: None,
        });
        let given: Vec<GivenStep> = given.collect();
        Ok(OpenedProblem {
            chain: self.add(Chain {
                problem: Arc::new(problem.clone()),
                seed: strategy_seed,
                steps: given.iter().map(|step| step.text.as_str().into()).collect(),
                plan: None,
            }),
            prompt_tokens: 0,
            given,
            begun: String::new(),
            strategy_seed,
            thought: None,
        })
    }

    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        let id = match source {
            Source::Itself(id) => id,
            Source::ForkOf(id) => self.add(self.chains[&id].clone()),
        };
        self.chains.get_mut(&id)?.plan = Some(plan);
        Some(id)
    }

    fn release(&mut self, chain: ChainId) -> usize {
        self.chains.remove(&chain);
        0
    }

    fn pass(&mut self) -> Result<PassOutput, GenError> {
        let mut output = PassOutput::default();
        for (&id, chain) in &mut self.chains {
            let Some(plan) = chain.plan.take() else {
                continue;
            };
            match chain.write(id, &mut self.generator, plan) {
                Ok(step) => output.steps.push(step),
                Err(error @ GenError::Lost(_)) => return Err(error),
                Err(error) => output.failed.push((id, error)),
            }
        }
        Ok(output)
    }

    fn active(&self) -> usize {
        let planned = self.chains.values().filter(|chain| chain.plan.is_some());
        planned.count()
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(generator: &mut impl Generator, seed: u64) -> ChainId {
        let problem = Problem::from("?");
        let settings = GeneratorConfig {
            seed,
            ..GeneratorConfig::default()
        };
        generator.open(&problem, 7, &settings).unwrap().chain
    }

    fn plan(stream: u64, mode: DecodeMode) -> StepPlan {
        StepPlan {
            stream,
            mode,
            token_limit: 9,
        }
    }

    #[test]
    fn forks_do_not_mix_and_seeds_follow_the_stream_and_the_seed() {
        let mut generator = StepByStep::new(|_: &Problem, steps: &[&str], seed: u64| {
            format!("{} {seed}", steps.concat().len())
        });
        let roots = [open(&mut generator, 1), open(&mut generator, 2)];
        let modes = [DecodeMode::Sample, DecodeMode::Sample, DecodeMode::Greedy];
        let mut texts = Vec::new();
        for root in roots {
            for (stream, mode) in [3, 4, 4].into_iter().zip(modes) {
                let source = Source::ForkOf(root);
                let chain = generator.try_start(source, plan(stream, mode)).unwrap();
                assert_eq!(generator.active(), 1);
                let output = generator.pass().unwrap();
                assert_eq!((output.steps.len(), generator.active()), (1, 0));
                assert_eq!(
                    (output.steps[0].chain, output.steps[0].finish),
                    (chain, None)
                );
                texts.push(output.steps[0].text.clone());
                generator.release(chain);
            }
        }
        assert!(
            texts
                .iter()
                .all(|text| text.starts_with("0 ") && text.ends_with('\n'))
        );
        assert_eq!((&*texts[2], &*texts[5]), ("0 0\n", "0 0\n"));
        let distinct: std::collections::BTreeSet<_> = texts.iter().collect();
        assert_eq!(distinct.len(), 5);
        for root in roots {
            generator.release(root);
        }
        assert!(generator.chains.is_empty());
    }

    #[test]
    fn an_empty_step_ends_a_chain_and_a_failure_is_that_of_its_chain() {
        struct Picky;
        impl StepGenerator for Picky {
            fn next_step(
                &mut self,
                _: &Problem,
                steps: &[&str],
                _: u64,
            ) -> Result<String, GenError> {
                match steps.len() {
                    0 => Ok("one\n".to_owned()),
                    1 => Ok(String::new()),
                    _ => Err(GenError::Failed("no more".into())),
                }
            }
        }
        let mut generator = StepByStep::new(Picky);
        let chain = open(&mut generator, 0);
        let step = |generator: &mut StepByStep<Picky>| {
            let source = Source::Itself(chain);
            generator.try_start(source, plan(1, DecodeMode::Sample));
            generator.pass().unwrap()
        };
        assert_eq!(step(&mut generator).steps[0].text, "one\n");
        assert_eq!(
            step(&mut generator).steps[0].finish,
            Some(Finish::EndOfText)
        );
        let failed = step(&mut generator).failed;
        assert_eq!(failed, [(chain, GenError::Failed("no more".into()))]);
    }
}
