//! Requests with different settings, requests that end early or fail, and scores that arrive later.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use beamgen_search::*;

use crate::scripted::*;

/// Serves requests to the end and returns the results in input order.
fn serve_all(
    models: Models<'_>,
    requests: impl IntoIterator<Item = Request>,
    observe: &mut dyn FnMut(Event<'_>),
) -> (Vec<ProblemResult>, RunSummary) {
    serve_intake(models, &mut RequestList(requests.into_iter()), observe)
}

fn serve_intake(
    models: Models<'_>,
    intake: &mut dyn Intake,
    observe: &mut dyn FnMut(Event<'_>),
) -> (Vec<ProblemResult>, RunSummary) {
    let mut results = Vec::new();
    let mut deliver = |result| {
        results.push(result);
        ControlFlow::Continue(())
    };
    let mut sink = Callbacks {
        observe,
        deliver: &mut deliver,
    };
    let summary = serve(models, 8, intake, &mut sink).unwrap();
    results.sort_by_key(|result| result.index);
    (results, summary)
}

/// Makes models of which one need not be scripted.
fn models<'m>(generator: &'m mut dyn Generator, scorer: &'m mut dyn Scorer) -> Models<'m> {
    Models {
        verifier: None,
        generator,
        scorer: Some(scorer),
        answers: &Stated,
        clock: &StoppedClock,
    }
}

fn settings(search: SearchConfig) -> Arc<Settings> {
    Arc::new(Settings {
        search,
        ..Settings::default()
    })
}

/// Returns `count` requests with three kinds of searches in turn.
fn mixed(count: usize) -> Vec<Request> {
    let ways = [beam(8, 2), best_of(5), beam(4, 4)].map(settings);
    let ways = ways.iter().cycle().cloned();
    let each = problems(count).into_iter().zip(ways);
    each.map(|(problem, way)| Request::new(problem, way))
        .collect()
}

/// Returns the parts of a result that must not depend on other problems; its index and the shared
/// passes may.
fn essence(result: &ProblemResult) -> (ChainTree, Option<String>, Option<f32>, u64) {
    let tokens = result.ledger.generated_tokens;
    (
        result.tree.clone(),
        result.answer.clone(),
        result.score,
        tokens,
    )
}

fn alone(request: &Request) -> ProblemResult {
    let mut scripts = Scripted::random();
    let search = &request.settings.search;
    let one = vec![request.problem.clone()];
    let mut results = scripts.solve(search, one).0;
    results.remove(0)
}

fn assert_as_alone(results: &[ProblemResult], requests: &[Request]) {
    for (result, request) in results.iter().zip(requests) {
        assert_eq!(essence(result), essence(&alone(request)));
    }
}

#[test]
fn requests_with_different_settings_run_side_by_side_as_they_would_alone() {
    let mut scripts = Scripted::random();
    let requests = mixed(30);
    let all = serve_all(scripts.models(), requests.clone(), &mut |_| ());
    assert_eq!(all.0.len(), 30);
    assert_as_alone(&all.0, &requests);
}

#[test]
fn a_bad_setting_is_that_requests_affair() {
    let mut scripts = Scripted::random();
    let mut requests = mixed(3);
    requests[1].settings = settings(beam(0, 2));
    let (results, summary) = serve_all(scripts.models(), requests, &mut |_| ());
    assert_eq!(results[1].error.as_deref(), Some("n must be at least 1"));
    assert_eq!((summary.problems, summary.failed), (3, 1));
    assert!(results[0].error.is_none() && results[2].error.is_none());
}

#[test]
fn a_cancelled_problem_gives_everything_back_and_others_do_not_notice() {
    let requests = mixed(12);
    for at in 0..40 {
        let mut scripts = Scripted::random();
        let token = CancelToken::new();
        let mut requests = requests.clone();
        for request in requests.iter_mut().step_by(2) {
            request.cancel = Some(token.clone());
        }
        let mut events = 0;
        let (results, summary) = serve_all(scripts.models(), requests.clone(), &mut |_| {
            events += 1;
            if events == at * 7 + 1 {
                token.cancel();
            }
        });
        assert_eq!(results.len(), 12);
        scripts.assert_empty();
        let cancelled = |result: &&ProblemResult| result.stopped == Some(Stopped::Cancelled);
        assert_eq!(summary.stopped, results.iter().filter(cancelled).count());
        assert!(at > 0 || summary.stopped == 6);
        let sampled: u64 = results.iter().map(|r| r.ledger.generated_tokens).sum();
        assert_eq!(summary.ledger.generated_tokens, sampled);
        for (result, request) in results.iter().zip(&requests) {
            if result.stopped.is_none() {
                assert_eq!(essence(result), essence(&alone(request)));
            }
        }
    }
}

#[test]
fn a_deadline_ends_a_search_with_what_it_has() {
    let mut scripts = Scripted::random();
    let mut requests = mixed(6);
    requests[0].deadline = Some(Duration::from_millis(1));
    requests[3].deadline = Some(Duration::from_secs(3600));
    let clock = Ticking::default();
    let (results, _) = serve_all(
        Models {
            verifier: None,
            clock: &clock,
            ..scripts.models()
        },
        requests.clone(),
        &mut |_| (),
    );
    assert_eq!(results[0].stopped, Some(Stopped::Deadline));
    assert_eq!(results[0].tree.len(), 1);
    for at in 1..6 {
        assert_eq!(results[at].stopped, None);
        assert_eq!(essence(&results[at]), essence(&alone(&requests[at])));
    }
}

/// A generator that fails chosen problems in the middle of a step.
struct Failing<'a> {
    inner: ScriptedGenerator<'a>,
    /// The first two chains of one problem.
    first: Vec<ChainId>,
    lost: bool,
}

impl Generator for Failing<'_> {
    fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError> {
        self.inner.open(problem, key, settings)
    }

    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        let chain = self.inner.try_start(source, plan)?;
        if self.first.len() < 2 {
            self.first.push(chain);
        }
        Some(chain)
    }

    fn release(&mut self, chain: ChainId) -> usize {
        self.inner.release(chain)
    }

    fn pass(&mut self) -> Result<PassOutput, GenError> {
        if self.inner.passes == 0 && !self.first.is_empty() {
            self.inner.passes = 1;
            let error = || {
                if self.lost {
                    GenError::Lost("the power is out".into())
                } else {
                    GenError::Failed("connection reset".into())
                }
            };
            return Ok(PassOutput {
                failed: self.first.iter().map(|&chain| (chain, error())).collect(),
                ..PassOutput::default()
            });
        }
        self.inner.pass()
    }

    fn active(&self) -> usize {
        self.inner.active()
    }

    fn memory(&self) -> Memory {
        self.inner.memory()
    }
}

