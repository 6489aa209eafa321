//! Tests of annotation: ratings by people, kept in a file.

use std::path::{Path, PathBuf};

use beamgen_labels::annotate::{Act, Annotation, Options, Order};
use beamgen_labels::{LabelRule, LabelledChain, LabelledStep, LabelsError, Rollouts, open};
use tempfile::TempDir;

/// Makes a chain of `steps` steps that have no facts.
fn chain(problem: &str, steps: usize) -> LabelledChain {
    let step = |at| LabelledStep::unlabelled(format!("{problem}{at}"));
    LabelledChain {
        problem: problem.to_owned(),
        steps: (0..steps).map(step).collect(),
        ..LabelledChain::default()
    }
}

fn options(rater: &str) -> Options {
    Options {
        rater: rater.to_owned(),
        order: Order::Given,
        seed: 0,
        stops: true,
    }
}

fn file() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rated.jsonl");
    (dir, path)
}

fn three() -> Vec<LabelledChain> {
    vec![chain("a", 3), chain("b", 2), chain("c", 1)]
}

/// Rates steps in a row, from the current one on.
fn rate(annotation: &mut Annotation, ratings: &[i8]) {
    for &rating in ratings {
        annotation.act(Act::Rate { rating }).unwrap();
    }
}

/// Returns the indices of the current chain and step, and the number of chains that are done.
fn at(annotation: &Annotation) -> (usize, usize, usize) {
    let view = annotation.view();
    (view.chain, view.step, view.done)
}

fn ratings(path: &Path, rater: &str) -> Vec<Vec<Option<i8>>> {
    let chains = open(path, None).unwrap().chains;
    let rating = |step: &LabelledStep| step.ratings.get(rater)?.rating;
    let chain = |chain: &LabelledChain| chain.steps.iter().map(rating).collect();
    chains.iter().map(chain).collect()
}

#[test]
fn ratings_move_on_and_stop_at_the_first_error() {
    let (_dir, path) = file();
    let mut annotation = Annotation::open(three(), &path, options("anna")).unwrap();
    assert_eq!(at(&annotation), (0, 0, 0));
    rate(&mut annotation, &[1]);
    assert_eq!(at(&annotation), (0, 1, 0));
    rate(&mut annotation, &[-1]);
    assert_eq!(at(&annotation), (1, 0, 1));
    rate(&mut annotation, &[0, 1]);
    assert_eq!(at(&annotation), (2, 0, 2));
    rate(&mut annotation, &[1]);
    assert_eq!(at(&annotation), (2, 0, 3));
    let (yes, no) = (Some(1), Some(-1));
    let all = [vec![yes, no, None], vec![Some(0), yes], vec![yes]];
    assert_eq!(ratings(&path, "anna"), all);
    // With `stops` off the last step needs a rating, too. The earlier ratings are kept.
    let act = Act::Stop {
        at_first_error: false,
    };
    assert_eq!(annotation.act(act).unwrap().done, 2);
    annotation.act(Act::Go { chain: 0, step: 2 }).unwrap();
    rate(&mut annotation, &[-1]);
    assert_eq!(annotation.view().done, 3);
    // The file has ratings only; the rule turns them into labels.
    let read = open(&path, None).unwrap();
    let labels = LabelRule::default().labels(&read.chains[0]);
    assert_eq!(labels, [Some(1.0), Some(0.0), Some(0.0)]);
}

