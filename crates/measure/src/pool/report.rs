//! The figures of a report on pools, computed from the rows.

use std::collections::BTreeMap;

use serde::Serialize;

use super::outline::{Outline, Rightness};
use super::ranking::{Ranked, ranking};
use super::row::Row;
use super::selector::{Counts, Selector, all};
use crate::rerank::Share;

/// The largest number of disagreements that a report lists.
const LISTED: usize = 50;

/// A report on pools of solutions.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The outline: files and scorers.
    #[serde(skip)]
    pub outline: Outline,
    /// The main table: a row for each selector of each set.
    pub table: Vec<Ranked>,
    /// The accuracy of the main selectors over smaller numbers of solutions, for each set.
    pub over_k: Vec<Curve>,
    /// The disagreements of file and grader, for each set with both.
    pub disagreements: Vec<Disagreements>,
    /// The contents of each set in numbers.
    pub counts: Vec<Count>,
}

/// The accuracy over k of a set.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The name of the set.
    pub set: String,
    /// The names of the selectors.
    pub selectors: Vec<String>,
    /// The accuracies by rising k.
    pub at: Vec<AtK>,
}

/// The accuracy at k solutions.
#[derive(Clone, Debug, Serialize)]
pub struct AtK {
    /// The number k of solutions.
    pub k: usize,
    /// The number of problems with at least k solutions.
    pub problems: usize,
    /// The accuracy of each selector, in the order of [`Curve::selectors`].
    pub accuracy: Vec<Share>,
}

/// The solutions on which the file and the grader disagree.
#[derive(Clone, Debug, Serialize)]
pub struct Disagreements {
    /// The name of the set.
    pub set: String,
    /// The number of solutions that the file calls right and the grader wrong.
    pub file_right: usize,
    /// The number of solutions that the file calls wrong and the grader right.
    pub grader_right: usize,
    /// The number of disagreements in which the grader cannot tell; the grader then counts a
    /// solution as wrong.
    pub cannot_tell: usize,
    /// The first disagreements, each answer of a problem once.
    pub listed: Vec<Disagreement>,
}

/// An answer on which the file and the grader disagree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disagreement {
    /// The id of the problem.
    pub id: String,
    /// The answer of the solution; `None` if it has none.
    pub answer: Option<String>,
    /// The reference answer of the problem, if the file has one.
    pub reference: Option<String>,
    /// Whether the file calls the answer right.
    pub file: bool,
}

/// The contents of a set in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    /// The name of the set.
    pub set: String,
    /// The number of problems of the set.
    pub problems: usize,
    /// The number of solutions of all problems.
    pub solutions: usize,
    /// The smallest and the largest number of solutions of a problem.
    pub range: (usize, usize),
    /// The number of solutions that are right.
    pub right: usize,
    /// The number of right solutions with a wrong step; `None` without facts on steps.
    pub right_unsound: Option<usize>,
    /// The number of solutions in which a checker proves a step wrong; `None` without checkers.
    pub vetoed: Option<usize>,
    /// The number of problems whose majority vote is a tie of right and wrong answers, decided by
    /// the order in the file.
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
            // Only a file with verdicts and references can disagree with the grader.
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
        // Problems with fewer than k solutions have no value and are left out of the mean.
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

/// Counts the solutions of all problems that satisfy a condition.
fn number(rows: &[&Row], counts: impl Fn(&Row, usize) -> bool) -> usize {
    rows.iter()
        .map(|row| (0..row.len()).filter(|&at| counts(row, at)).count())
        .sum()
}

fn is_right(row: &Row, at: usize) -> bool {
    row.right.as_bytes()[at] == b'1'
}

/// Whether right and wrong answers share the most votes.
fn is_tied(row: &Row) -> bool {
    // The votes of each distinct answer, and whether its first solution is right.
    let mut votes: BTreeMap<u32, (usize, bool)> = BTreeMap::new();
    for sample in row.samples() {
        if let Some(class) = sample.class {
            // Equal answers are equally right, so the first solution decides.
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
