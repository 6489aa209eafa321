//! A solver on a thread of its own, with requests from many threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use beamgen::launcher::Launcher;
use beamgen::result::Stopped;
use beamgen::scorer::{ScorerKind, score_chains};
use beamgen::service::{CancelToken, ServiceError, ServiceOptions, Ticket};
use beamgen::{Choose, Problem, ProblemResult, Progress, Request, Settings, Solver, StrategyKind};

fn solver() -> Solver {
    Solver::builder().build().unwrap()
}

fn problems(count: usize) -> Vec<Problem> {
    let mut problems = beamgen::bundled::sample().unwrap().problems;
    problems.truncate(count);
    problems
}

/// Three ways to search: a beam, a vote, best-of-N with another seed and temperature.
fn ways(solver: &Solver) -> Vec<Settings> {
    let mut beam = solver.settings();
    (beam.search.n, beam.search.m) = (8, 2);
    let mut vote = solver.settings();
    vote.search.strategy = StrategyKind::BEST_OF_N;
    (vote.search.n, vote.search.choose) = (4, Some(Choose::Majority));
    let mut best = vote.clone();
    best.search.choose = Some(Choose::Best);
    best.generator.seed = 7;
    best.generator.sampling.temperature = Some(0.7);
    vec![beam, vote, best]
}

fn essence(result: &ProblemResult) -> String {
    serde_json::to_string(&(&result.tree, &result.answer, &result.score)).unwrap()
}

#[test]
fn results_are_those_alone_whatever_else_runs_is_cancelled_or_times_out() {
    let problems = problems(12);
    let mut alone = solver();
    let ways = ways(&alone);
    let mut expected = BTreeMap::new();
    for (at, problem) in problems.iter().enumerate() {
        for (way, settings) in ways.iter().enumerate() {
            let result = alone
                .solve(Request::new(problem, settings.clone()))
                .unwrap();
            expected.insert((at, way), essence(&result));
        }
    }

    let options = ServiceOptions {
        queue: 8,
        events: 4,
    };
    let service = solver().spawn(options);
    let full = AtomicUsize::new(0);
    let (mut equal, mut cancelled, mut late) = (0, 0, 0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (service, problems, ways) = (service.clone(), &problems, &ways);
                let full = &full;
                scope.spawn(move || {
                    let mut tickets = Vec::new();
                    for i in thread * 50..(thread + 1) * 50 {
                        let (at, way) = (i % problems.len(), i / problems.len() % ways.len());
                        let submit = || {
                            let mut request = Request::new(&problems[at], ways[way].clone());
                            if i % 10 == 3 {
                                request = request.timeout(Duration::ZERO);
                            }
                            service.submit(request)
                        };
                        let ticket = loop {
                            match submit() {
                                Ok(ticket) => break ticket,
                                Err(ServiceError::Full { waiting }) => {
                                    assert_eq!(waiting, 8);
                                    full.fetch_add(1, Ordering::Relaxed);
                                    std::thread::sleep(Duration::from_millis(1));
                                }
                                Err(error) => panic!("{error}"),
                            }
                        };
                        if i % 4 == 2 {
                            ticket.cancel();
                        }
                        tickets.push(((at, way), ticket));
                    }
                    let wait = |(key, ticket): ((usize, usize), beamgen::Ticket)| {
                        (key, ticket.wait().unwrap())
                    };
                    tickets.into_iter().map(wait).collect::<Vec<_>>()
                })
            })
            .collect();
        for thread in threads {
            for (key, result) in thread.join().unwrap() {
                match result.stopped {
                    None => {
                        assert_eq!(essence(&result), expected[&key]);
                        equal += 1;
                    }
                    Some(Stopped::Cancelled) => cancelled += 1,
                    Some(Stopped::Deadline) => late += 1,
                    Some(_) => unreachable!(),
                }
            }
        }
    });
    assert_eq!(equal + cancelled + late, 200);
    assert_eq!(late, 20);
    assert!((1..=50).contains(&cancelled), "{cancelled}");
    assert!(full.into_inner() > 0, "the queue was never full");

    // Everything was given back: the same solver goes on as a fresh one would.
    let (mut solver, summary) = service.close().unwrap();
    assert_eq!(summary.failed, 0);
    let again = solver
        .solve(Request::new(&problems[0], ways[0].clone()))
        .unwrap();
    assert_eq!(essence(&again), expected[&(0, 0)]);
    assert_eq!(solver.cache_bytes(), 0);
}

