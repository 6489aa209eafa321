//! Sampling of chains with the search. The problems of a batch are searched together, the chains of a problem share
//! the prefill of its prompt, and the search's scheduler has their steps scored.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use beamgen_checkers::Panel;
use beamgen_eval::{MathAnswers, Verdict, answer, chain_verdict};
use beamgen_generator::LmGenerator;
use beamgen_search::{
    Choose, Clock, FinishedChain, GeneratorConfig, Models, Node, NodeId, Problem, ProblemResult,
    RolloutsConfig, Scorer, SearchConfig, Settings, StrategyKind, Verifier, run,
};

use crate::{Error, Result};

/// The largest number of problems that are searched together. It affects only speed and memory.
const IN_FLIGHT: usize = 64;

/// The checkers that look for wrong steps in chains with the right answer.
const CHECKERS: [&str; 2] = ["exact", "arithmetic"];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub tokens: usize,
    /// The log-probability of the step's tokens under the engine that sampled them, in nats.
    pub log_prob: f64,
    /// The reward model's score, 0 to 1; `None` without a reward model or in an unfinished chain.
    pub score: Option<f32>,
    /// V after the step: the share of its completions that have the right answer, or the outcome of the chain that
    /// ends with the step. `None` if no completions were sampled.
    pub value: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chain {
    /// The sampled token ids; the last one may be the end-of-text token.
    pub tokens: Vec<u32>,
    /// The steps. Their numbers of tokens sum to the length of `tokens`: trailing tokens without text, such as the
    /// end-of-text token, count to the last step.
    pub steps: Vec<Step>,
    /// True if the chain ended by itself, false if it was cut at a limit.
    pub finished: bool,
    /// The comparison of the answer with the reference answer; [`Verdict::Different`] for an unfinished chain.
    pub verdict: Verdict,
    /// The number of steps whose text is that of an earlier step.
    pub repeated: usize,
    /// True if the answer is right but a checker proves a step wrong. Training ignores this.
    pub is_unsound: bool,
}

impl Chain {
    /// Returns whether the answer is proved equal to the reference answer.
    pub(super) fn is_right(&self) -> bool {
        self.verdict == Verdict::Same
    }

    /// Returns the fraction of right chains that are unsound; `None` without right chains.
    pub(super) fn unsound<'a>(chains: impl Iterator<Item = &'a Self>) -> Option<f64> {
        let (mut right, mut unsound) = (0_u32, 0_u32);
        for chain in chains.filter(|chain| chain.is_right()) {
            right += 1;
            unsound += u32::from(chain.is_unsound);
        }
        (right > 0).then(|| f64::from(unsound) / f64::from(right))
    }

    /// Returns the score of each step; a step without a score counts as 0.
    pub(super) fn scores(&self) -> Vec<f32> {
        self.steps
            .iter()
            .map(|step| step.score.unwrap_or(0.0))
            .collect()
    }
}

/// A prompt with the chains sampled for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub prompt: Vec<u32>,
    /// The chains, in the order of the search's chain numbers.
    pub chains: Vec<Chain>,
}

/// The groups of a call of [`Plan::roll_out`], with their cost.
#[derive(Clone, Debug, Default)]
pub(super) struct Rollouts {
    /// The groups, in the order of the given problems.
    pub groups: Vec<Group>,
    /// The number of sampled tokens, those of cut chains included.
    pub tokens: u64,
    /// The time of the call in seconds, including scoring and grading.
    pub seconds: f64,
    /// The part of `seconds` in which the reward model ran.
    pub scoring: f64,
}

/// The sources of the rewards of chains, besides the reference answers of problems.
#[derive(Default)]
#[allow(missing_debug_implementations, reason = "trait objects")]
pub struct RewardSources<'a> {
    /// The reward model, which is needed exactly if [`Reward::scores`](super::Reward::scores).
    pub scorer: Option<&'a mut dyn Scorer>,
    /// The verifier of whole chains. Without one, and for problems that it does not judge, the answer is compared with
    /// the problem's reference.
    pub verifier: Option<&'a mut dyn Verifier>,
}

