//! Tests that count published data sets. The data is not in the repository; the tests are skipped
//! without it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use beamgen_labels::{
    LabelRule, Labelled, Neutral, Rejected, Stat, normalised, open, parse, problems_of, split,
};
use beamgen_test_support::{Missing, shared, skip};

/// Returns the path of a file in `shared/data`, or `None` and reports that the test is skipped.
#[track_caller]
fn data(name: &str) -> Option<PathBuf> {
    shared(&format!("data/{name}"))
}

/// Decompresses an `.xz` file.
#[track_caller]
fn unpacked(path: &Path) -> Option<Vec<u8>> {
    let Ok(output) = Command::new("xz").arg("-dc").arg(path).output() else {
        skip(Missing::Tool, "no xz on this machine");
        return None;
    };
    assert!(output.status.success());
    Some(output.stdout)
}

fn labels(read: &Labelled, rule: &LabelRule) -> [usize; 3] {
    let mut counts = [0; 3];
    for label in read
        .chains
        .iter()
        .flat_map(|chain| rule.labels(chain))
        .flatten()
    {
        counts[if label == 1.0 {
            0
        } else if label == 0.0 {
            2
        } else {
            1
        }] += 1;
    }
    counts
}

const HALF: LabelRule = LabelRule {
    sources: Vec::new(),
    neutral: Neutral::Half,
    rollouts: beamgen_labels::RolloutLabel::Hard,
    first_error_only: false,
    agree: None,
};

#[test]
fn the_ratings_of_prm800k_are_all_there() {
    let Some(path) = data("prm800k_holdout.jsonl") else {
        return;
    };
    let read = open(&path, None).unwrap();
    assert_eq!((read.format.name, read.rejected.len()), ("ratings", 0));
    assert_eq!(read.chains.len(), 1818);
    assert_eq!(labels(&read, &HALF), [8596, 639, 1566]);
    let dropped = LabelRule {
        neutral: Neutral::Drop,
        ..HALF
    };
    assert_eq!(labels(&read, &dropped), [8596, 0, 1566]);
}

#[test]
fn the_parts_of_process_bench_have_their_published_counts() {
    for (name, wrong, right, lucky) in [("gsm8k", 207, 193, 7), ("math", 594, 406, 94)] {
        let Some(path) = data(&format!("processbench_{name}.json")) else {
            return;
        };
        let read = open(&path, None).unwrap();
        assert_eq!((read.format.name, read.rejected.len()), ("processbench", 0));
        let errors = read.chains.iter().filter(|c| c.first_error != Some(-1));
        let lucky_ones = errors.clone().filter(|c| c.outcome == Some(true)).count();
        assert_eq!((errors.count(), lucky_ones), (wrong, lucky), "{name}");
        assert_eq!(read.chains.len(), wrong + right);
        let source = format!("processbench/{name}");
        assert!(
            read.chains
                .iter()
                .all(|c| c.source.as_ref() == Some(&source))
        );
    }
}

#[test]
fn items_of_prm_bench_that_point_past_their_end_are_rejected() {
    let Some(path) = data("prmbench.jsonl.xz") else {
        return;
    };
    let Some(unpacked) = unpacked(&path) else {
        return;
    };
    let read = parse(unpacked.as_slice(), "prmbench", None).unwrap();
    assert_eq!((read.format.name, read.records), ("prmbench", 6216));
    let rejected = |what: &str| {
        let with = |one: &&Rejected| one.reason.what.contains(what);
        read.rejected.iter().filter(with).count()
    };
    assert_eq!(rejected("points past the last step"), 100);
    assert_eq!(rejected("\"modified_process\": a text is empty"), 3);
    assert_eq!(read.chains.len(), 6216 - 103);
    let classes: BTreeSet<_> = read.chains.iter().map(|c| &c.class).collect();
    assert_eq!(classes.len(), 9);
}

#[test]
fn the_mistakes_of_big_bench_are_all_there() {
    let Some(path) = data("bigbench_mistake_arithmetic.jsonl") else {
        return;
    };
    let read = open(&path, None).unwrap();
    assert_eq!(
        (read.format.name, read.rejected.len()),
        ("bigbench-mistake", 0)
    );
    let wrong = read
        .chains
        .iter()
        .filter(|c| c.first_error != Some(-1))
        .count();
    assert_eq!((read.chains.len(), wrong), (300, 238));
}

#[test]
fn repeats_and_contradictions_of_prm800k_are_counted() {
    let Some(path) = data("prm800k_holdout.jsonl") else {
        return;
    };
    let read = open(&path, None).unwrap();
    let stat = Stat::of(&read.chains, &read.rejected, &HALF);
    assert_eq!(
        (stat.chains, stat.problems, stat.labels),
        (1818, 216, 10801)
    );
    assert_eq!(
        (stat.positive, stat.between, stat.negative),
        (8596, 639, 1566)
    );
    assert_eq!((stat.distinct, stat.repeats), (9213, 1588));
    assert_eq!((stat.contradictions, stat.disputed), (238, 67));
}

/// The numbers of problems that two files share were also counted by other programs: 16, 56 and 0.
/// The notes on the data say 15 instead of 16, since they treat `4^a` and `4^{a}` as different.
#[test]
fn overlaps_of_benchmarks_are_found() {
    let names = [
        "prm800k_holdout.jsonl",
        "processbench_math.json",
        "math500_first250.jsonl",
        "prmbench.jsonl.xz",
    ];
    let Some(mut paths) = names.into_iter().map(data).collect::<Option<Vec<_>>>() else {
        return;
    };
    let Some(prm_bench) = unpacked(&paths[3]) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    paths[3] = dir.path().join("prmbench.jsonl");
    std::fs::write(&paths[3], prm_bench).unwrap();
    let sets: Vec<_> = paths
        .iter()
        .map(|path| problems_of(path).unwrap())
        .collect();
    let shared = |a: usize, b: usize| sets[a].intersection(&sets[b]).count();
    assert_eq!(
        [sets[0].len(), sets[1].len(), sets[2].len()],
        [216, 955, 250]
    );
    assert_eq!((shared(0, 1), shared(0, 2), shared(1, 2)), (16, 0, 56));
    assert_eq!((shared(0, 3), shared(1, 3), shared(2, 3)), (7, 70, 157));
}

#[test]
fn no_problem_of_a_benchmark_is_trained_on() {
    let (Some(chains), Some(benchmark)) = (
        data("prm800k_holdout.jsonl"),
        data("processbench_math.json"),
    ) else {
        return;
    };
    let read = open(&chains, None).unwrap();
    let exclude = problems_of(&benchmark).unwrap();
    let parts = split(&read.chains, 0.1, 0, &exclude);
    let problems = |part: &[usize]| -> BTreeSet<String> {
        let texts = part.iter().map(|&i| normalised(&read.chains[i].problem));
        texts.collect()
    };
    let (train, test) = (problems(&parts.train), problems(&parts.test));
    assert_eq!(test.len(), 22);
    assert!(train.is_disjoint(&test) && train.is_disjoint(&exclude));
    assert_eq!(train.len() + test.len() + parts.problems[2], 216);
    assert_eq!(parts.problems[2] + test.intersection(&exclude).count(), 16);
}