#[test]
fn progress_comes_as_an_iterator_and_through_a_callback() {
    let service = solver().spawn(ServiceOptions {
        events: 100_000,
        ..ServiceOptions::default()
    });
    let problem = &problems(1)[0];
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let request = service.request(problem).on_progress(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let ticket = service.submit(request).unwrap();
    let events: Vec<Progress> = ticket.events().collect();
    assert_eq!(events.first(), Some(&Progress::Started));
    let of = |wanted: fn(&Progress) -> bool| events.iter().filter(|e| wanted(e)).count();
    let scored = of(|e| matches!(e, Progress::StepScored { .. }));
    assert!(scored > 0 && of(|e| matches!(e, Progress::StepClosed { .. })) >= scored);
    assert_eq!(
        (ticket.dropped_events(), seen.load(Ordering::Relaxed)),
        (0, events.len())
    );
    assert!(ticket.is_done());
    assert!(ticket.wait().unwrap().answer.is_some());
}

#[test]
fn a_slow_reader_loses_events_and_no_result() {
    let service = solver().spawn(ServiceOptions {
        events: 3,
        ..ServiceOptions::default()
    });
    let ticket = service.submit(service.request(&problems(1)[0])).unwrap();
    while !ticket.is_done() {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(ticket.events().count(), 3);
    assert!(ticket.dropped_events() > 0);
    assert!(ticket.wait().unwrap().answer.is_some());
}

#[test]
fn a_bad_setting_is_refused_and_a_closed_service_takes_nothing() {
    let service = solver().spawn(ServiceOptions::default());
    let problem = &problems(1)[0];
    let refused = service.submit(service.request(problem).n(0)).unwrap_err();
    assert_eq!(refused.to_string(), "n must be at least 1");
    let other = service.clone();
    let ticket = service.submit(service.request(problem)).unwrap();
    let (_, summary) = service.close().unwrap();
    assert_eq!(summary.problems, 1);
    assert!(ticket.is_done());
    let closed = other.submit(other.request(problem)).unwrap_err();
    assert_eq!(closed, ServiceError::Closed);
    assert!(other.close().is_err());
}

/// A runtime of one task: enough to see that a ticket needs no particular one.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_ticket_is_a_future() {
    let service = solver().spawn(ServiceOptions::default());
    let ticket = service.submit(service.request(&problems(1)[0])).unwrap();
    assert!(block_on(ticket).unwrap().answer.is_some());
}

#[test]
fn a_request_that_keeps_no_events_makes_none_and_what_was_held_is_counted_back() {
    let service = solver().spawn(ServiceOptions::default());
    let request = service.request(&problems(1)[0]).keep_events(0);
    let ticket = service.submit(request).unwrap();
    assert_eq!((ticket.events().count(), ticket.dropped_events()), (0, 0));
    let result = ticket.wait().unwrap();
    let stats = service.stats();
    assert_eq!((stats.in_flight, stats.cache_bytes), (0, 0));
    let (all, one) = (stats.ledger, result.ledger);
    assert_eq!(all.prompt_tokens, one.prompt_tokens);
    assert!(all.forward_passes > 0 && all.forward_passes <= one.forward_passes);
    assert_eq!(service.ended(), None);
}

#[test]
fn a_scorer_that_panics_ends_every_ticket() {
    let solver = Solver::builder()
        .step_scorer("panics", |_: &Problem, _: &[&str]| panic!("out of ideas"))
        .build()
        .unwrap();
    let service = solver.spawn(ServiceOptions::default());
    // The service may have ended before the last request, which is then refused.
    let tickets: Vec<_> = problems(3)
        .iter()
        .map(|problem| service.submit(service.request(problem)))
        .collect();
    for ticket in tickets {
        let ended = ticket.and_then(Ticket::wait);
        assert!(matches!(ended, Err(ServiceError::Lost(_))));
    }
}

#[test]
fn given_steps_get_the_scores_of_the_reward_model_alone_beside_a_search() {
    let chains: Vec<(String, Vec<String>)> = problems(3)
        .iter()
        .map(|problem| {
            let result = solver().solve(problem).unwrap();
            let steps = result.steps().into_iter();
            let texts = steps.map(|step| step.text.clone()).collect();
            (problem.text.clone(), texts)
        })
        .collect();
    let mut model = Solver::builder().prepare_reward_model().unwrap();
    let mut model = model.reward_model().unwrap();
    let alone: Vec<Vec<f32>> = chains
        .iter()
        .map(|(problem, steps)| {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            let mut scored = score_chains(&mut *model, &[(problem, &steps)]).unwrap();
            scored.pop().unwrap().unwrap()
        })
        .collect();
    assert!(alone.iter().all(|scores| scores.len() > 2));

    let (service, expected) = (solver().spawn(ServiceOptions::default()), &alone);
    let score = |(problem, steps): &(String, Vec<String>)| {
        let (send, receive) = std::sync::mpsc::channel();
        let reply = move |scores| send.send(scores).unwrap();
        service
            .score(problem.as_str(), steps.clone(), reply)
            .unwrap();
        receive
    };
    // With nothing else to do, and among searches.
    assert_eq!(score(&chains[0]).recv().unwrap().unwrap(), expected[0]);
    let searches: Vec<_> = problems(8)
        .iter()
        .map(|problem| service.submit(service.request(problem)).unwrap())
        .collect();
    let scored: Vec<_> = chains.iter().map(score).collect();
    for (scores, expected) in scored.into_iter().zip(expected) {
        assert_eq!(scores.recv().unwrap().unwrap(), *expected);
    }
    for (search, problem) in searches.into_iter().zip(problems(8)) {
        let expected = solver().solve(&problem).unwrap();
        assert_eq!(essence(&search.wait().unwrap()), essence(&expected));
    }
    // What was queued before the service is closed is still scored.
    let last = score(&chains[1]);
    let other = service.clone();
    service.close().unwrap();
    assert_eq!(last.recv().unwrap().unwrap(), expected[1]);
    let refused = other.score("?", vec!["1".to_owned()], |_| ());
    assert_eq!(refused, Err(ServiceError::Closed));
}

#[test]
fn many_chains_are_scored_in_turns_until_they_are_cancelled() {
    let service = solver().spawn(ServiceOptions::default());
    let chain = |at: usize, steps: usize| {
        let steps = (0..steps).map(|step| format!("{at} + {step} = {}.", at + step));
        ("How many?".to_owned(), steps.collect::<Vec<String>>())
    };
    let score = |chains: Vec<(String, Vec<String>)>, cancel: &CancelToken| {
        let (send, receive) = std::sync::mpsc::channel();
        let each = move |index, scored| drop(send.send((index, scored)));
        service.score_all(chains, cancel.clone(), each).unwrap();
        receive
    };
    let never = CancelToken::new();
    let mut chains: Vec<_> = (0..50).map(|at| chain(at, 1 + at % 4)).collect();
    chains[7].1 = vec!["x ".repeat(100_000)];
    chains[8].1 = Vec::new();
    let together = score(chains.clone(), &never);
    let together: BTreeMap<usize, _> = together.iter().collect();
    assert_eq!(together.len(), chains.len());
    for (at, scored) in together {
        let (_, alone) = score(vec![chains[at].clone()], &never).recv().unwrap();
        assert_eq!(scored, alone, "{at}");
        assert_eq!(scored.is_err_and(|error| error.is_too_long()), at == 7);
    }

    // A small call is finished long before a large one. The large call ends only by its
    // cancellation.
    let cancel = CancelToken::new();
    let large = score((0..4000).map(|at| chain(at, 40)).collect(), &cancel);
    let small = score(vec![chain(1, 2)], &never);
    small.recv().unwrap().1.unwrap();
    let scored = large.try_iter().count();
    assert!(scored < 3000, "{scored} were scored before");
    cancel.cancel();
    let scored = scored + large.iter().count();
    assert!(scored < 4000, "{scored} were scored");
}

#[test]
fn steps_cannot_be_scored_where_there_is_no_scorer() {
    let mut config = beamgen::Config::default();
    config.search.strategy = StrategyKind::GREEDY;
    config.models.scorer = ScorerKind::None;
    let solver = Solver::builder().config(config).build().unwrap();
    let service = solver.spawn(ServiceOptions::default());
    let (send, receive) = std::sync::mpsc::channel();
    let reply = move |scores| send.send(scores).unwrap();
    service.score("?", vec!["1".to_owned()], reply).unwrap();
    let refused = receive.recv().unwrap().unwrap_err().to_string();
    assert!(refused.contains("there is none"), "{refused}");
}

#[test]
fn a_command_that_checks_steps_gives_the_same_results_in_company_as_alone() {
    let passes = r#"sed -u 's/^{"id":\([0-9]*\).*/{"id":\1,"verdict":"pass"}/'"#;
    let launcher = Launcher::new(beamgen_test_support::launcher());
    let checked = |command: &str| {
        let builder = Solver::builder().checker_command(command);
        builder.launcher(launcher.clone()).build().unwrap()
    };
    let problems = problems(8);
    let mut alone = checked(passes);
    let alone = problems.iter().map(|problem| alone.solve(problem).unwrap());
    let alone: Vec<String> = alone.map(|result| essence(&result)).collect();
    let all = |service: &beamgen::Service| {
        let tickets = problems
            .iter()
            .map(|problem| service.submit(service.request(problem)).unwrap());
        let tickets: Vec<_> = tickets.collect();
        let results = tickets.into_iter().map(|ticket| ticket.wait().unwrap());
        results.collect::<Vec<_>>()
    };
    let service = checked(passes).spawn(ServiceOptions::default());
    let together = all(&service);
    assert!(together.iter().all(|result| result.lost_verdicts == 0));
    let together: Vec<String> = together.iter().map(essence).collect();
    assert_eq!(together, alone);
    assert_eq!(service.stats().lost_verdicts, 0);
    // One that is gone is counted, and changes nothing.
    let mut without = solver();
    let service = checked("exit 3").spawn(ServiceOptions::default());
    for (result, problem) in all(&service).iter().zip(&problems) {
        assert!(result.lost_verdicts > 0);
        let expected = without.solve(problem).unwrap();
        assert_eq!(
            (&result.answer, result.score),
            (&expected.answer, expected.score)
        );
    }
    assert!(service.stats().lost_verdicts > 0);
}