#[test]
fn chains_that_fail_end_their_problem_and_no_other() {
    let mut generator = Failing {
        inner: ScriptedGenerator::new(random_said),
        first: Vec::new(),
        lost: false,
    };
    let mut scorer = ScriptedScorer::new(random_score);
    let requests = mixed(6);
    let (results, _) = serve_all(
        models(&mut generator, &mut scorer),
        requests.clone(),
        &mut |_| (),
    );
    let error = results[0].error.as_deref();
    assert_eq!(error, Some("the generator failed: connection reset"));
    for at in 1..6 {
        assert_eq!(essence(&results[at]), essence(&alone(&requests[at])));
    }
    assert_eq!(
        (generator.inner.chains_held(), scorer.chains_held()),
        (0, 0)
    );
}

#[test]
fn a_lost_generator_ends_the_run_and_leaves_nothing_behind() {
    let mut generator = Failing {
        inner: ScriptedGenerator::new(random_said),
        first: Vec::new(),
        lost: true,
    };
    let mut scorer = ScriptedScorer::new(random_score);
    let models = models(&mut generator, &mut scorer);
    let deliver = &mut |_| ControlFlow::Continue(());
    let error = run(models, &beam(4, 2), problems(4), &mut |_| (), deliver).unwrap_err();
    assert_eq!(error.to_string(), "the generator failed: the power is out");
    assert_eq!(
        (generator.inner.chains_held(), scorer.chains_held()),
        (0, 0)
    );
}

#[test]
fn a_scorer_call_that_fails_ends_the_problem_and_no_other() {
    let mut scripts = Scripted::random();
    scripts.scorer = ScriptedScorer::fallible(|problem, before, step| match problem.id.as_str() {
        "p2" => Err(ScoreError::Failed("timed out".into())),
        _ => Ok(random_score(problem, before, step)),
    });
    let requests = mixed(6);
    let (results, _) = serve_all(scripts.models(), requests.clone(), &mut |_| ());
    scripts.assert_empty();
    for (at, result) in results.iter().enumerate() {
        match at {
            2 => assert_eq!(
                result.error.as_deref(),
                Some("the scorer failed: timed out")
            ),
            _ => assert_eq!(essence(result), essence(&alone(&requests[at]))),
        }
    }
}

