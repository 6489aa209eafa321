//! Chains are judged by a verifier before a result is handed over, while other problems continue.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use beamgen_search::*;

use crate::scripted::*;

/// Calls a chain right if the length of its text is even, answers batches in the reverse order, and
/// only every twentieth time that it is asked. Problems with an odd number in their id are not judged.
#[derive(Default)]
struct Slow {
    pending: VecDeque<(BatchId, Vec<Outcome>)>,
    asked: usize,
    chains: usize,
    most_pending: usize,
}

fn is_judged(problem: &Problem) -> bool {
    let last = problem.id.bytes().last().unwrap();
    last.is_multiple_of(2)
}

fn outcome(text: &str) -> Outcome {
    match text.len() % 4 {
        0 | 2 => Outcome::new(OutcomeKind::Right, ""),
        1 => Outcome::new(OutcomeKind::Wrong, "odd"),
        _ => Outcome::new(OutcomeKind::Lost, ""),
    }
}

impl Verifier for Slow {
    fn name_for(&self, problem: &Problem) -> Option<&str> {
        is_judged(problem).then_some("even")
    }

    fn submit(&mut self, batch: BatchId, problem: &Problem, chains: &[WholeChain<'_>]) {
        assert!(is_judged(problem) && !chains.is_empty());
        let outcomes = chains.iter().map(|chain| outcome(&chain.steps.concat()));
        self.pending.push_back((batch, outcomes.collect()));
        self.chains += chains.len();
        self.most_pending = self.most_pending.max(self.pending.len());
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, Vec<Outcome>)> {
        self.asked += 1;
        let answers = wait || self.asked.is_multiple_of(20);
        let done = answers.then(|| self.pending.pop_back()).flatten();
        done.into_iter().collect()
    }
}

fn solved(verifier: Option<&mut Slow>, in_flight: usize) -> Vec<ProblemResult> {
    let mut scripts = Scripted::random();
    let models = Models {
        verifier: verifier.map(|slow| slow as &mut dyn Verifier),
        ..scripts.models()
    };
    let search = SearchConfig {
        in_flight,
        ..beam(8, 2)
    };
    let mut results = Vec::new();
    run(models, &search, problems(40), &mut |_| (), &mut |result| {
        results.push(result);
        ControlFlow::Continue(())
    })
    .unwrap();
    results.sort_by_key(|result| result.index);
    results
}

#[test]
fn every_complete_chain_has_the_outcome_of_its_own_text() {
    let mut verifier = Slow::default();
    let results = solved(Some(&mut verifier), 4);
    assert_eq!(results.len(), 40);
    let mut chains = 0;
    for result in &results {
        let judged = is_judged(&result.problem);
        assert_eq!(result.verifier.as_deref(), judged.then_some("even"));
        let mut lost = 0;
        for chain in &result.finished {
            let steps = result.tree.steps(chain.node);
            let text: String = steps.map(|step| step.text.as_str()).collect();
            let expected = (judged && chain.finish.is_complete()).then(|| outcome(&text));
            assert_eq!(chain.outcome, expected);
            chains += usize::from(expected.is_some());
            lost += usize::from(expected.is_some_and(|o| o.kind == OutcomeKind::Lost));
        }
        assert_eq!(result.lost_verdicts, lost);
        for votes in &result.answers {
            let mut of = result.finished.iter();
            let best = of.find(|chain| chain.node == votes.node).unwrap();
            assert_eq!(votes.outcome, best.outcome.as_ref().map(|o| o.kind));
        }
    }
    assert!(verifier.chains == chains && chains > 100);
    // Other problems continued while a batch was pending.
    assert!(verifier.most_pending > 1);
}

#[test]
fn outcomes_change_no_chain_and_do_not_depend_on_other_problems() {
    let plain = solved(None, 4);
    let [one, many] = [1, 7].map(|in_flight| solved(Some(&mut Slow::default()), in_flight));
    for ((plain, one), many) in plain.iter().zip(&one).zip(&many) {
        assert_eq!(plain.tree, one.tree);
        assert_eq!((one.chosen, &one.finished), (many.chosen, &many.finished));
        // Without a stated answer, the last step is the answer for a verifier.
        if !is_judged(&plain.problem) {
            assert_eq!((plain.chosen, &plain.answer), (one.chosen, &one.answer));
        }
    }
    let silent = |result: &ProblemResult| {
        let mut complete = result.finished.iter().filter(|c| c.finish.is_complete());
        complete.any(|chain| chain.answer.is_none())
    };
    assert!(plain.iter().any(silent));
    let mut judged = one.iter().filter(|result| is_judged(&result.problem));
    assert!(!judged.any(silent));
}

/// Never answers, so that the run has to end without outcomes.
struct Silent;

impl Verifier for Silent {
    fn name_for(&self, problem: &Problem) -> Option<&str> {
        is_judged(problem).then_some("silent")
    }

    fn submit(&mut self, _: BatchId, _: &Problem, _: &[WholeChain<'_>]) {}

    fn collect(&mut self, _: bool) -> Vec<(BatchId, Vec<Outcome>)> {
        Vec::new()
    }
}

#[test]
fn a_run_that_is_stopped_does_not_wait_for_outcomes() {
    let mut scripts = Scripted::random();
    let models = Models {
        verifier: Some(&mut Silent),
        ..scripts.models()
    };
    let mut results = 0;
    run(models, &beam(8, 2), problems(40), &mut |_| (), &mut |_| {
        results += 1;
        match results {
            5 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    })
    .unwrap();
    assert_eq!(results, 5);
    assert_eq!(scripts.generator.chains_held(), 0);
}
