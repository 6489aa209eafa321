//! The numbers of a report on pools, computed from the rows.

use std::collections::BTreeMap;

use serde::Serialize;

use super::outline::{Outline, Rightness};
use super::ranking::{Ranked, ranking};
use super::row::Row;
use super::selector::{Counts, Selector, all};
use crate::rerank::Share;

/// The largest number of disagreements in the list of a set.
const LISTED: usize = 50;

/// A report on pools of solutions.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The description of the files, scorers and checkers.
    #[serde(skip)]
    pub outline: Outline,
    /// The main table, with a row for each selector of each set.
    pub table: Vec<Ranked>,
    /// The accuracy of the main selectors at smaller numbers of solutions, one item for each set.
    pub over_k: Vec<Curve>,
    /// The disagreements of file and grader, for sets in which both have verdicts.
    pub disagreements: Vec<Disagreements>,
    /// The sizes of each set, and how many of its solutions are right.
    pub counts: Vec<Count>,
}

/// The accuracy of the main selectors on a set, over k.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The name of the set.
    pub set: String,
    /// The names of the selectors, in the order of [`AtK::accuracy`].
    pub selectors: Vec<String>,
    /// The accuracies at k = 1, 2, 4 and so on, and at the largest number of solutions.
    pub at: Vec<AtK>,
}

/// The accuracy if only `k` solutions of a problem existed.
#[derive(Clone, Debug, Serialize)]
pub struct AtK {
    /// The number of solutions to choose among, at most the largest number of a problem.
    pub k: usize,
    /// The number of problems with at least k solutions; only these are included.
    pub problems: usize,
    /// The accuracy of each selector, in the order of [`Curve::selectors`].
    pub accuracy: Vec<Share>,
}

/// The solutions whose verdicts by file and grader differ.
#[derive(Clone, Debug, Serialize)]
pub struct Disagreements {
    /// The name of the set.
    pub set: String,
    /// The number of solutions that the file calls right and the grader wrong.
    pub file_right: usize,
    /// The number of solutions that the file calls wrong and the grader right.
    pub grader_right: usize,
    /// The number of disagreements in which the grader cannot decide and therefore counts the solution as wrong.
    pub cannot_tell: usize,
    /// The first disagreements; an answer of a problem is listed only once.
    pub listed: Vec<Disagreement>,
}

/// An answer whose verdicts by file and grader differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disagreement {
    /// The id of the problem, from the file or its position in the file.
    pub id: String,
    /// The answer of the solution; `None` if the solution has none.
    pub answer: Option<String>,
    /// The reference answer of the problem; `None` if the file has none.
    pub reference: Option<String>,
    /// True if the file calls the answer right; the grader then calls it wrong, or cannot decide.
    pub file: bool,
}

/// The sizes of a set and of groups of its solutions.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    /// The name of the set.
    pub set: String,
    /// The number of problems in the file, up to the limit of the call.
    pub problems: usize,
    /// The number of solutions of all problems together.
    pub solutions: usize,
    /// The smallest and the largest number of solutions of one problem.
    pub range: (usize, usize),
    /// The number of solutions that are right.
    pub right: usize,
    /// The number of right solutions with a wrong step; `None` if nothing is known about steps.
    pub right_unsound: Option<usize>,
    /// The number of solutions with a step that a checker proves wrong; `None` without checkers.
    pub vetoed: Option<usize>,
    /// The number of problems in which right and wrong answers share the most votes. The first of these answers in
    /// the file wins.
    pub tied: usize,
}

impl Report {
    pub(super) fn of(outline: Outline, rows: &[Row]) -> Self {
        let mut report = Self {
            outline,
            table: Vec::new(),
            over_k: Vec::new(),
            disagreements: Vec::new(),
            counts: Vec::new(),
        };
        let outline = &report.outline;
        for (number, set) in outline.sets.iter().enumerate() {
            let rows: Vec<&Row> = rows.iter().filter(|row| row.set == number).collect();
            let selectors = all(outline, number, &rows);
            report.table.extend(ranking(&set.name, &selectors, &rows));
            report.over_k.push(curve(&set.name, &selectors, &rows));
            report.counts.push(count(&set.name, &rows));
            // The file and the grader can only disagree if both have verdicts.
            let both = rows.iter().any(|row| row.graded.is_some());
            if both && set.rightness == Rightness::File {
                report.disagreements.push(disagreements(&set.name, &rows));
            }
        }
        report
    }
}

