//! Chains that are given, on the bundled models: searches that go on from their first steps.

use beamgen::strategy::{ChainTree, NodeId};
use beamgen::{Config, Problem, ProblemResult, Solver, StrategyKind, bundled};

fn solver(change: impl FnOnce(&mut Config)) -> Solver {
    let mut config = Config::default();
    (config.search.n, config.search.m) = (8, 4);
    change(&mut config);
    let built = Solver::builder().config(config).build();
    built.expect("the bundled models")
}

fn sample(count: usize) -> Vec<Problem> {
    let mut problems = bundled::sample().expect("the sample").problems;
    problems.truncate(count);
    problems
}

fn solve_all(solver: &mut Solver, problems: Vec<Problem>) -> Vec<ProblemResult> {
    let mut results = Vec::new();
    let run = solver.solve_all(problems, |result| results.push(result));
    run.expect("a run");
    results.sort_by_key(|result| result.index);
    results
}

/// Problems that give the first `count` steps of a chain each.
fn with_steps(results: &[ProblemResult], count: usize) -> Vec<Problem> {
    let given = |result: &ProblemResult| Problem {
        steps: result.steps()[..count]
            .iter()
            .map(|step| step.text.trim_end().to_owned())
            .collect(),
        ..result.problem.clone()
    };
    results.iter().map(given).collect()
}

#[test]
fn a_chain_goes_on_from_given_steps_bit_for_bit_as_from_its_own() {
    let mut solver = solver(|config| {
        config.search.strategy = StrategyKind::BEST_OF_N;
        (config.search.n, config.search.m) = (1, 1);
    });
    let whole = solve_all(&mut solver, sample(6));
    for count in 1..3 {
        let again = solve_all(&mut solver, with_steps(&whole, count));
        for (a, b) in whole.iter().zip(&again) {
            assert_eq!(b.error, None);
            assert_eq!(a.tree.len(), b.tree.len());
            for ((_, a), (id, b)) in a.tree.nodes().zip(b.tree.nodes()) {
                assert_eq!((&a.text, &a.tokens), (&b.text, &b.tokens), "{id:?}");
                assert_eq!((a.stream, a.state), (b.stream, b.state), "{id:?}");
                assert_eq!(a.score.map(f32::to_bits), b.score.map(f32::to_bits));
                if id.0 as usize > count {
                    assert_eq!(a.logprob.to_bits(), b.logprob.to_bits());
                }
            }
            let given = a.tree.token_count(NodeId(count as u32)) as u64;
            let (spent, all) = (&b.ledger, &a.ledger);
            assert_eq!(spent.prompt_tokens, all.prompt_tokens + given);
            assert_eq!(spent.generated_tokens, all.generated_tokens - given);
        }
    }
}

#[test]
fn given_steps_give_the_same_result_alone_among_others_and_with_little_memory() {
    let single = |config: &mut Config| config.search.n = 4;
    let whole = solve_all(&mut solver(single), sample(8));
    let mut problems = with_steps(&whole, 2);
    for (problem, own) in problems.iter_mut().zip(sample(8)).step_by(3) {
        *problem = own;
    }
    let run = |in_flight: usize, kv_bytes: usize| {
        let mut solver = solver(|config| {
            config.search.in_flight = in_flight;
            config.engine.kv_bytes = kv_bytes;
        });
        let mut results = Vec::new();
        let run = solver.solve_all(problems.clone(), |result| results.push(result));
        results.sort_by_key(|result| result.index);
        (results, run.expect("a run").restarts)
    };
    let plenty = Config::default().engine.kv_bytes;
    let (alone, _) = run(1, plenty);
    let same = |others: &[ProblemResult]| {
        let mut compared = 0;
        for (alone, other) in alone.iter().zip(others) {
            assert_eq!(other.error, None);
            if other.lost_to_memory == 0 {
                assert!(alone.tree == other.tree, "{}", alone.problem.id);
                assert_eq!((&alone.answer, alone.score), (&other.answer, other.score));
                compared += 1;
            }
        }
        compared
    };
    assert_eq!(same(&run(8, plenty).0), 8);
    let (mut restarts, mut compared) = (0, 0);
    for tokens in [400, 600, 800, 1000] {
        // Room for one chain of the reward model, and for so many tokens of the generator: each
        // step in the making is promised 256.
        let of_a_token = |layers: usize| layers * 2 * 128 * 4;
        let (results, again) = run(8, 544 * of_a_token(6) + tokens * of_a_token(4));
        compared += same(&results);
        restarts += again;
    }
    assert!(
        restarts > 0 && compared > 8,
        "{restarts} restarts, {compared} compared"
    );
}

#[test]
fn a_whole_chain_is_scored_and_nothing_is_sampled() {
    let mut solver = solver(|_| ());
    let solved = solver.solve(&sample(1)[0]).expect("solved");
    let count = solved.steps().len();
    let given = with_steps(std::slice::from_ref(&solved), count).remove(0);
    let again = solver.solve(given).expect("solved");
    assert_eq!((&again.answer, again.score), (&solved.answer, solved.score));
    assert_eq!(again.ledger.generated_tokens, 0);
    assert_eq!(again.tree.node(ChainTree::ROOT).children.len(), 1);
}

#[test]
fn steps_that_leave_no_room_are_refused() {
    let mut solver = solver(|config| config.generator.max_chain_tokens = 12);
    let problem = Problem {
        steps: vec!["1 + 1 = 2".into(); 9],
        ..sample(1).remove(0)
    };
    let error = solver.solve(problem).expect_err("too long").to_string();
    assert!(
        error.contains("tokens of steps") && error.contains("max_chain_tokens"),
        "{error}"
    );
}
