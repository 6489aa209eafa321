//! Sampling of chains by the search: all problems of a batch in flight, the chains of a problem
//! from one prefill of its prompt, their steps scored by the same scheduler.

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

/// The largest number of problems in flight. It changes only the speed.
const IN_FLIGHT: usize = 64;

/// The checkers that look for wrong steps in chains with right answers.
const CHECKERS: [&str; 2] = ["exact", "arithmetic"];

/// A step of a sampled chain.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// The number of tokens of the step.
    pub tokens: usize,
    /// The sum of the tokens' log-probabilities under the engine that sampled them, in nats.
    pub log_prob: f64,
    /// The score by the reward model, 0 to 1; `None` in unfinished chains and without a reward
    /// model.
    pub score: Option<f32>,
}

/// A sampled chain with its verdict against the reference answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chain {
    /// All sampled token ids, the end-of-text token included.
    pub tokens: Vec<u32>,
    /// The steps, whose tokens add up to `tokens`. Tokens after the last step without text of their
    /// own, such as the end of the text, belong to the last step.
    pub steps: Vec<Step>,
    /// Whether the chain ended by itself, not at a limit.
    pub finished: bool,
    /// The comparison of the answer with the reference; [`Verdict::Different`] for an unfinished
    /// chain.
    pub verdict: Verdict,
    /// The number of steps with the text of an earlier step.
    pub repeated: usize,
    /// Whether the answer is right although a checker proves a step wrong. Training does not use
    /// this.
    pub is_unsound: bool,
}

impl Chain {
    /// Whether the answer certainly equals the reference.
    pub(super) fn is_right(&self) -> bool {
        self.verdict == Verdict::Same
    }

    /// Returns the fraction of unsound chains among those with right answers; `None` if no answer
    /// is right.
    pub(super) fn unsound<'a>(chains: impl Iterator<Item = &'a Self>) -> Option<f64> {
        let (mut right, mut unsound) = (0_u32, 0_u32);
        for chain in chains.filter(|chain| chain.is_right()) {
            right += 1;
            unsound += u32::from(chain.is_unsound);
        }
        (right > 0).then(|| f64::from(unsound) / f64::from(right))
    }

    /// Returns the scores of all steps, 0 where a step has none.
    pub(super) fn scores(&self) -> Vec<f32> {
        self.steps
            .iter()
            .map(|step| step.score.unwrap_or(0.0))
            .collect()
    }
}

/// The chains sampled for a problem.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// The token ids of the prompt.
    pub prompt: Vec<u32>,
    /// The chains, in the order of their random streams.
    pub chains: Vec<Chain>,
}

/// Sampled groups and their cost.
#[derive(Clone, Debug, Default)]
pub(super) struct Rollouts {
    /// The groups, in the order of the problems.
    pub groups: Vec<Group>,
    /// The number of sampled tokens.
    pub tokens: u64,
    /// The whole time in seconds.
    pub seconds: f64,
    /// The time of the reward model in seconds, a part of `seconds`.
    pub scoring: f64,
}

/// The settings by which chains are sampled.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The settings of the generator.
    pub writing: GeneratorConfig,
    /// Whether one greedy chain is decoded instead of sampled chains.
    pub greedy: bool,
    /// The number of chains of a problem.
    pub chains: usize,
    /// The number of steps after which a chain is cut.
    pub max_steps: usize,
    /// Whether a chain's last number counts as its answer if no answer is marked.
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
            // Only the scores and the chains are used, not the search's choice of an answer; `Best`
            // is the rule that makes the search score chains.
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

    /// Samples the chains of all problems. The random numbers of a problem depend only on its id
    /// and its text.
    ///
    /// # Errors
    /// A model fails, or a problem's prompt is too long.
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
            // Results come in the order of completion; groups must be in the order of problems.
            results[index] = Some(result);
            ControlFlow::Continue(())
        })?;
        let mut panel = Panel::built_in(&CHECKERS).map_err(|e| Error::Config(e.to_string()))?;
        let groups = prompts.into_iter().zip(results).map(|(prompt, result)| {
            let result =
                result.ok_or_else(|| Error::Rollout("the search lost a problem".into()))?;
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
                // A node without text is not a step, but its tokens were sampled and count.
                Some(last) if text.is_empty() => {
                    last.tokens += node.tokens.len();
                    last.log_prob += f64::from(node.logprob);
                }
                _ => {
                    // Repetition is a sign that a policy pads its chains for reward.
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
        // An unfinished chain may contain a number by chance, so its answer does not count.
        let given = stated.filter(|_| finished && (self.guesses || !end.is_guess));
        let reference = result.problem.answer.as_deref().unwrap_or_default();
        let verdict = given.map_or(Verdict::Different, |given| {
            answer::compare(given, reference)
        });
        let is_unsound = verdict == Verdict::Same && {
            let texts = result.tree.steps(end.node).map(|node| node.text.trim());
            panel
                .first_fail(&result.problem.with_context(), texts.collect())
                .is_some()
        };
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
