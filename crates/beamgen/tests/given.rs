//! Chains that are given, on the bundled models: searches that go on from their first steps, and
//! answers that are mended and guarded.

use beamgen::mend::{self, Cause, Guard, Guarded, Guarding, Refine, Refined, Refining, Verdict};
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

/// Answers of single chains, some of them wrong, each as a problem with its steps.
fn answers(count: usize) -> Vec<Problem> {
    let mut single = solver(|config| {
        config.search.strategy = StrategyKind::BEST_OF_N;
        (config.search.n, config.search.m) = (1, 1);
    });
    let whole = |result: ProblemResult| {
        let steps = result.steps().len();
        with_steps(std::slice::from_ref(&result), steps).remove(0)
    };
    let results = solve_all(&mut single, sample(count));
    results.into_iter().map(whole).collect()
}

fn refined(solver: &mut Solver, problems: &[Problem], how: Refine) -> Vec<Refined> {
    let task = |problem: &Problem| Refining::new(problem.clone(), solver.settings(), how);
    let mut tasks: Vec<Refining> = problems.iter().map(task).collect();
    mend::run(solver, &mut tasks).expect("a run");
    tasks.into_iter().map(Refining::done).collect()
}

#[test]
fn refining_keeps_the_steps_before_the_weakest_and_what_scores_better() {
    let answers = answers(10);
    let mut solver = solver(|_| ());
    let how = Refine {
        rounds: 2,
        below: None,
    };
    let all = refined(&mut solver, &answers, how);
    let (mut mended, mut right) = (0, 0);
    for (answer, one) in answers.iter().zip(&all) {
        let (before, after) = (one.before.as_ref().unwrap(), one.after.as_ref().unwrap());
        assert_eq!((&one.error, &before.steps), (&None, &answer.steps));
        assert!(after.score >= before.score && one.rounds.len() <= 2);
        let weakest = one.rounds[0].step - 1;
        let scores: Vec<f32> = before.scores.iter().flatten().copied().collect();
        assert!(scores.iter().all(|score| *score >= scores[weakest]));
        if one.rounds[0].better && !one.rounds[1].better {
            assert_eq!(after.steps[..weakest], before.steps[..weakest]);
            assert_ne!(after.steps[weakest..], before.steps[weakest..]);
        }
        let kept = |line: &&String| line.starts_with("  ");
        let kept = one.difference.iter().filter(kept).count();
        let lines = before.steps.len() + after.steps.len() - kept;
        assert_eq!(one.difference.len(), lines);
        assert_eq!(one.changed, kept < before.steps.len());
        mended += usize::from(before.correct == Some(false) && after.correct == Some(true));
        right += usize::from(before.correct == Some(true));
        assert!(before.correct == Some(false) || after.correct == Some(true));
    }
    assert!(mended > 2 && right > 0, "{mended} mended, {right} right");
    // The same alone, and by a service.
    let alone = refined(&mut solver, &answers[1..2], how).remove(0);
    assert_eq!(
        (&alone.after, &alone.rounds),
        (&all[1].after, &all[1].rounds)
    );
    let settings = solver.settings();
    let service = solver.spawn(beamgen::service::ServiceOptions::default());
    let mut task = [Refining::new(answers[1].clone(), settings, how)];
    mend::run_by(&service, &mut task).expect("a run");
    let [task] = task;
    assert_eq!(task.done().after, all[1].after);
}

#[test]
fn below_a_bound_nothing_or_the_first_step_is_written_again() {
    let answers = answers(8);
    let mut solver = solver(|_| ());
    let how = |below| Refine {
        rounds: 1,
        below: Some(below),
    };
    let none = refined(&mut solver, &answers, how(0.0));
    assert!(none.iter().all(|one| one.rounds.is_empty() && !one.changed));
    let all = refined(&mut solver, &answers, how(0.5));
    for one in &all {
        let scores = &one.before.as_ref().unwrap().scores;
        let first = scores.iter().position(|score| score.unwrap() < 0.5);
        assert_eq!(one.rounds.first().map(|round| round.step - 1), first);
    }
    let empty = Problem {
        steps: Vec::new(),
        ..answers[0].clone()
    };
    let error = refined(&mut solver, &[empty], how(0.5)).remove(0).error;
    assert!(error.is_some_and(|error| error.contains("no steps")));
}

fn guarded(solver: &mut Solver, problem: &Problem, how: Guard) -> Guarded {
    let is_foreign = solver.is_foreign(problem);
    let config = solver.config();
    let task = Guarding::new(problem.clone(), config, solver.settings(), how, is_foreign);
    let mut tasks = [task];
    mend::run(solver, &mut tasks).expect("a run");
    let [task] = tasks;
    task.done()
}

