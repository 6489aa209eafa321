//! The report of pools as Markdown, the file `README.md`.

use std::fmt::Write;

use beamgen::eval::pool::SUBSETS;

use super::outline::{Outline, ScorerOutline, SetOutline};
use super::ranking::COLUMNS;
use super::report::{Count, Curve, Disagreement, Disagreements, Report};
use crate::report::about::About;
use crate::report::chart::Plot;
use crate::report::markdown::{Column, code, columns, table};
use crate::rerank::Share;
use crate::{counted, grouped};

pub(super) fn text(about: &About, report: &Report, plots: &[Plot]) -> String {
    let mut out = about.heading(&format!("Pools of {}", about.date()), "");
    head(&mut out, &report.outline);
    for (number, set) in report.outline.sets.iter().enumerate() {
        let _ = writeln!(out, "\n## Pool: {}\n", set.name);
        if let Some(count) = report.counts.get(number) {
            out.push_str(&counts(count));
        }
        let rows = report.table.iter().filter(|row| row.set == set.name);
        columns(&mut out, &COLUMNS, rows);
        Plot::show(&mut out, plots, number);
        if let Some(curve) = report
            .over_k
            .iter()
            .find(|curve| curve.set == set.name && curve.at.len() > 1)
        {
            over_k(&mut out, curve);
        }
        if let Some(all) = report.disagreements.iter().find(|all| all.set == set.name) {
            disagreements(&mut out, all);
        }
    }
    out
}

const SETS: [Column<SetOutline>; 5] = [
    ("pool", |set| set.name.clone()),
    ("from", |set| code(&set.source)),
    ("layout", |set| set.layout.clone()),
    ("right by", |set| set.rightness.name().to_owned()),
    ("answers by", |set| {
        let by = if set.gives_answers {
            "the file"
        } else {
            "beamgen, from the texts"
        };
        by.to_owned()
    }),
];

const SCORERS: [Column<ScorerOutline>; 3] = [
    ("scorer", |scorer| code(&scorer.name)),
    ("model", |scorer| code(&scorer.model)),
    ("solutions refused", |scorer| grouped(scorer.refused as u64)),
];

fn head(out: &mut String, outline: &Outline) {
    columns(out, &SETS, outline.sets.iter());
    if !outline.scorers.is_empty() {
        out.push('\n');
        columns(out, &SCORERS, outline.scorers.iter());
    }
    let _ = write!(
        out,
        "\nNothing was sampled: solutions were there, and every solution was scored once. Accuracies are means over problems, \
         among all solutions of each; every interval is a 95 % interval over problems: Wilson's for plain shares and where all \
         problems agree, else a percentile bootstrap. Differences are paired by problem. \"best\" takes the solution with the \
         highest score, \"weighted\" the answer with the largest sum of scores, \"majority\" the answer that most solutions \
         give. A solution that a scorer refused comes last and has no weight. Answers are equal by their exact value. Of equal scores the first in the file wins; of equal votes the answer \
         with the best solution, and without scores the one that comes first. An answer that its text states comes before one \
         that was guessed. Lengths are in characters. \"pass@k\" is a right one among them if there is any: a bound, no selector."
    );
    if !outline.boundaries.is_empty() {
        let _ = write!(out, " Steps end at {}.", marks(&outline.boundaries));
    }
    if !outline.starts.is_empty() {
        let _ = write!(out, " Steps begin at {}.", marks(&outline.starts));
    }
    if outline.sets.iter().any(|set| set.log_odds) {
        out.push_str(
            " A file whose scores are not all between 0 and 1 is taken to have log-odds: votes are weighed by their sigmoid.",
        );
    }
    if !outline.checkers.is_empty() {
        let names: Vec<String> = outline.checkers.iter().map(|name| code(name)).collect();
        let _ = write!(
            out,
            " \"veto\" leaves out solutions with a step that a checker ({}) proves wrong, unless that is all of a problem.",
            names.join(", ")
        );
    }
    out.push_str(
        " \"right and sound\" asks for a right answer from a solution without a wrong step: by the file's labels, else by the \
         checkers.\n\n\
         `index.html` is this report for a browser, `results.json` has all settings and numbers, `rows.jsonl` every solution's \
         answer and scores; `beamgen bench --redraw` writes everything but `rows.jsonl` anew from it.\n",
    );
}

fn counts(count: &Count) -> String {
    let (least, most) = count.range;
    let each = if least == most {
        format!("{most} each")
    } else {
        format!("{least} to {most} each")
    };
    let mut text = format!(
        "{}, {} ({each}); {} right",
        counted(count.problems, "problem", "problems"),
        counted(count.solutions, "solution", "solutions"),
        grouped(count.right as u64)
    );
    if let Some(unsound) = count.right_unsound {
        let _ = write!(
            text,
            ", {} of them with a wrong step",
            grouped(unsound as u64)
        );
    }
    if let Some(vetoed) = count.vetoed {
        let _ = write!(
            text,
            "; checkers prove a step wrong in {}",
            counted(vetoed, "solution", "solutions")
        );
    }
    let tied = counted(count.tied, "problem", "problems");
    let _ = write!(
        text,
        ". In {tied} right and wrong answers share the most votes: the order in the file decides that majority vote"
    );
    text + ".\n\n"
}

fn over_k(out: &mut String, curve: &Curve) {
    let _ = writeln!(
        out,
        "\n### k of the solutions of {}\n\nAll subsets of k solutions count, not the first k: pass@k by the unbiased \
         estimator, best in closed form, votes by {SUBSETS} drawn subsets a problem. Problems with fewer than k solutions are \
         left out. Per cent, with intervals.\n",
        curve.set
    );
    let mut head = vec!["k", "problems"];
    head.extend(curve.selectors.iter().map(String::as_str));
    let rows = curve.at.iter().map(|at| {
        let shares = at.accuracy.iter().copied().map(Share::shown);
        [at.k.to_string(), at.problems.to_string()]
            .into_iter()
            .chain(shares)
            .collect()
    });
    table(out, &head, rows);
}

const DISAGREEMENTS: [Column<Disagreement>; 4] = [
    ("problem", |one| code(&short(&one.id))),
    ("answer", |one| optional(one.answer.as_ref())),
    ("reference", |one| optional(one.reference.as_ref())),
    ("right by the file", |one| {
        if one.file { "yes" } else { "no" }.to_owned()
    }),
];

fn optional(text: Option<&String>) -> String {
    text.map_or("-".to_owned(), |text| code(&short(text)))
}

/// Returns the first 60 characters of a text, so that a long answer does not widen the table.
fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

fn disagreements(out: &mut String, all: &Disagreements) {
    let _ = writeln!(
        out,
        "\n### The file and beamgen's grader\n\nThe file's word counts. {} right by the file and not by the grader, {} the \
         other way round; of {} the grader cannot tell.",
        counted(all.file_right, "solution is", "solutions are"),
        grouped(all.grader_right as u64),
        grouped(all.cannot_tell as u64)
    );
    if !all.listed.is_empty() {
        out.push_str("\nThe first of them, each answer of a problem once:\n\n");
        columns(out, &DISAGREEMENTS, all.listed.iter());
    }
}

/// Formats the texts that mark step boundaries as code, separated by commas.
fn marks(marks: &[String]) -> String {
    let marks = marks
        .iter()
        .map(|mark| code(&mark.escape_debug().to_string()));
    marks.collect::<Vec<_>>().join(", ")
}
