//! Chains sampled by the search: all problems of a batch in flight, the chains of a problem from one
//! pass over its prompt, and their steps scored by the same scheduler.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use beamgen_checkers::Panel;
use beamgen_eval::{MathAnswers, Verdict, answer};
use beamgen_generator::LmGenerator;
use beamgen_search::{
    Choose, Clock, FinishedChain, GeneratorConfig, Models, Node, Problem, ProblemResult, Scorer,
    SearchConfig, Settings, StrategyKind, run,
};

use crate::{Error, Result};

/// Problems in flight at most. It changes the speed alone.
const IN_FLIGHT: usize = 64;

/// The checkers that look at right chains.
const CHECKERS: [&str; 2] = ["exact", "arithmetic"];

/// A step of a chain.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// How many tokens it has, in the chain behind the step before.
    pub tokens: usize,
    /// The sum of their log-probabilities, as the engine sampled them.
    pub log_prob: f64,
    /// By the reward model. Steps of unfinished chains have none.
    pub score: Option<f32>,
}

/// A sampled chain.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chain {
    /// All sampled tokens, that which ends the text included.
    pub tokens: Vec<u32>,
    /// Their division into steps. What follows the last one without text of its own (the end of
    /// the text) belongs to it.
    pub steps: Vec<Step>,
    /// Whether it came to its own end. A chain that a limit cut did not.
    pub finished: bool,
    /// Its answer against the reference. That of an unfinished chain is [`Verdict::Different`].
    pub verdict: Verdict,
    /// Steps with the text of an earlier one.
    pub repeated: usize,
    /// Whether its answer is right, but a checker proves one of its steps wrong. Nothing is learnt
    /// from this.
    pub is_unsound: bool,
}

impl Chain {
    /// Whether its answer is certainly right.
    pub(super) fn is_right(&self) -> bool {
        self.verdict == Verdict::Same
    }

    /// The part of the right ones among chains that are unsound; `None` if none is right.
    pub(super) fn unsound<'a>(chains: impl Iterator<Item = &'a Self>) -> Option<f64> {
        let (mut right, mut unsound) = (0_u32, 0_u32);
        for chain in chains.filter(|chain| chain.is_right()) {
            right += 1;
            unsound += u32::from(chain.is_unsound);
        }
        (right > 0).then(|| f64::from(unsound) / f64::from(right))
    }

    /// Scores of all steps. Those of an unfinished chain count as 0.
    pub(super) fn scores(&self) -> Vec<f32> {
        self.steps
            .iter()
            .map(|step| step.score.unwrap_or(0.0))
            .collect()
    }
}

/// The chains of a problem.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// The prompt's tokens.
    pub prompt: Vec<u32>,
    /// In the order of their random streams.
    pub chains: Vec<Chain>,
}

/// Groups with what they cost.
#[derive(Clone, Debug, Default)]
pub(super) struct Rollouts {
    /// In the order of the problems.
    pub groups: Vec<Group>,
    /// Tokens sampled.
    pub tokens: u64,
    /// In all.
    pub seconds: f64,
    /// Of them, in the reward model.
    pub scoring: f64,
}

/// How problems are rolled out.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// How chains are written.
    pub writing: GeneratorConfig,
    /// One chain of the likeliest tokens in place of sampled ones.
    pub greedy: bool,
    /// Chains of a problem.
    pub chains: usize,
    /// Steps after which one is cut.
    pub max_steps: usize,
    /// Whether a chain's last number counts as its answer where nothing is marked as one.
    pub guesses: bool,
}

impl Plan {
    fn settings(&self, scored: bool) -> Settings {
        let choose = if scored {
            Choose::Best
        } else {
            Choose::Majority
        };
        Settings {
            search: SearchConfig {
                strategy: if self.greedy {
                    StrategyKind::GREEDY
                } else {
                    StrategyKind::BEST_OF_N
                },
                n: self.chains,
                m: 1,
                choose: Some(choose),
                max_steps: self.max_steps,
                in_flight: IN_FLIGHT,
                ..SearchConfig::default()
            },
            generator: self.writing.clone(),
        }
    }

