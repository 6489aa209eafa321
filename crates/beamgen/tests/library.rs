//! The library as a program uses it, on the bundled models.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use beamgen::generator::{GenError, Memory};
use beamgen::models::{ComputeType, KvType, WeightType};
use beamgen::scorer::{ScoreError, ScoreId, ScoreItem, Scored, Scorer, ScorerKind};
use beamgen::{
    ChainEvent, Config, Error, Event, Problem, ProblemResult, Solver, StepGenerator, StrategyKind,
    bundled,
};

fn sample(count: usize) -> Vec<Problem> {
    let mut problems = bundled::sample().expect("the sample").problems;
    problems.truncate(count);
    problems
}

fn small() -> Config {
    let mut config = Config::default();
    (config.search.n, config.search.m) = (8, 4);
    config
}

fn solver(config: Config) -> Solver {
    Solver::builder()
        .config(config)
        .build()
        .expect("the bundled models")
}

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/abacus")
}

/// Returns the parts of a result that are the same on every machine.
fn outcome(
    result: ProblemResult,
) -> (
    String,
    Option<String>,
    Option<f32>,
    beamgen::strategy::ChainTree,
) {
    (result.problem.id, result.answer, result.score, result.tree)
}

fn solve_all(solver: &mut Solver, problems: Vec<Problem>) -> Vec<ProblemResult> {
    let mut results = Vec::new();
    solver
        .solve_all(problems, |result| results.push(result))
        .expect("a run");
    results.sort_by_key(|result| result.index);
    results
}

#[test]
fn many_at_once_are_as_one_by_one() {
    let mut solver = solver(small());
    let together = solve_all(&mut solver, sample(6));
    for (problem, result) in sample(6).iter().zip(together) {
        let alone = solver.solve(problem).expect("solved");
        assert_eq!(outcome(alone), outcome(result));
    }
}

#[test]
fn directories_are_as_the_bundled_pair() {
    let mut of_files = Solver::builder()
        .config(small())
        .generator(models().join("generator"))
        .prm(models().join("prm"))
        .build()
        .expect("the same files");
    let mut of_bytes = solver(small());
    assert_eq!(
        of_files.identity(),
        of_bytes.identity(),
        "a run can be resumed with either"
    );
    for problem in sample(2) {
        let files = of_files.solve(&problem).expect("solved");
        assert_eq!(
            outcome(files),
            outcome(of_bytes.solve(&problem).expect("solved"))
        );
    }
}

/// Narrower numbers give other results, so a run cannot be resumed with them.
#[test]
fn rounded_weights_are_another_run() {
    let identity_of = |dtype, compute| {
        let mut config = small();
        (config.models.dtype, config.models.compute) = (dtype, compute);
        solver(config).identity()
    };
    let identity = |dtype| identity_of(dtype, ComputeType::Auto);
    let exact = identity(WeightType::Auto);
    assert_eq!(exact, identity(WeightType::F32));
    assert_ne!(exact, identity(WeightType::Bf16));
    assert_ne!(identity(WeightType::F16), identity(WeightType::Bf16));
    assert_ne!(exact, identity(WeightType::Int8));
    assert_eq!(exact, identity_of(WeightType::Auto, ComputeType::F32));
    let rounded = |compute| identity_of(WeightType::Bf16, compute);
    let [pairs, tiles] = [ComputeType::Bf16Pairs, ComputeType::Bf16Tiles].map(rounded);
    assert!(pairs != identity(WeightType::Bf16) && pairs != tiles);
    let fastest = rounded(ComputeType::Bf16);
    assert!(fastest == pairs || fastest == tiles);
    // With dtype auto, an embedding of its own keeps the checkpoint's numbers.
    assert_ne!(pairs, identity_of(WeightType::Auto, ComputeType::Bf16Pairs));
}

#[test]
fn rounded_keys_and_values_are_another_run_that_solves() {
    let mut ids = Vec::new();
    for kv_dtype in [KvType::F32, KvType::Bf16, KvType::F16] {
        let mut config = small();
        config.engine.kv_dtype = kv_dtype;
        let mut solver = solver(config);
        ids.push(solver.identity());
        let solved = solve_all(&mut solver, sample(4));
        assert!(solved.iter().filter(|r| r.answer.is_some()).count() >= 3);
    }
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
}

#[test]
fn a_solver_tells_which_problems_its_bundled_models_do_not_know() {
    let foreign = Problem {
        text: "What is 17 times 23?".to_owned(),
        ..sample(1).remove(0)
    };
    let bundled = solver(small());
    assert!(bundled.is_foreign(&foreign));
    assert!(!bundled.is_foreign(&sample(1)[0]));
    // Models of one's own may know anything.
    let mut config = small();
    config.models.generator = Some(models().join("generator"));
    config.models.prm = Some(models().join("prm"));
    assert!(!solver(config).is_foreign(&foreign));
}