fn curve(set: &str, selectors: &[Selector], rows: &[&Row]) -> Curve {
    let selectors: Vec<&Selector> = selectors.iter().filter(|of| of.is_over_k()).collect();
    let most = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let powers = std::iter::successors(Some(1), |k| Some(k * 2)).take_while(|&k| k < most);
    Curve {
        set: set.to_owned(),
        selectors: selectors.iter().map(|of| of.name.clone()).collect(),
        at: powers
            .chain([most])
            .map(|k| at_k(k, &selectors, rows))
            .collect(),
    }
}

fn at_k(k: usize, selectors: &[&Selector], rows: &[&Row]) -> AtK {
    let accuracy = selectors.iter().map(|selector| {
        // A problem with fewer than k solutions has no value, and the mean leaves it out.
        let values = rows
            .iter()
            .enumerate()
            .filter_map(|(number, row)| selector.value(row, k, Counts::Right, number as u64));
        Share::over(&values.collect::<Vec<_>>())
    });
    AtK {
        k,
        problems: rows.iter().filter(|row| row.len() >= k).count(),
        accuracy: accuracy.collect(),
    }
}

fn count(set: &str, rows: &[&Row]) -> Count {
    let knows_steps = rows.iter().any(|row| row.knows_steps());
    let checked = rows.iter().any(|row| row.fails.is_some());
    let lengths: Vec<usize> = rows.iter().map(|row| row.len()).collect();
    Count {
        set: set.to_owned(),
        problems: rows.len(),
        solutions: lengths.iter().sum(),
        range: (
            lengths.iter().copied().min().unwrap_or(0),
            lengths.iter().copied().max().unwrap_or(0),
        ),
        right: number(rows, is_right),
        right_unsound: knows_steps
            .then(|| number(rows, |row, at| is_right(row, at) && row.is_unsound(at))),
        vetoed: checked.then(|| number(rows, Row::is_vetoed)),
        tied: rows.iter().filter(|row| is_tied(row)).count(),
    }
}

/// Returns the number of solutions for which `counts` holds, over all problems.
fn number(rows: &[&Row], counts: impl Fn(&Row, usize) -> bool) -> usize {
    rows.iter()
        .map(|row| (0..row.len()).filter(|&at| counts(row, at)).count())
        .sum()
}

fn is_right(row: &Row, at: usize) -> bool {
    row.right.as_bytes()[at] == b'1'
}

/// Returns whether both a right and a wrong answer have the largest number of votes.
fn is_tied(row: &Row) -> bool {
    // The number of votes of each distinct answer, and whether it is right.
    let mut votes: BTreeMap<u32, (usize, bool)> = BTreeMap::new();
    for sample in row.samples() {
        if let Some(class) = sample.class {
            // Equal answers have equal verdicts, so the first solution decides.
            votes.entry(class).or_insert((0, sample.correct)).0 += 1;
        }
    }
    let most = votes.values().map(|of| of.0).max();
    let mut top = votes.values().filter(|of| Some(of.0) == most);
    let first = top.next().map(|of| of.1);
    top.any(|of| Some(of.1) != first)
}

fn disagreements(set: &str, rows: &[&Row]) -> Disagreements {
    let mut all = Disagreements {
        set: set.to_owned(),
        file_right: 0,
        grader_right: 0,
        cannot_tell: 0,
        listed: Vec::new(),
    };
    for row in rows {
        let graded = row.graded.iter().flat_map(|graded| graded.bytes());
        for (at, (file, grader)) in row.right.bytes().zip(graded).enumerate() {
            let (file, grader_right) = (file == b'1', grader == b'1');
            if file == grader_right {
                continue;
            }
            all.file_right += usize::from(file);
            all.grader_right += usize::from(!file);
            all.cannot_tell += usize::from(grader == b'?');
            let one = Disagreement {
                id: row.id.clone(),
                answer: row.answers[at].clone(),
                reference: row.reference.clone(),
                file,
            };
            if all.listed.len() < LISTED && !all.listed.contains(&one) {
                all.listed.push(one);
            }
        }
    }
    all
}