    /// Samples the chains of all problems. The random numbers of a problem follow from its id and
    /// its text.
    ///
    /// # Errors
    /// A model fails, or refuses a problem.
    pub(super) fn roll_out(
        &self,
        generator: &mut LmGenerator,
        scorer: Option<&mut (dyn Scorer + '_)>,
        problems: Vec<Problem>,
    ) -> Result<Rollouts> {
        let prompts = problems.iter().map(|problem| generator.prompt(problem));
        let prompts: Vec<Vec<u32>> = prompts
            .collect::<std::result::Result<_, _>>()
            .map_err(|error| Error::Rollout(error.to_string()))?;
        let mut results: Vec<Option<ProblemResult>> = vec![None; problems.len()];
        let settings = self.settings(scorer.is_some());
        let clock = WallClock(Instant::now());
        let models = Models {
            generator,
            scorer: scorer.map(|scorer| scorer as &mut dyn Scorer),
            answers: &MathAnswers,
            clock: &clock,
        };
        let summary = run(models, settings, problems, &mut |_| {}, &mut |result| {
            let index = result.index;
            results[index] = Some(result);
            ControlFlow::Continue(())
        })?;
        let mut panel = Panel::built_in(&CHECKERS).map_err(|e| Error::Config(e.to_string()))?;
        let groups = prompts.into_iter().zip(results).map(|(prompt, result)| {
            let result = result.ok_or_else(|| Error::Rollout("a problem has no result".into()))?;
            if let Some(error) = &result.error {
                return Err(Error::Rollout(format!("{}: {error}", result.problem.id)));
            }
            let chains = result.finished.iter();
            Ok(Group {
                prompt,
                chains: chains
                    .map(|end| self.chain(&result, end, &mut panel))
                    .collect(),
            })
        });
        Ok(Rollouts {
            groups: groups.collect::<Result<_>>()?,
            tokens: summary.ledger.generated_tokens,
            seconds: clock.0.elapsed().as_secs_f64(),
            scoring: summary.ledger.seconds.score,
        })
    }

    fn chain(&self, result: &ProblemResult, end: &FinishedChain, panel: &mut Panel) -> Chain {
        let path = result.tree.path(end.node);
        let nodes: Vec<&Node> = path.iter().map(|&id| result.tree.node(id)).collect();
        let mut steps: Vec<Step> = Vec::with_capacity(nodes.len());
        let mut repeated = 0;
        for (i, node) in nodes.iter().enumerate() {
            let text = node.text.trim();
            match steps.last_mut() {
                Some(last) if text.is_empty() => {
                    last.tokens += node.tokens.len();
                    last.log_prob += f64::from(node.logprob);
                }
                _ => {
                    let earlier = nodes[..i].iter();
                    repeated += usize::from(earlier.map(|n| n.text.trim()).any(|t| t == text));
                    steps.push(Step {
                        tokens: node.tokens.len(),
                        log_prob: f64::from(node.logprob),
                        score: node.score,
                    });
                }
            }
        }
        let finished = end.finish.is_complete();
        let stated = end.answer.as_deref();
        let given = stated.filter(|_| finished && (self.guesses || !end.is_guess));
        let reference = result.problem.answer.as_deref().unwrap_or_default();
        let verdict = given.map_or(Verdict::Different, |given| {
            answer::compare(given, reference)
        });
        let texts = || result.tree.steps(end.node).map(|node| node.text.trim());
        let is_unsound = verdict == Verdict::Same
            && panel
                .first_fail(&result.problem.with_context(), texts().collect())
                .is_some();
        Chain {
            tokens: nodes
                .iter()
                .flat_map(|node| &node.tokens)
                .copied()
                .collect(),
            steps,
            finished,
            verdict,
            repeated,
            is_unsound,
        }
    }
}

struct WallClock(Instant);

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