#[test]
fn a_guard_accepts_mends_or_withholds_and_says_why() {
    let mut solver = solver(|_| ());
    let problem = |steps: &[&str]| {
        Problem {
        text: "Ana has 16 shells. Kim has 1 more shells than Ana. Ben has 10 fewer shells than Kim. How many \
               shells does Ben have?"
            .into(),
        steps: steps.iter().map(|step| (*step).to_owned()).collect(),
        ..Problem::from("")
    }
    };
    let right = [
        "Ana has 16 shells: 16.",
        "Kim has 1 more shells than Ana: 16 + 1 = 17.",
        "Ben has 10 fewer shells than Kim: 17 - 10 = 7.",
        "The answer is 7.",
    ];
    let with = |at: usize, step| {
        let mut steps = right;
        steps[at] = step;
        problem(&steps)
    };
    let silent = Guard {
        bound: 0.0,
        samples: 0,
        rounds: 0,
    };
    let codes = |guarded: &Guarded| -> Vec<Cause> {
        guarded.reasons.iter().map(|found| found.code).collect()
    };

    let accepted = guarded(&mut solver, &problem(&right), Guard::default());
    assert_eq!(
        (accepted.verdict, codes(&accepted)),
        (Some(Verdict::Accept), vec![])
    );
    assert_eq!(
        (accepted.answer.as_deref(), accepted.votes[0].0.as_str()),
        (Some("7"), "7")
    );

    let unsure = guarded(
        &mut solver,
        &problem(&right),
        Guard {
            bound: 0.9999,
            ..silent
        },
    );
    assert_eq!(
        (unsure.verdict, codes(&unsure)),
        (Some(Verdict::Withhold), vec![Cause::Unsure])
    );
    assert_eq!((unsure.reasons[0].step, unsure.answer), (Some(3), None));

    let plus = with(2, "Ben has 10 fewer shells than Kim: 17 + 10 = 27.");
    let low = guarded(
        &mut solver,
        &plus,
        Guard {
            bound: 0.5,
            ..silent
        },
    );
    assert_eq!(codes(&low), [Cause::Unsound, Cause::Unsure]);

    let sum = with(1, "Kim has 1 more shells than Ana: 16 + 1 = 18.");
    let unsound = guarded(&mut solver, &sum, silent);
    assert_eq!(codes(&unsound), [Cause::Unsound]);
    assert_eq!(unsound.reasons[0].step, Some(2));

    // The exact checker says nothing of a line in other words.
    let other = with(3, "So it is \\boxed{16}.");
    let split = guarded(
        &mut solver,
        &other,
        Guard {
            samples: 8,
            ..silent
        },
    );
    assert_eq!(codes(&split), [Cause::SplitVote]);

    let unfinished = guarded(&mut solver, &problem(&right[..3]), silent);
    assert_eq!(codes(&unfinished), [Cause::Unfinished]);

    let foreign = Problem {
        steps: vec!["The answer is 5.".into()],
        ..Problem::from("What is the largest prime below 7?")
    };
    let foreign = guarded(
        &mut solver,
        &foreign,
        Guard {
            rounds: 3,
            ..silent
        },
    );
    assert_eq!(codes(&foreign), [Cause::UnlikeTraining]);
    assert_eq!(
        (foreign.verdict, foreign.mended),
        (Some(Verdict::Withhold), None)
    );
    assert_eq!((foreign.given, foreign.cost.scored_tokens), (None, 0));

    for broken in [&plus, &sum, &problem(&right[..3])] {
        let how = Guard {
            rounds: 3,
            ..Guard::default()
        };
        let mended = guarded(&mut solver, broken, how);
        assert_eq!(
            (mended.verdict, mended.answer.as_deref()),
            (Some(Verdict::Mend), Some("7"))
        );
        assert!(mended.difference.iter().any(|line| line.starts_with('+')));
    }
}

#[test]
fn a_whole_answer_is_cut_as_a_chain_with_its_text() {
    let settings = Config::default().generator;
    let text = "Ana has 16 shells: 16.\n\nKim has 17.\nThe answer is 17.";
    let steps = ["Ana has 16 shells: 16.", "Kim has 17.", "The answer is 17."];
    assert_eq!(mend::steps_of(text, &settings), steps);
    let paragraphs = beamgen::generator::GeneratorConfig {
        boundaries: vec!["\n\n".into()],
        ..settings
    };
    let steps = [steps[0], "Kim has 17.\nThe answer is 17."];
    assert_eq!(mend::steps_of(text, &paragraphs), steps);
}
