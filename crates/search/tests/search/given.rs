//! Problems with given steps: chains continue from given steps as from sampled ones.

use beamgen_search::*;

use crate::every_strategy::{configs, same_whatever_is_in_flight};
use crate::scripted::*;
use crate::stating::Found;

/// Makes problems, every second of which has two given steps.
fn some_given(count: usize) -> Vec<Problem> {
    let mut problems = problems(count);
    for problem in problems.iter_mut().step_by(2) {
        problem.steps = vec!["3 at 0\n".into(), "1 at 1\n".into()];
    }
    problems
}

fn alone(config: &SearchConfig, problem: Problem) -> ProblemResult {
    let mut scripts = Scripted::random();
    let result = scripts.solve(config, vec![problem]).0.remove(0);
    scripts.assert_empty();
    assert_eq!(
        result.ledger.generated_tokens as usize,
        scripts.generator.tokens_sampled
    );
    result
}

#[test]
fn a_chain_goes_on_from_its_own_first_steps_as_it_did() {
    let mut compared = 0;
    for problem in problems(20) {
        let whole = alone(&best_of(1), problem.clone());
        let path = whole.tree.path(whole.finished[0].node);
        for count in 1..path.len() {
            let text = |id: &NodeId| whole.tree.node(*id).text.clone();
            let steps = path[..count].iter().map(text).collect();
            let problem = Problem {
                steps,
                ..problem.clone()
            };
            let again = alone(&best_of(1), problem);
            let nodes = || whole.tree.nodes().zip(again.tree.nodes());
            assert_eq!(whole.tree.len(), again.tree.len());
            for ((_, a), (id, b)) in nodes() {
                let what = |node: &Node| (node.text.clone(), node.state, node.stream, node.score);
                assert_eq!(what(a), what(b), "{id:?} after {count}");
            }
            let given: usize = (1..=count as u32)
                .map(|id| again.tree.node(NodeId(id)).tokens.len())
                .sum();
            let prompt = (PROMPT_TOKENS + given) as u64;
            assert_eq!(again.ledger.prompt_tokens, prompt);
            assert_eq!(whole.score, again.score);
            compared += 1;
        }
    }
    assert!(compared > 40, "{compared}");
}

#[test]
fn every_strategy_gives_the_same_result_whatever_else_is_in_flight() {
    for config in configs() {
        for capacity in [usize::MAX, 1500] {
            same_whatever_is_in_flight(&config, capacity, &some_given(12));
        }
        let limited = SearchConfig {
            budget_tokens: 60,
            rollouts: None,
            ..config
        };
        same_whatever_is_in_flight(&limited, usize::MAX, &some_given(12));
    }
}

#[test]
fn every_strategy_searches_below_the_given_steps_and_scores_them() {
    for config in configs() {
        let mut complete = 0;
        for problem in some_given(10).into_iter().step_by(2) {
            let result = alone(&config, problem);
            let root = result.tree.node(ChainTree::ROOT);
            assert_eq!(root.children, [NodeId(1)], "{config:?}");
            assert_eq!(result.tree.node(NodeId(1)).children, [NodeId(2)]);
            for chain in result.finished.iter().filter(|c| c.finish.is_complete()) {
                complete += 1;
                assert_eq!(result.tree.path(chain.node)[..2], [NodeId(1), NodeId(2)]);
                let steps = result.tree.steps(chain.node);
                for node in steps.filter(|_| config.uses_scores() && !config.rolls_out()) {
                    let before = result.tree.text(node.parent.unwrap());
                    let score = random_score(&result.problem, &before, &node.text);
                    assert_eq!(node.score, Some(score), "{config:?}");
                }
            }
        }
        assert!(complete > 0, "{config:?}");
    }
}

#[test]
fn given_steps_that_state_the_answer_are_a_whole_chain() {
    for config in configs() {
        let mut problem = some_given(1).remove(0);
        problem.steps.push("The answer is 7.\n".into());
        let mut scripts = Scripted::random();
        let models = Models {
            verifier: None,
            answers: &Found,
            ..scripts.models()
        };
        let mut results = Vec::new();
        let problems = [problem.clone()];
        run(models, &config, problems, &mut |_| (), &mut |result| {
            results.push(result);
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        let result = results.remove(0);
        scripts.assert_empty();
        assert_eq!(result.answer.as_deref(), Some("7"), "{config:?}");
        let ends: Vec<_> = result.finished.iter().map(|c| (c.node, c.finish)).collect();
        assert_eq!(ends, [(NodeId(3), Finish::Answer)]);
        assert_eq!(result.score.is_some(), config.uses_scores(), "{config:?}");
        let spent = (result.ledger.prompt_tokens, result.ledger.generated_tokens);
        assert_eq!((spent, scripts.generator.passes), ((0, 0), 0));
    }
}

/// A generator that ignores given steps.
struct Deaf<'a>(ScriptedGenerator<'a>);

impl Generator for Deaf<'_> {
    fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError> {
        let opened = self.0.open(problem, key, settings)?;
        Ok(OpenedProblem {
            given: Vec::new(),
            ..opened
        })
    }

    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        self.0.try_start(source, plan)
    }

    fn release(&mut self, chain: ChainId) -> usize {
        self.0.release(chain)
    }

    fn pass(&mut self) -> Result<PassOutput, GenError> {
        self.0.pass()
    }

    fn active(&self) -> usize {
        self.0.active()
    }

    fn memory(&self) -> Memory {
        self.0.memory()
    }
}

#[test]
fn a_generator_that_ignores_given_steps_fails_those_problems_alone() {
    let mut generator = Deaf(ScriptedGenerator::new(random_said));
    let mut scorer = ScriptedScorer::new(random_score);
    let models = Models {
        verifier: None,
        generator: &mut generator,
        scorer: Some(&mut scorer),
        answers: &Stated,
        clock: &StoppedClock,
    };
    let mut failed = Vec::new();
    let problems = some_given(4);
    run(models, &beam(4, 2), problems, &mut |_| (), &mut |result| {
        failed.push((result.index, result.error.is_some()));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    failed.sort_unstable();
    assert_eq!(failed, [(0, true), (1, false), (2, true), (3, false)]);
    assert_eq!((generator.0.chains_held(), scorer.chains_held()), (0, 0));
}

#[test]
fn a_generator_that_ignores_a_prefix_fails_the_problem() {
    let problem = Problem {
        prefix: "So".into(),
        ..problems(1).remove(0)
    };
    let error = alone(&beam(4, 2), problem).error.unwrap();
    assert!(error.contains("a prefix"), "{error}");
}

#[test]
fn more_given_steps_than_a_chain_may_have_are_refused() {
    let config = SearchConfig {
        max_steps: 2,
        ..beam(4, 2)
    };
    let error = alone(&config, some_given(1).remove(0)).error.unwrap();
    assert!(
        error.contains("gives 2 steps") && error.contains("max_steps"),
        "{error}"
    );
    let config = SearchConfig {
        max_steps: 3,
        ..config
    };
    let result = alone(&config, some_given(1).remove(0));
    assert_eq!(result.error, None);
    assert!(result.tree.nodes().all(|(_, node)| node.depth <= 3));
}