impl RewardSources<'_> {
    /// Returns the same sources for a shorter time.
    pub(super) fn again(&mut self) -> RewardSources<'_> {
        RewardSources {
            scorer: self.scorer.as_deref_mut().map(|scorer| scorer as _),
            verifier: self.verifier.as_deref_mut().map(|verifier| verifier as _),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The settings of the generator, with the seed of the random numbers.
    pub writing: GeneratorConfig,
    /// If true, one greedy chain of each problem is decoded instead.
    pub greedy: bool,
    /// The number of chains for each problem, the size of a group.
    pub chains: usize,
    /// K: the number of completions of each step; 0 for none.
    pub rollouts: usize,
    /// The number of steps at which a chain is cut.
    pub max_steps: usize,
    /// If true, a chain without a marked answer is judged by its last number.
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
            // The search's choice of an answer is ignored. `Choose::Best` is set because the search then scores the
            // chains.
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
                rollouts: (self.rollouts > 0).then(|| RolloutsConfig {
                    count: self.rollouts,
                    ..RolloutsConfig::default()
                }),
                ..SearchConfig::default()
            },
            generator: self.writing.clone(),
        }
    }

    /// Samples the chains of all problems; `rewards` judge the chains and their steps. The random numbers of a
    /// problem depend only on the seed, its id and its text.
    ///
    /// # Errors
    /// A model fails, or the prompt of a problem is too long.
    pub(super) fn roll_out(
        &self,
        generator: &mut LmGenerator,
        mut rewards: RewardSources<'_>,
        problems: Vec<Problem>,
    ) -> Result<Rollouts> {
        let prompts = problems.iter().map(|problem| generator.prompt(problem));
        let prompts: Vec<Vec<u32>> = prompts
            .collect::<std::result::Result<_, _>>()
            .map_err(|error| Error::Rollout(error.to_string()))?;
        let mut results: Vec<Option<ProblemResult>> = vec![None; problems.len()];
        let settings = self.settings(rewards.scorer.is_some());
        let clock = WallClock(Instant::now());
        let rewards = rewards.again();
        let models = Models {
            verifier: rewards.verifier,
            generator,
            scorer: rewards.scorer,
            answers: &MathAnswers,
            clock: &clock,
        };
        let summary = run(models, settings, problems, &mut |_| {}, &mut |result| {
            let index = result.index;
            // Problems finish in any order, but groups must be in the order of problems.
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
            let mut thoughts = result.tree.nodes().filter_map(|(_, node)| node.thought);
            if thoughts.any(|thought| thought.forced > 0) {
                return Err(Error::Rollout(format!(
                    "{}: a thought was closed at its limit, by tokens that nobody sampled and nothing can be learnt from: \
                     raise max_chain_tokens",
                    result.problem.id
                )));
            }
            let values = self.values(&result);
            // Completions of steps give values; only the group's own chains are learnt from.
            let chains = result.finished.iter();
            let chains = chains.filter(|end| !result.tree.node(end.node).is_rollout);
            Ok(Group {
                prompt,
                chains: chains
                    .map(|end| self.chain(&result, end, &values, &mut panel))
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

    /// Returns the verifier's outcome of a chain, or else the comparison of its answer with the reference answer.
    fn verdict(&self, result: &ProblemResult, end: &FinishedChain) -> Verdict {
        if result.verifier.is_some() {
            return chain_verdict(end);
        }
        // The last number of an unfinished chain is there by chance, so it is not an answer.
        let finished = end.finish.is_complete();
        let stated = end.answer.as_deref();
        let given = stated.filter(|_| finished && (self.guesses || !end.is_guess));
        let reference = result.problem.answer.as_deref().unwrap_or_default();
        given.map_or(Verdict::Different, |given| {
            answer::compare(given, reference)
        })
    }

    /// Returns V of each step that was completed: the share of right completions, by the step's node.
    fn values(&self, result: &ProblemResult) -> HashMap<NodeId, f64> {
        let mut right: HashMap<NodeId, f64> = HashMap::new();
        let tree = &result.tree;
        for end in &result.finished {
            // The first step above that is no rollout is the completed one.
            let mut at = end.node;
            while tree.node(at).is_rollout
                && let Some(parent) = tree.node(at).parent
            {
                at = parent;
            }
            if at != end.node {
                let is_right = self.verdict(result, end) == Verdict::Same;
                *right.entry(at).or_default() += f64::from(u8::from(is_right));
            }
        }
        for (node, right) in &mut right {
            *right /= tree.node(*node).rollouts.len() as f64;
        }
        right
    }

    fn chain(
        &self,
        result: &ProblemResult,
        end: &FinishedChain,
        values: &HashMap<NodeId, f64>,
        panel: &mut Panel,
    ) -> Chain {
        let path = result.tree.path(end.node);
        let nodes: Vec<&Node> = path.iter().map(|&id| result.tree.node(id)).collect();
        let mut steps: Vec<Step> = Vec::with_capacity(nodes.len());
        let mut repeated = 0;
        for (i, node) in nodes.iter().enumerate() {
            let text = node.spoken().trim();
            match steps.last_mut() {
                // A node without text is not a step, but its tokens were sampled. The last step counts them.
                Some(last) if text.is_empty() => {
                    last.tokens += node.tokens.len();
                    last.log_prob += f64::from(node.logprob);
                }
                _ => {
                    // Repeated steps are counted because they suggest that the policy pads chains for reward.
                    let earlier = nodes[..i].iter();
                    repeated += usize::from(earlier.map(|n| n.spoken().trim()).any(|t| t == text));
                    steps.push(Step {
                        tokens: node.tokens.len(),
                        log_prob: f64::from(node.logprob),
                        score: node.score,
                        value: values.get(&path[i]).copied(),
                    });
                }
            }
        }
        let finished = end.finish.is_complete();
        let verdict = self.verdict(result, end);
        if let Some(last) = steps.last_mut().filter(|_| self.rollouts > 0) {
            last.value = Some(f64::from(u8::from(verdict == Verdict::Same)));
        }
        let is_unsound = verdict == Verdict::Same && {
            let texts = result.tree.steps(end.node).map(|node| node.spoken().trim());
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