/// A scorer that answers a batch only after `delay` more calls.
struct Slow<'a> {
    inner: RefCell<ScriptedScorer<'a>>,
    delay: usize,
    waiting: VecDeque<(usize, BatchId, ScoreResult)>,
    released: Vec<ScoreId>,
    overlapped: bool,
}

impl Slow<'_> {
    fn new(delay: usize) -> Self {
        Self {
            inner: RefCell::new(ScriptedScorer::new(random_score)),
            delay,
            waiting: VecDeque::new(),
            released: Vec::new(),
            overlapped: false,
        }
    }

    fn let_go(&mut self) {
        if self.waiting.is_empty() {
            for id in self.released.drain(..) {
                self.inner.borrow_mut().release(id);
            }
        }
    }
}

impl Scorer for Slow<'_> {
    fn open(&mut self, problem: &Problem, key: u64) -> Result<ScoreId, ScoreError> {
        self.inner.borrow_mut().open(problem, key)
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        self.inner.borrow_mut().fork(id)
    }

    fn release(&mut self, id: ScoreId) {
        self.released.push(id);
        self.let_go();
    }

    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult {
        self.inner.borrow_mut().score(items)
    }

    fn submit(&mut self, batch: BatchId, items: &[ScoreItem<'_>]) -> Submitted {
        let scored = self.score(items);
        self.overlapped |= !self.waiting.is_empty();
        self.waiting.push_back((self.delay, batch, scored));
        Submitted::Pending
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, ScoreResult)> {
        for (left, ..) in &mut self.waiting {
            *left = left.saturating_sub(1);
        }
        let mut done = Vec::new();
        while let Some((left, ..)) = self.waiting.front()
            && (*left == 0 || (wait && done.is_empty()))
        {
            let (_, batch, scored) = self.waiting.pop_front().unwrap();
            done.push((batch, scored));
        }
        self.let_go();
        done
    }

    fn memory(&self) -> Memory {
        self.inner.borrow().memory()
    }
}

#[test]
fn scores_that_come_late_change_no_result() {
    let requests = mixed(20);
    let mut overlapped = false;
    for delay in [0, 1, 2, 7, 1000] {
        let mut generator = ScriptedGenerator::new(random_said);
        let mut scorer = Slow::new(delay);
        let (results, _) = serve_all(
            models(&mut generator, &mut scorer),
            requests.clone(),
            &mut |_| (),
        );
        overlapped |= scorer.overlapped;
        scorer.let_go();
        let held = (generator.chains_held(), scorer.inner.borrow().chains_held());
        assert_eq!(held, (0, 0));
        assert_as_alone(&results, &requests);
    }
    assert!(overlapped, "no two batches were ever pending at once");
}

/// An intake that has all requests from the start, and chains to be scored while they run.
struct Beside(VecDeque<Request>, VecDeque<GivenChain>);

impl Intake for Beside {
    fn next(&mut self, _: bool) -> Next {
        let next = self.0.pop_front().map(Box::new);
        next.map_or(Next::Closed, Next::Request)
    }

    fn given(&mut self) -> Option<GivenChain> {
        self.1.pop_front()
    }
}

#[test]
fn nothing_waits_for_the_scores_of_given_chains() {
    let steps: Vec<String> = ["one\n", "", "two\n"].map(str::to_owned).into();
    let expected = {
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let mut scorer = ScriptedScorer::new(random_score);
        score_chains(&mut scorer, &[("p", &steps)]).unwrap()
    };
    for (requests, delay) in [(0, 0), (0, 5), (8, 0), (8, 5)] {
        let passes = Arc::new(AtomicUsize::new(0));
        let (send, receive) = mpsc::channel();
        let given = (0..3).map(|_| {
            let (send, passes) = (send.clone(), Arc::clone(&passes));
            GivenChain {
                problem: "p".to_owned(),
                steps: steps.clone(),
                reply: Box::new(move |scores| {
                    send.send((scores, passes.load(Ordering::Relaxed))).unwrap();
                }),
            }
        });
        let requests = mixed(requests);
        let mut generator = ScriptedGenerator::new(random_said);
        let mut scorer = Slow::new(delay);
        let mut intake = Beside(requests.clone().into(), given.collect());
        let models = models(&mut generator, &mut scorer);
        let (results, _) = serve_intake(models, &mut intake, &mut |event| {
            let passed = matches!(event, Event::Pass { .. });
            passes.fetch_add(usize::from(passed), Ordering::Relaxed);
        });
        assert_as_alone(&results, &requests);
        let told: Vec<_> = receive.try_iter().collect();
        assert_eq!(told.len(), 3, "{} requests, delay {delay}", requests.len());
        for (scores, after) in told {
            assert_eq!(scores.unwrap().scores, *expected[0].as_ref().unwrap());
            let goes_on = !requests.is_empty() && delay > 0;
            assert!(!goes_on || after >= delay, "{after} passes went on");
        }
        scorer.let_go();
        let held = (generator.chains_held(), scorer.inner.borrow().chains_held());
        assert_eq!(held, (0, 0));
    }
}

