//! Counts of data that others labelled. The data is not part of the repository; without it these
//! tests say so and pass.

use std::path::{Path, PathBuf};
use std::process::Command;

use beamgen_labels::{LabelRule, Labelled, Neutral, Rejected, open, parse};

/// A data file, from the folder `shared/data` beside the repository or one above it (where a git
/// worktree lies deeper).
pub fn data(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = ["../shared/data", "../../shared/data"]
        .iter()
        .map(|folder| root.join(folder).join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: no shared/data/{name} beside the repository");
    }
    found
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
    neutral: Neutral::Half,
    rollouts: beamgen_labels::RolloutLabel::Hard,
    first_error_only: false,
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
    let Ok(unpacked) = Command::new("xz").arg("-dc").arg(&path).output() else {
        eprintln!("skipped: no xz on this machine");
        return;
    };
    assert!(unpacked.status.success());
    let read = parse(unpacked.stdout.as_slice(), "prmbench", None).unwrap();
    assert_eq!((read.format.name, read.records), ("prmbench", 6216));
    let rejected = |what: &str| {
        let with = |one: &&Rejected| one.reason.what.contains(what);
        read.rejected.iter().filter(with).count()
    };
    assert_eq!(rejected("points past the last step"), 100);
    assert_eq!(rejected("\"modified_process\": a text is empty"), 3);
    assert_eq!(read.chains.len(), 6216 - 103);
    let classes: std::collections::BTreeSet<_> = read.chains.iter().map(|c| &c.class).collect();
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
