//! Tests of statistics and of splits.

use std::collections::BTreeSet;

use beamgen_labels::{
    LabelRule, LabelledChain, LabelledStep, Neutral, Stat, normalised, problems_of, split,
};

fn chain(problem: &str, steps: &[(&str, Option<i8>)]) -> LabelledChain {
    let steps = steps.iter().map(|&(text, rating)| LabelledStep {
        rating,
        ..LabelledStep::unlabelled(text.to_owned())
    });
    LabelledChain {
        problem: problem.to_owned(),
        steps: steps.collect(),
        ..LabelledChain::default()
    }
}

#[test]
fn repeats_that_disagree_are_told_from_those_that_agree() {
    let chains = [
        chain("p", &[("a", Some(1)), ("b", Some(0))]),
        chain("p", &[("a", Some(1)), ("b", Some(-1)), ("c", None)]),
        chain("p", &[("a", Some(-1)), ("b", Some(-1))]),
        chain("P ", &[("a", Some(1)), ("b", Some(0))]),
        chain("p", &[("a", Some(-1)), ("b", Some(-1))]),
    ];
    let half = LabelRule {
        neutral: Neutral::Half,
        ..LabelRule::default()
    };
    let stat = Stat::of(&chains, &[], &half);
    assert_eq!(
        (stat.chains, stat.problems, stat.steps, stat.labels),
        (5, 1, 11, 10)
    );
    assert_eq!((stat.positive, stat.between, stat.negative), (3, 2, 5));
    // The prefixes are (p, a) and (p, a b), and the same two of "P ", which is another text.
    assert_eq!((stat.distinct, stat.repeats), (4, 6));
    // Step a is labelled 1 1 -1 -1, and step b 0 -1 -1 -1.
    assert_eq!((stat.contradictions, stat.disputed), (2, 2));
    assert_eq!(stat.duplicate_chains, 2);
}

fn many() -> Vec<LabelledChain> {
    (0..200)
        .map(|i| chain(&format!("Problem ${}$.", i % 50), &[("a", Some(1))]))
        .collect()
}

#[test]
fn no_problem_is_on_both_sides() {
    let chains = many();
    let none = BTreeSet::new();
    let parts = split(&chains, 0.1, 7, &none);
    assert_eq!(
        (parts.train.len(), parts.test.len(), parts.excluded.len()),
        (180, 20, 0)
    );
    assert_eq!(parts.problems, [45, 5, 0]);
    let problems = |part: &[usize]| part.iter().map(|i| i % 50).collect::<BTreeSet<_>>();
    assert!(problems(&parts.train).is_disjoint(&problems(&parts.test)));
    // The same problems in reverse order, one chain for each.
    let reversed: Vec<LabelledChain> = chains[..50].iter().rev().cloned().collect();
    let again = split(&reversed, 0.1, 7, &none);
    let again: BTreeSet<usize> = again.test.iter().map(|i| 49 - i).collect();
    assert_eq!(again, problems(&parts.test));
    assert_ne!(
        problems(&split(&chains, 0.1, 8, &none).test),
        problems(&parts.test)
    );
}

#[test]
fn excluded_problems_are_taken_from_training_alone() {
    let chains = many();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("benchmark.jsonl");
    let lines: Vec<String> = (0..25)
        .map(|i| format!("{{\"question\": \"problem \\\\({i}\\\\)\"}}"))
        .collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let exclude = problems_of(&path).unwrap();
    assert_eq!(exclude.len(), 25);
    let parts = split(&chains, 0.1, 7, &exclude);
    let plain = split(&chains, 0.1, 7, &BTreeSet::new());
    assert_eq!(parts.test, plain.test);
    let text = |&i: &usize| normalised(&chains[i].problem);
    assert!(parts.train.iter().all(|i| !exclude.contains(&text(i))));
    assert!(parts.excluded.iter().all(|i| exclude.contains(&text(i))));
    assert_eq!(parts.train.len() + parts.excluded.len(), plain.train.len());
    assert!(!parts.excluded.is_empty());
    std::fs::write(&path, "{\"text\": \"a\"}").unwrap();
    let error = problems_of(&path).unwrap_err().to_string();
    assert!(error.contains("no problems in it"), "{error}");
}
