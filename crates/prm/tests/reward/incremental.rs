//! Scores step by step are exactly those of the whole chain at once, and each token is read once.

use std::sync::{Arc, Mutex};

use beamgen_search::*;

use crate::models::*;
use crate::tiny;

const STEPS: [&str; 5] = [
    "a + 1 = 3\n",
    "b\n",
    "ab?c 42 e\n",
    "\ndd ee\n",
    "the = 7.e\n",
];

fn chain() -> Vec<Step> {
    STEPS.iter().map(|text| Step::new(text)).collect()
}

#[test]
fn step_by_step_equals_all_at_once_to_the_bit() {
    let mut prm = reward_model(400);
    let root = prm.open(&problem("ab 1+2=?"), 0).unwrap();
    let all = prm.fork(root);
    let at_once = score(&mut prm, all, &chain()).unwrap();
    assert_eq!(at_once.probabilities.len(), STEPS.len());

    let mut one_by_one = Vec::new();
    let mut id = root;
    for step in chain() {
        let next = prm.fork(id);
        prm.release(id);
        id = next;
        let scored = score(&mut prm, id, &[step]).unwrap();
        one_by_one.extend(scored.probabilities.into_iter().flatten());
    }
    let at_once: Vec<f32> = at_once.probabilities.into_iter().flatten().collect();
    assert_eq!(one_by_one, at_once);
    // Equal scores of different steps would make the comparison meaningless.
    let mut sorted = one_by_one.clone();
    sorted.sort_by(f32::total_cmp);
    sorted.dedup();
    assert_eq!(sorted.len(), STEPS.len());
}

/// A quantile reader gets each step's score together with the lowest score of the chain so far.
#[test]
fn the_lowest_score_so_far_goes_with_a_chain_and_its_forks() {
    let seen: Arc<Mutex<Vec<(f32, f32)>>> = Arc::default();
    let mut prm = reward_model(400);
    let reader = Arc::clone(&seen);
    assert!(prm.read_quantiles(Box::new(move |step| {
        reader.lock().unwrap().push((step.score, step.lowest));
        [step.lowest; 3]
    })));
    let root = prm.open(&problem("ab 1+2=?"), 0).unwrap();
    let all = prm.fork(root);
    let at_once = score(&mut prm, all, &chain()).unwrap();
    let scores: Vec<f32> = at_once.probabilities.into_iter().flatten().collect();
    let lowest: Vec<f32> = (1..=scores.len())
        .map(|len| scores[..len].iter().copied().fold(f32::INFINITY, f32::min))
        .collect();
    // If the lowest score were always the step's own, the test would show nothing.
    assert_ne!(scores, lowest);
    let expected: Vec<(f32, f32)> = scores.iter().copied().zip(lowest).collect();
    assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), expected);

    let mut id = root;
    for step in chain() {
        id = prm.fork(id);
        let scored = score(&mut prm, id, &[step]).unwrap();
        let lowest = seen.lock().unwrap().last().unwrap().1;
        assert_eq!(scored.quantiles, [[lowest; 3]]);
    }
    assert_eq!(*seen.lock().unwrap(), expected);
    // A fork of the root knows nothing of its siblings' scores.
    seen.lock().unwrap().clear();
    let sibling = prm.fork(root);
    score(&mut prm, sibling, &[Step::new(STEPS[0])]).unwrap();
    assert_eq!(*seen.lock().unwrap(), expected[..1]);
}

/// Compares with the engine directly: the chain as one sequence, read at once.
#[test]
fn scores_are_the_heads_reading_of_the_step_tokens() {
    use beamgen_engine::{Append, Output, Want};
    let mut prm = reward_model(400);
    let scores = prm.whole_chain("ab 1+2=?", &STEPS).unwrap();

    let mut tokens = vec![tiny::BEGIN];
    tokens.extend(ids("ab 1+2=?\n"));
    let mut marks = Vec::new();
    for step in STEPS {
        tokens.extend(ids(step.trim()));
        tokens.extend(ids("\n"));
        marks.push(tokens.len() - 1);
    }
    let mut engine = tiny::engine(prm.engine().model(), 400);
    let seq = engine.create();
    let item = Append {
        seq,
        tokens: &tokens,
        want: Want::At(&marks),
    };
    let rows = engine.forward(&[item], Output::Hidden).unwrap();
    let weight = tiny::random::noise(rows.width(), 3);
    for (score, row) in scores.iter().zip(rows.iter()) {
        let logit: f32 = 0.1 + row.iter().zip(&weight).map(|(x, w)| x * w).sum::<f32>();
        assert!((score - 1.0 / (1.0 + (-logit).exp())).abs() < 1e-6);
    }
    assert_eq!(scores.len(), rows.len());
    let written = prm.written("ab 1+2=?", &STEPS).unwrap();
    assert_eq!(written.tokens, tokens);
    assert_eq!(written.read_at, marks);
}

/// Pitfall 10: reading every chain again from its first token in every round.
#[test]
fn p10_only_the_tokens_of_the_new_step_are_read() {
    let mut prm = reward_model(400);
    let prompt = 1 + ids("ab?\n").len();
    let root = prm.open(&problem("ab?"), 0).unwrap();
    let (a, b) = (prm.fork(root), prm.fork(root));
    let [first, second, third, ..] = STEPS.map(Step::new);

    // Siblings in one call: the prompt is read for the first of them.
    let items = [(a, &first), (b, &second)].map(|(id, step)| ScoreItem {
        id,
        steps: vec![step.as_ref()],
    });
    let scored = prm.score(&items).unwrap();
    let counts = |scored: &Scored| (scored.read_tokens, scored.reused_tokens);
    assert_eq!(
        counts(scored[0].as_ref().unwrap()),
        (prompt + first.tokens.len(), 0)
    );
    assert_eq!(
        counts(scored[1].as_ref().unwrap()),
        (second.tokens.len(), prompt)
    );

    let child = prm.fork(a);
    let scored = score(&mut prm, child, std::slice::from_ref(&third)).unwrap();
    assert_eq!(
        counts(&scored),
        (third.tokens.len(), prompt + first.tokens.len())
    );
    for id in [root, a, b, child] {
        prm.release(id);
    }
    assert!(prm.engine().is_empty());
}

#[test]
fn company_in_a_call_changes_no_score() {
    let mut prm = reward_model(2000);
    let texts = ["a?", "abc 12?", "e"];
    let alone: Vec<Vec<f32>> = texts
        .iter()
        .map(|text| prm.whole_chain(text, &STEPS).unwrap())
        .collect();
    let chains = texts.map(|text| (text, &STEPS[..]));
    let together = prm.whole_chains(&chains).unwrap();
    for (alone, together) in alone.iter().zip(together) {
        assert_eq!(*alone, together.unwrap());
    }
    assert!(prm.engine().is_empty());
}

#[test]
fn the_context_is_read_before_the_question() {
    let mut prm = reward_model(2000);
    let with_context = Problem {
        context: vec!["abc".into(), "12".into()],
        ..problem("ab?")
    };
    let mut scores = |problem: &Problem| {
        let id = prm.open(problem, 0).unwrap();
        let scored = score(&mut prm, id, &chain()).unwrap();
        (scored.probabilities, scored.read_tokens)
    };
    let (found, alone) = (scores(&with_context), scores(&problem("ab?")));
    assert_eq!(found, scores(&problem("abc\n\n12\n\nab?")));
    assert_ne!(found, alone);
}
