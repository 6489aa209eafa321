//! Everything that is reported, computed from the rows.

use std::collections::BTreeMap;

use serde::Serialize;

use super::outline::{Outline, Rightness};
use super::ranking::{Ranked, ranking};
use super::row::Row;
use super::selector::{Counts, Selector, all};
use crate::rerank::Share;

/// Most disagreements that a report lists.
const LISTED: usize = 50;

/// A report on pools of solutions.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The subject of the report.
    #[serde(skip)]
    pub outline: Outline,
    /// The table.
    pub table: Vec<Ranked>,
    /// The main selectors over smaller numbers of solutions, for each set.
    pub over_k: Vec<Curve>,
    /// Solutions that the file and the grader judge differently, for each set with both.
    pub disagreements: Vec<Disagreements>,
    /// The numbers of problems, solutions and solutions with a wrong step of each set.
    pub counts: Vec<Count>,
}

/// The accuracy of k solutions of a set.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The name of the set.
    pub set: String,
    /// The selectors.
    pub selectors: Vec<String>,
    /// By rising k.
    pub at: Vec<AtK>,
}

/// The accuracy of k solutions.
#[derive(Clone, Debug, Serialize)]
pub struct AtK {
    /// The number of solutions.
    pub k: usize,
    /// The number of problems that have as many.
    pub problems: usize,
    /// The accuracy of each selector.
    pub accuracy: Vec<Share>,
}

/// Where the file and the grader say different things.
#[derive(Clone, Debug, Serialize)]
pub struct Disagreements {
    /// The name of the set.
    pub set: String,
    /// The number of solutions that the file calls right and the grader wrong.
    pub file_right: usize,
    /// The number of solutions that the file calls wrong and the grader right.
    pub grader_right: usize,
    /// The number of those of which the grader cannot tell; it counts them as wrong.
    pub cannot_tell: usize,
    /// The first of them, each answer of a problem once.
    pub listed: Vec<Disagreement>,
}

/// An answer that the file and the grader judge differently.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disagreement {
    /// The problem.
    pub id: String,
    /// The answer.
    pub answer: Option<String>,
    /// The reference answer.
    pub reference: Option<String>,
    /// Whether the file calls it right.
    pub file: bool,
}

/// The contents of a set.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    /// The name of the set.
    pub set: String,
    /// The number of problems.
    pub problems: usize,
    /// The number of solutions.
    pub solutions: usize,
    /// The number of solutions of the problem that has fewest, and of the one that has most.
    pub range: (usize, usize),
    /// The number of solutions that are right.
    pub right: usize,
    /// The number of right solutions with a wrong step, where steps were looked at.
    pub right_unsound: Option<usize>,
    /// The number of solutions with a step that a checker proves wrong, if checkers looked.
    pub vetoed: Option<usize>,
    /// The number of problems whose majority vote is a tie of right and wrong answers, so that the
    /// order in the file decides.
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
    let at = |k: usize| {
        let accuracy = |selector: &&Selector| {
            let value = |(number, row): (usize, &&Row)| {
                selector.value(row, k, Counts::Right, number as u64)
            };
            Share::over(
                &rows
                    .iter()
                    .enumerate()
                    .filter_map(value)
                    .collect::<Vec<_>>(),
            )
        };
        AtK {
            k,
            problems: rows.iter().filter(|row| row.len() >= k).count(),
            accuracy: selectors.iter().map(accuracy).collect(),
        }
    };
    Curve {
        set: set.to_owned(),
        selectors: selectors.iter().map(|of| of.name.clone()).collect(),
        at: powers.chain([most]).map(at).collect(),
    }
}

fn count(set: &str, rows: &[&Row]) -> Count {
    let number = |counts: &dyn Fn(&Row, usize) -> bool| {
        let of_row = |row: &&Row| (0..row.len()).filter(|&at| counts(row, at)).count();
        rows.iter().map(of_row).sum()
    };
    let is_right = |row: &Row, at: usize| row.right.as_bytes()[at] == b'1';
    let knows_steps = rows.iter().any(|row| row.knows_steps());
    let checked = rows.iter().any(|row| row.fails.is_some());
    let lengths = || rows.iter().map(|row| row.len());
    Count {
        set: set.to_owned(),
        problems: rows.len(),
        solutions: lengths().sum(),
        range: (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0)),
        right: number(&is_right),
        right_unsound: knows_steps
            .then(|| number(&|row, at| is_right(row, at) && row.is_unsound(at))),
        vetoed: checked.then(|| number(&|row, at| row.is_vetoed(at))),
        tied: rows.iter().filter(|row| is_tied(row)).count(),
    }
}

/// Whether right and wrong answers have the most votes.
fn is_tied(row: &Row) -> bool {
    // By class: its votes, and whether the solution that stands for it is right.
    let mut votes: BTreeMap<u32, (usize, bool)> = BTreeMap::new();
    for sample in row.samples() {
        if let Some(class) = sample.class {
            votes.entry(class).or_insert((0, sample.correct)).0 += 1;
        }
    }
    let most = votes.values().map(|of| of.0).max();
    let has = |right| votes.values().any(|of| Some(of.0) == most && of.1 == right);
    has(true) && has(false)
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