#[test]
fn events_tell_the_whole_search() {
    let mut solver = solver(small());
    let (mut started, mut closed, mut scored, mut finished, mut done) = (0, 0, 0, 0, 0);
    let mut results = Vec::new();
    let summary = solver
        .run(
            sample(3),
            &mut |event| match event {
                Event::ProblemStarted { .. } => started += 1,
                Event::Chain {
                    tree, node, what, ..
                } => match what {
                    ChainEvent::Closed => {
                        assert!(!tree.node(node).tokens.is_empty());
                        closed += 1;
                    }
                    ChainEvent::Scored(score) => {
                        assert!((0.0..=1.0).contains(&score));
                        scored += 1;
                    }
                    ChainEvent::Finished(_) => finished += 1,
                    _ => {}
                },
                Event::ProblemDone { .. } => done += 1,
                _ => {}
            },
            &mut |result| {
                results.push(result);
                ControlFlow::Continue(())
            },
        )
        .expect("a run");
    assert_eq!(
        (started, done, results.len(), summary.problems),
        (3, 3, 3, 3)
    );
    let steps: usize = results.iter().map(|result| result.tree.len() - 1).sum();
    assert!(
        closed >= steps,
        "{closed} steps closed, {steps} are in the trees"
    );
    assert!(scored > 0 && finished > 0);
    // The prompt is read once for a problem, and never again.
    for result in &results {
        assert!(result.ledger.prompt_tokens < 512 && result.ledger.generated_tokens > 0);
    }
}

