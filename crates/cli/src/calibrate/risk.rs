//! How often the answers of searches are wrong, by the score of the chosen chain.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use beamgen::eval::calibrate::{Calibration, RiskCurve};
use beamgen::eval::metrics::{Interval, share};
use beamgen::eval::{Record, RunFile};
use beamgen::search_name;

use super::{plots, write};
use crate::args::CalibrateArgs;
use crate::failure::Failure;
use crate::output;
use crate::printable;
use crate::printed;
use crate::report::write::Output;

/// An answer's score, and whether it is right; `None` without an answer.
type Answer = Option<(f32, bool)>;

/// Adds the curve of the runs to the calibration, and looks at what a threshold keeps elsewhere.
pub fn add(
    args: &CalibrateArgs,
    path: &Path,
    mut calibration: Calibration,
    to: &mut Output,
) -> Result<(), Failure> {
    let (search, answers) = read(&args.runs)?;
    let curve = RiskCurve::of(search.clone(), answers.iter().copied());
    let mut series = vec![("fitted".to_owned(), points(&curve))];
    let mut out = io::stdout().lock();
    let point = curve.point(args.max_error);
    if !args.json {
        let all = curve.points.last();
        let wrong = all.map_or(0.0, |all| 100.0 * all.risk());
        writeln!(
            out,
            "{} problems: {wrong:.1} % of all answers are wrong",
            curve.problems
        )?;
        match point {
            Some(point) => writeln!(
                out,
                "at most {:.1} % wrong: a threshold of {:.4} gives {} answers, {} of them wrong",
                100.0 * args.max_error,
                point.threshold,
                point.given,
                point.wrong
            )?,
            None => writeln!(out, "no threshold keeps {:.1} %", 100.0 * args.max_error)?,
        }
    }
    if !args.check.is_empty() {
        let (other, checked) = read(&args.check)?;
        if other != search {
            return Err(Failure::Input(
                "--check is of another search than --runs: its settings or models differ"
                    .to_owned(),
            ));
        }
        let Some(point) = point else {
            return Err(Failure::Input(format!(
                "no threshold keeps an error of {} on the runs",
                args.max_error
            )));
        };
        let observed = Observed::of(&checked, point.threshold);
        series.push(("checked".to_owned(), points(&RiskCurve::of(other, checked))));
        match args.json {
            true => output::json_line(&mut out, &observed.json(args.max_error, point.threshold))?,
            false => observed.write(&mut out)?,
        }
    }
    if let Some(folder) = &args.plots {
        plots::risk(folder, series, args.max_error)?;
    }
    calibration.answers.retain(|known| known.search != search);
    calibration.answers.push(curve);
    write(to, &calibration)?;
    if !args.json {
        writeln!(
            out,
            "written to {}",
            printable::line(&path.display().to_string())
        )?;
    }
    Ok(out.flush()?)
}

/// Share answered and share wrong, point by point.
fn points(curve: &RiskCurve) -> Vec<(f64, f64)> {
    let all = curve.problems.max(1) as f64;
    let point =
        |point: &beamgen::eval::calibrate::RiskPoint| (point.given as f64 / all, point.risk());
    curve.points.iter().map(point).collect()
}

/// What a threshold gives on other problems.
struct Observed {
    problems: usize,
    given: usize,
    wrong: usize,
    interval: Option<Interval>,
}

impl Observed {
    fn of(answers: &[Answer], threshold: f32) -> Self {
        let answers_given = || {
            answers
                .iter()
                .flatten()
                .filter(|(score, _)| *score >= threshold)
        };
        let given = answers_given().count();
        let wrong = answers_given().filter(|(_, right)| !right).count();
        Self {
            problems: answers.len(),
            given,
            wrong,
            interval: share(wrong, given),
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let share = |of: usize, all: usize| 100.0 * of as f64 / all.max(1) as f64;
        let interval = self.interval.map_or(String::new(), |of| {
            format!(" ({})", printed::in_percent(of))
        });
        writeln!(
            out,
            "checked on {} problems: {} answers given ({:.1} %), {} of them wrong = {:.1} %{interval}",
            self.problems,
            self.given,
            share(self.given, self.problems),
            self.wrong,
            share(self.wrong, self.given)
        )
    }

    fn json(&self, wanted: f64, threshold: f32) -> serde_json::Value {
        serde_json::json!({
            "wanted": wanted, "threshold": threshold, "problems": self.problems, "given": self.given,
            "wrong": self.wrong, "interval": self.interval.map(|of| (of.low, of.high)),
        })
    }
}

/// The answers of run files of one search, and what stands for it.
fn read(paths: &[PathBuf]) -> Result<(String, Vec<Answer>), Failure> {
    let (mut search, mut answers) = (None, Vec::new());
    for path in paths {
        let (header, records) = RunFile::read::<Record>(path)?;
        let fault = |reason: &str| Failure::Input(format!("{}: {reason}", path.display()));
        let header =
            header.ok_or_else(|| fault("has no header: give a run file of solve --out"))?;
        let name = search_name(&header.settings);
        if *search.get_or_insert_with(|| name.clone()) != name {
            return Err(fault(
                "is of another search than the one before: its settings or models differ",
            ));
        }
        for record in records {
            let right = record
                .correct
                .ok_or_else(|| fault("has problems without a reference answer"))?;
            let withheld = record.withheld.is_some();
            if withheld {
                return Err(fault("withheld answers: run it without a threshold"));
            }
            let answered = record.answer.is_some();
            answers.push(
                record
                    .score
                    .filter(|_| answered)
                    .map(|score| (score, right)),
            );
        }
    }
    Ok((search.unwrap_or_default(), answers))
}