#[test]
fn what_was_said_is_taken_back_and_changed() {
    let (_dir, path) = file();
    let mut annotation = Annotation::open(three(), &path, options("anna")).unwrap();
    rate(&mut annotation, &[1]);
    let remark = |text: &str| Act::Comment {
        text: text.to_owned(),
    };
    annotation.act(remark(" odd ")).unwrap();
    rate(&mut annotation, &[-1]);
    assert_eq!(at(&annotation), (1, 0, 1));
    let view = annotation.act(Act::Undo {}).unwrap();
    assert_eq!((view.chain, view.step, view.done), (0, 1, 0));
    assert_eq!(
        (view.steps[1].rating, view.steps[1].comment),
        (None, Some("odd"))
    );
    let view = annotation.act(Act::Undo {}).unwrap();
    assert_eq!(view.steps[1].comment, None);
    assert_eq!(annotation.act(Act::Undo {}).unwrap().steps[0].rating, None);
    assert!(!annotation.act(Act::Undo {}).unwrap().can_undo);
    assert_eq!(ratings(&path, "anna"), [[None; 3]]);
    rate(&mut annotation, &[-1]);
    // A second rating of a step replaces the first.
    annotation.act(Act::Go { chain: 0, step: 0 }).unwrap();
    rate(&mut annotation, &[0]);
    assert_eq!(at(&annotation), (0, 1, 0));
    assert_eq!(ratings(&path, "anna"), [[Some(0), None, None]]);
    // A remark needs no rating. An empty remark removes an earlier one.
    annotation.act(remark("why?")).unwrap();
    let kept = open(&path, None).unwrap().chains.remove(0);
    assert_eq!(
        kept.steps[1].ratings["anna"].comment.as_deref(),
        Some("why?")
    );
    annotation.act(remark("")).unwrap();
    assert!(
        open(&path, None).unwrap().chains[0].steps[1]
            .ratings
            .is_empty()
    );
}

#[test]
fn a_file_goes_on_where_it_ends_and_is_only_appended_to() {
    let (_dir, path) = file();
    let mut annotation = Annotation::open(three(), &path, options("anna")).unwrap();
    rate(&mut annotation, &[1, 1]);
    drop(annotation);
    let before = std::fs::read(&path).unwrap();
    let mut again = Annotation::open(three(), &path, options("anna")).unwrap();
    assert_eq!(at(&again), (0, 2, 0));
    rate(&mut again, &[1]);
    let after = std::fs::read(&path).unwrap();
    assert!(after.starts_with(&before) && after.len() > before.len());
    // Ben is not shown Anna's ratings, but the file has both people's.
    let mut other = Annotation::open(three(), &path, options("ben")).unwrap();
    assert_eq!(at(&other), (0, 0, 0));
    rate(&mut other, &[-1]);
    assert_eq!(ratings(&path, "anna"), [[Some(1); 3]]);
    assert_eq!(ratings(&path, "ben"), [[Some(-1), None, None]]);
    let lines = |text: &[u8]| text.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(lines(&std::fs::read(&path).unwrap()), 5);
    // A last line that was cut off is ignored.
    let mut torn = std::fs::read(&path).unwrap();
    let whole = torn.len();
    torn.extend(b"{\"chain\": \"sha");
    std::fs::write(&path, torn).unwrap();
    let again = Annotation::open(three(), &path, options("ben")).unwrap();
    assert_eq!(at(&again), (1, 0, 1));
    assert_eq!(std::fs::read(&path).unwrap().len(), whole);
}

#[test]
fn two_people_who_begin_at_once_share_a_file() {
    let (_dir, path) = file();
    let mut anna = Annotation::open(three(), &path, options("anna")).unwrap();
    let mut ben = Annotation::open(three(), &path, options("ben")).unwrap();
    rate(&mut anna, &[1]);
    rate(&mut ben, &[0]);
    rate(&mut anna, &[1]);
    // Both people wrote the same chain; it is read as one.
    assert_eq!(ratings(&path, "anna"), [[Some(1), Some(1), None]]);
    assert_eq!(ratings(&path, "ben"), [[Some(0), None, None]]);
}