#[test]
fn a_run_can_be_stopped() {
    let mut config = small();
    config.search.in_flight = 1;
    let mut solver = solver(config);
    let mut seen = 0;
    let summary = solver
        .run(sample(5), &mut |_| {}, &mut |_| {
            seen += 1;
            if seen == 2 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .expect("a run");
    assert_eq!((seen, summary.problems), (2, 2));
    // The caches are empty again: the next run is as the first would have been.
    let problem = &sample(1)[0];
    let again = solver.solve(problem).expect("solved");
    let mut fresh = Solver::builder()
        .config(small())
        .build()
        .expect("the bundled models");
    assert_eq!(
        outcome(again),
        outcome(fresh.solve(problem).expect("solved"))
    );
}

/// Every step is as good as every other.
struct Indifferent(u64);

impl Scorer for Indifferent {
    fn open(&mut self, _: &Problem, _: u64) -> Result<ScoreId, ScoreError> {
        self.0 += 1;
        Ok(ScoreId(self.0))
    }

    fn fork(&mut self, _: ScoreId) -> ScoreId {
        self.0 += 1;
        ScoreId(self.0)
    }

    fn release(&mut self, _: ScoreId) {}

    fn score(
        &mut self,
        items: &[ScoreItem<'_>],
    ) -> Result<Vec<Result<Scored, ScoreError>>, ScoreError> {
        let same = |item: &ScoreItem<'_>| Scored::of(item.steps.iter().map(|_| 0.5));
        Ok(items.iter().map(|item| Ok(same(item))).collect())
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}

#[test]
fn a_scorer_of_ones_own() {
    let mut config = small();
    config.models.scorer = ScorerKind::Exact;
    let mut exact = Solver::builder().config(config.clone()).build().unwrap();
    let result = exact.solve(&sample(1)[0]).expect("solved");
    let is_exact = |score: Option<f32>| score == Some(0.0) || score == Some(1.0);
    assert!(result.steps().iter().all(|step| is_exact(step.score)));
    let builder = Solver::builder()
        .config(config)
        .custom_scorer("indifferent", Indifferent(0));
    let mut solver = builder.build().expect("the bundled generator");
    let result = solver.solve(&sample(1)[0]).expect("solved");
    assert!(result.steps().iter().all(|step| step.score == Some(0.5)));
    assert_eq!(result.ledger.scored_tokens, 0);
}

#[test]
fn a_text_a_problem_and_a_request_are_solved_alike() {
    let problem = Problem::from(sample(1)[0].text.as_str());
    let expected = outcome(beamgen::solve(&problem).expect("solved"));
    assert!(expected.1.is_some());
    let mut solver = Solver::builder().build().expect("the bundled models");
    let text = problem.text.clone();
    let request = solver.request(text.as_str());
    for result in [
        solver.solve(text.as_str()),
        solver.solve(text),
        solver.solve(problem),
        solver.solve(request),
    ] {
        assert_eq!(outcome(result.expect("solved")), expected);
    }
}

#[test]
fn a_generator_of_ones_own_is_a_function() {
    let solver = || {
        let write = |problem: &Problem, steps: &[&str], seed: u64| match steps.len() {
            2 => format!("The answer is {}.", problem.text.len()),
            _ => format!("{}\n", seed % 100),
        };
        let score = |_: &Problem, steps: &[&str]| 1.0 / (1.0 + steps[steps.len() - 1].len() as f32);
        let builder = Solver::builder()
            .config(small())
            .step_scorer("short", score);
        builder.step_generator("counts", write).build().unwrap()
    };
    let alone = sample(4)
        .into_iter()
        .map(|problem| solver().solve(problem).unwrap());
    let alone: Vec<_> = alone.map(outcome).collect();
    for (at, result) in solve_all(&mut solver(), sample(4)).into_iter().enumerate() {
        let expected = sample(4)[at].text.len().to_string();
        assert_eq!(result.answer, Some(expected));
        assert!(result.steps().len() == 3 && result.ledger.generated_tokens > 8);
        assert_eq!(outcome(result), alone[at]);
    }
    let mut other = solver();
    let seeded = other.request(&sample(1)[0]).seed(5);
    assert_ne!(outcome(other.solve(seeded).unwrap()).3, alone[0].3);
    assert_eq!(other.identity()["models"]["generator"], "counts");
}

#[test]
fn a_generator_of_ones_own_that_fails_ends_its_own_problem_alone() {
    struct Picky;
    impl StepGenerator for Picky {
        fn next_step(&mut self, of: &Problem, _: &[&str], _: u64) -> Result<String, GenError> {
            if of.id == "bad" {
                return Err(GenError::Failed("no idea".into()));
            }
            Ok("The answer is 4.".to_owned())
        }
    }
    let builder = Solver::builder().step_generator("picky", Picky);
    let builder = builder.step_scorer("even", |_: &Problem, _: &[&str]| 0.5);
    let mut solver = builder.build().expect("no model");
    let mut problems = sample(3);
    problems[1].id = "bad".to_owned();
    let results = solve_all(&mut solver, problems);
    let answers: Vec<_> = results
        .iter()
        .map(|result| result.answer.as_deref())
        .collect();
    assert_eq!(answers, [Some("4"), None, Some("4")]);
    let error = results[1].error.as_deref();
    assert_eq!(error, Some("the generator failed: no idea"));
}

#[test]
fn greedy_takes_the_likeliest_tokens_whatever_the_seed() {
    let mut config = small();
    config.search.strategy = StrategyKind::GREEDY;
    let mut answers = [1, 2].map(|seed| {
        let mut solver = Solver::builder()
            .config(config.clone())
            .seed(seed)
            .build()
            .unwrap();
        outcome(solver.solve(&sample(1)[0]).expect("solved"))
    });
    answers.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn what_cannot_be_solved_is_refused() {
    let mut solver = solver(small());
    let long = "Mia has 34 pens. ".repeat(1000);
    let error = solver
        .solve(long.as_str())
        .expect_err("longer than the context");
    assert!(
        matches!(error, Error::Refused(_)) && error.is_input(),
        "{error}"
    );
    let problem = Problem {
        id: "1".to_owned(),
        text: long,
        answer: None,
        ..Problem::default()
    };
    assert_eq!(
        solver.validate(&problem).expect_err("too long").to_string(),
        error.to_string()
    );
    let Err(Error::Refused(cause)) = solver.validate(&problem) else {
        panic!("it was taken");
    };
    let cause = cause.downcast_ref::<GenError>();
    assert!(
        matches!(cause, Some(GenError::TextTooLong { .. })),
        "{cause:?}"
    );
    assert!(solver.validate(&sample(1)[0]).is_ok());
    // In a run of many it stops nobody.
    let mut problems = sample(2);
    problems.insert(
        1,
        Problem {
            id: "long".to_owned(),
            ..problem
        },
    );
    let results = solve_all(&mut solver, problems);
    let refused: Vec<bool> = results
        .iter()
        .map(|result| result.error.is_some())
        .collect();
    assert_eq!(refused, [false, true, false]);
}

#[test]
fn a_solver_can_go_to_another_thread() {
    let mut solver = solver(small());
    let problem = sample(1).remove(0);
    let there = std::thread::spawn(move || solver.solve(&problem).map(outcome))
        .join()
        .unwrap();
    assert!(there.is_ok());
}
