//! How often the answers of searches are wrong, by the score of the chosen chain.

use std::path::{Path, PathBuf};

use beamgen::eval::calibrate::{Calibration, RiskCurve, RiskPoint};
use beamgen::eval::metrics::{Interval, share};
use beamgen::eval::{Record, RunFile};
use beamgen::program::search_name;

use super::plots;
use crate::Error;

/// The answers of run files of one search.
pub struct Runs {
    /// Stands for the search; another one has another name.
    pub search: String,
    /// The score of each problem's answer, and whether it is right; `None` without an answer.
    answers: Vec<Option<(f32, bool)>>,
}

impl Runs {
    /// Reads run files.
    ///
    /// # Errors
    /// A file cannot be read, is of another search, or has no reference answers.
    pub fn read(paths: &[PathBuf]) -> Result<Self, Error> {
        let (mut search, mut answers) = (None, Vec::new());
        for path in paths {
            let (header, records) = RunFile::read::<Record>(path)?;
            let fault = |reason: &str| Error::reading(path)(reason);
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
                if record.withheld.is_some() {
                    return Err(fault("withheld answers: run it without a threshold"));
                }
                let score = record.score.filter(|_| record.answer.is_some());
                answers.push(score.map(|score| (score, right)));
            }
        }
        Ok(Self {
            search: search.unwrap_or_default(),
            answers,
        })
    }

    /// Returns how often the answers are wrong, by their score.
    #[must_use]
    pub fn curve(&self) -> RiskCurve {
        RiskCurve::of(self.search.clone(), self.answers.iter().copied())
    }

    /// Returns what a threshold keeps of the answers.
    #[must_use]
    pub fn above(&self, threshold: f32) -> Observed {
        let answers = self.answers.iter().flatten();
        let above = || answers.clone().filter(|(score, _)| *score >= threshold);
        let (given, wrong) = (above().count(), above().filter(|(_, right)| !right).count());
        Observed {
            problems: self.answers.len(),
            given,
            wrong,
            interval: share(wrong, given),
        }
    }
}

/// The answers that a threshold gives.
pub struct Observed {
    /// The number of problems.
    pub problems: usize,
    /// The number of answers given.
    pub given: usize,
    /// The number of wrong ones among them.
    pub wrong: usize,
    /// The interval of their share.
    pub interval: Option<Interval>,
}

/// Puts a curve into a calibration, in place of an earlier one of the same search.
pub fn add(calibration: &mut Calibration, curve: RiskCurve) {
    calibration
        .answers
        .retain(|known| known.search != curve.search);
    calibration.answers.push(curve);
}

/// Draws the curves over the share of problems answered; the share `wanted` is marked.
///
/// # Errors
/// A file cannot be written.
pub fn draw(folder: &Path, curves: &[(&str, RiskCurve)], wanted: f64) -> Result<(), Error> {
    let series = curves.iter().map(|(name, curve)| {
        let all = curve.problems.max(1) as f64;
        let point = |point: &RiskPoint| (point.given as f64 / all, point.risk(), None);
        ((*name).to_owned(), curve.points.iter().map(point).collect())
    });
    plots::risk(folder, &series.collect::<Vec<_>>(), wanted)
}