/// Makes a chain with a score and a count of right rollouts (of 8) per step, and an outcome.
fn scored(problem: &str, facts: &[(f64, u32)], outcome: bool) -> LabelledChain {
    let mut chain = chain(problem, facts.len());
    for (step, &(score, k)) in chain.steps.iter_mut().zip(facts) {
        step.opinions.insert("prm".to_owned(), score);
        step.rollouts = Some(Rollouts {
            n: 8,
            k,
            ..Rollouts::default()
        });
    }
    chain.outcome = Some(outcome);
    chain
}

#[test]
fn chains_come_by_what_they_teach() {
    let chains = vec![
        chain("bare", 1),
        scored("sure", &[(0.99, 8), (0.95, 8)], true),
        scored("apart", &[(0.9, 0), (0.2, 0)], false),
        scored("unsure", &[(0.9, 8), (0.45, 4)], false),
        scored("convincing", &[(0.9, 6), (0.8, 4)], false),
    ];
    let by = |order, seed| {
        let (_dir, path) = file();
        let options = Options {
            order,
            seed,
            ..options("anna")
        };
        let mut annotation = Annotation::open(chains.clone(), &path, options).unwrap();
        let mut go = |chain| {
            annotation
                .act(Act::Go { chain, step: 0 })
                .unwrap()
                .problem
                .to_owned()
        };
        (0..chains.len()).map(&mut go).collect::<Vec<_>>()
    };
    assert_eq!(
        by(Order::Given, 0),
        ["bare", "sure", "apart", "unsure", "convincing"]
    );
    assert_eq!(
        by(Order::Unsure, 0),
        ["unsure", "apart", "convincing", "sure", "bare"]
    );
    assert_eq!(
        by(Order::Apart, 0),
        ["apart", "convincing", "unsure", "sure", "bare"]
    );
    assert_eq!(
        by(Order::Convincing, 0),
        ["convincing", "unsure", "apart", "bare", "sure"]
    );
    let drawn = by(Order::Random, 1);
    assert_eq!(by(Order::Random, 1), drawn);
    assert!((2..9).any(|seed| by(Order::Random, seed) != drawn));
    let mut sorted = drawn;
    sorted.sort();
    assert_eq!(sorted, ["apart", "bare", "convincing", "sure", "unsure"]);
    for order in [Order::Unsure, Order::Apart, Order::Convincing] {
        let (_dir, path) = file();
        let options = Options {
            order,
            ..options("anna")
        };
        let error = Annotation::open(three(), &path, options)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("which no chain has") && error.contains("judge"),
            "{error}"
        );
    }
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let (_dir, path) = file();
    let mut annotation = Annotation::open(three(), &path, options("anna")).unwrap();
    let refused = |result: Result<_, LabelsError>, what: &str| {
        let error = result.map(|_: usize| ()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    let mut act = |act| annotation.act(act).map(|view| view.chain);
    refused(act(Act::Rate { rating: 2 }), "invalid rating 2");
    refused(act(Act::Go { chain: 0, step: 3 }), "no step 3");
    refused(act(Act::Go { chain: 3, step: 0 }), "chain 3");
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    // The file is not an annotation, so nothing is appended to it.
    std::fs::write(&path, "{\"id\": 1}\n").unwrap();
    let error = Annotation::open(three(), &path, options("anna"))
        .unwrap_err()
        .to_string();
    assert!(error.contains(":1: "), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"{\"id\": 1}\n");
    let none = Annotation::open(Vec::new(), &path, options("anna")).unwrap_err();
    assert!(none.to_string().contains("no chains"));
    // The rated chain is not in the file, so the rating is rejected.
    let own = serde_json::to_string(&chain("a", 1)).unwrap();
    let event = r#"{"chain": "sha256:0", "step": 0, "rater": "anna", "rating": 1}"#;
    std::fs::write(&path, format!("{own}\n{event}\n")).unwrap();
    let read = open(&path, None).unwrap();
    assert_eq!((read.chains.len(), read.rejected.len()), (1, 1));
    assert!(read.rejected[0].reason.what.contains("no chain above"));
}