#[test]
fn given_chains_share_batches_and_fail_alone() {
    for (bytes, calls) in [(10, 1), (4000, 5)] {
        let judge = |problem: &Problem, before: &str, step: &str| {
            if step.contains("bad") {
                return Err(ScoreError::NoMemory { tokens: 7 });
            }
            Ok(random_score(problem, before, step))
        };
        let steps = |at: usize| -> Vec<String> {
            let word = if at % 10 == 7 { "bad" } else { "good" };
            vec![format!("{word} {at}"), "x".repeat(bytes)]
        };
        let problem = |at: usize| format!("problem {}", at % 3);
        let (send, receive) = mpsc::channel();
        let given = (0..40).map(|at| {
            let send = send.clone();
            GivenChain {
                problem: problem(at),
                steps: if at == 20 { Vec::new() } else { steps(at) },
                reply: Box::new(move |scores| send.send((at, scores)).unwrap()),
            }
        });
        let mut generator = ScriptedGenerator::new(random_said);
        let mut scorer = ScriptedScorer::fallible(judge);
        let mut intake = Beside(VecDeque::new(), given.collect());
        serve_intake(
            models(&mut generator, &mut scorer),
            &mut intake,
            &mut |_| (),
        );
        assert_eq!(scorer.calls, calls);
        assert_eq!(scorer.chains_held(), 0);
        let told: BTreeMap<usize, _> = receive.try_iter().collect();
        assert_eq!(told.len(), 40);
        for (at, scores) in told {
            let mut alone = ScriptedScorer::new(random_score);
            let steps = steps(at);
            let texts: Vec<&str> = steps.iter().map(String::as_str).collect();
            let alone = score_chains(&mut alone, &[(&problem(at), &texts)]).unwrap();
            match scores {
                Err(error) => assert_eq!((error, at % 10), (ScoreError::NoMemory { tokens: 7 }, 7)),
                Ok(given) if at == 20 => assert_eq!(given, GivenScores::default()),
                Ok(given) => assert_eq!(given.scores, *alone[0].as_ref().unwrap()),
            }
        }
    }
}

#[test]
fn a_problem_cancelled_while_its_scores_are_pending_leaves_nothing_behind() {
    for at in 0..30 {
        let mut generator = ScriptedGenerator::new(random_said);
        let mut scorer = Slow::new(3);
        let token = CancelToken::new();
        let mut requests = mixed(8);
        for request in requests.iter_mut().skip(1).step_by(2) {
            request.cancel = Some(token.clone());
        }
        let mut passes = 0;
        let (results, _) = serve_all(
            models(&mut generator, &mut scorer),
            requests.clone(),
            &mut |event| {
                passes += usize::from(matches!(event, Event::Pass { .. }));
                if passes == at {
                    token.cancel();
                }
            },
        );
        scorer.waiting.clear();
        scorer.let_go();
        let held = (generator.chains_held(), scorer.inner.borrow().chains_held());
        assert_eq!(held, (0, 0));
        for (result, request) in results.iter().zip(&requests).step_by(2) {
            assert_eq!(essence(result), essence(&alone(request)));
        }
    }
}

#[test]
fn answers_to_a_run_that_was_stopped_are_passed_over_by_the_next_one() {
    let mut left_over = false;
    for at in 0..10 {
        let mut generator = ScriptedGenerator::new(random_said);
        let mut scorer = Slow::new(3);
        let token = CancelToken::new();
        let mut stopped = mixed(8);
        for request in &mut stopped {
            request.cancel = Some(token.clone());
        }
        let mut passes = 0;
        serve_all(models(&mut generator, &mut scorer), stopped, &mut |event| {
            passes += usize::from(matches!(event, Event::Pass { .. }));
            if passes == at {
                token.cancel();
            }
        });
        left_over |= !scorer.waiting.is_empty();
        let next = mixed(5);
        let (results, _) = serve_all(
            models(&mut generator, &mut scorer),
            next.clone(),
            &mut |_| (),
        );
        assert_as_alone(&results, &next);
    }
    assert!(left_over, "no run was stopped while scores were pending");
}
