//! The share of wrong answers in run files, by the score of the chosen chain.

use std::path::{Path, PathBuf};

use beamgen::eval::calibrate::{Calibration, Margin, Pause, RiskCurve, pauses};
use beamgen::eval::metrics::{Interval, share};
use beamgen::eval::profile::Profile;
use beamgen::eval::{Record, RunFile};
use beamgen::program::search_name;
use beamgen::strategy::SearchConfig;

use super::plots;
use crate::Error;

/// The chance of a slot below which a step is rejected early.
const CHANCE: f64 = 0.05;

/// The answers in one or more run files of one search.
pub struct Runs {
    /// The key of the search, a fingerprint of its settings and models.
    pub search: String,
    /// The score of each problem's answer, and whether it is right; `None` without an answer.
    answers: Vec<Option<(f32, bool)>>,
    profile: Profile,
    /// The pauses of early rejection, if the runs recorded trees.
    pauses: Vec<Pause>,
}

impl Runs {
    /// Reads run files.
    ///
    /// # Errors
    /// A file cannot be read, is of another search than the first file, or lacks a reference answer.
    pub fn read(paths: &[PathBuf]) -> Result<Self, Error> {
        let (mut search, mut answers) = (None, Vec::new());
        let mut profile = Profile::default();
        let mut paused = Vec::new();
        for path in paths {
            let (header, records) = RunFile::read::<Record>(path)?;
            let header = header.ok_or_else(|| {
                Error::reading(path)("has no header: give a run file of solve --out")
            })?;
            let name = search_name(&header.settings);
            let settings = header.settings.get("search");
            let settings = settings
                .and_then(|search| serde_json::from_value::<SearchConfig>(search.clone()).ok());
            let settings = settings.filter(|search| search.early_rejection > 0);
            if *search.get_or_insert_with(|| name.clone()) != name {
                return Err(Error::reading(path)(
                    "belongs to another search than the file before: give files with the same settings and models",
                ));
            }
            for record in records {
                let right = record.correct.ok_or_else(|| {
                    Error::reading(path)(
                        "has problems without a reference answer: solve problems with answers",
                    )
                })?;
                // A threshold withholds low answers, whose part of the curve would be missing.
                if record.withheld.is_some() {
                    return Err(Error::reading(path)(
                        "withheld answers: run it without a threshold",
                    ));
                }
                profile.add(&record);
                if let (Some(tree), Some(search)) = (&record.tree, &settings) {
                    paused.extend(pauses(tree, search));
                }
                // A problem without an answer is neither right nor wrong; it only lowers the share of answered
                // problems.
                let score = record.score.filter(|_| record.answer.is_some());
                answers.push(score.map(|score| (score, right)));
            }
        }
        Ok(Self {
            search: search.unwrap_or_default(),
            answers,
            profile,
            pauses: paused,
        })
    }

    /// Returns the counts of given and wrong answers at every threshold, with the profile of the searches.
    #[must_use]
    pub fn curve(&self) -> RiskCurve {
        RiskCurve {
            profile: Some(self.profile.clone()),
            ..RiskCurve::of(self.search.clone(), self.answers.iter().copied())
        }
    }

    /// Returns the margin of early rejection beyond which a step reaches a slot with less than 5 % chance, and the
    /// number of steps that it was learnt from. The outer `None`: the runs have no trees with paused steps.
    #[must_use]
    pub fn margin(&self) -> Option<(usize, Option<Margin>)> {
        let steps = self.pauses.len();
        (steps > 0).then(|| (steps, Margin::of(&self.pauses, CHANCE)))
    }

    /// Counts the answers with a score of at least `threshold`.
    #[must_use]
    pub fn above(&self, threshold: f32) -> Observed {
        let answers = self.answers.iter().flatten();
        let above = answers.filter(|(score, _)| *score >= threshold);
        let right: Vec<bool> = above.map(|&(_, right)| right).collect();
        let (given, wrong) = (right.len(), right.iter().filter(|right| !**right).count());
        Observed {
            problems: self.answers.len(),
            given,
            wrong,
            interval: share(wrong, given),
        }
    }
}

/// The counts of [`Runs::above`] at one threshold.
pub struct Observed {
    /// The number of problems, including those without an answer.
    pub problems: usize,
    /// The number of answers with a score of at least the threshold.
    pub given: usize,
    /// The number of wrong answers among `given`, by the references of the run files.
    pub wrong: usize,
    /// The share of wrong answers with its 95 % interval; `None` if no answer is given.
    pub interval: Option<Interval>,
}

/// Adds a curve to a calibration. A curve of the same search is replaced.
pub fn add(calibration: &mut Calibration, curve: RiskCurve) {
    calibration
        .answers
        .retain(|known| known.search != curve.search);
    calibration.answers.push(curve);
}

/// Draws the share of wrong answers over the share of problems answered, with a line at `wanted`.
///
/// # Errors
/// A file cannot be written.
pub fn draw(folder: &Path, curves: &[(&str, RiskCurve)], wanted: f64) -> Result<(), Error> {
    let series = curves.iter().map(|(name, curve)| {
        let all = curve.problems.max(1) as f64;
        (
            (*name).to_owned(),
            curve
                .points
                .iter()
                .map(|point| (point.given as f64 / all, point.risk(), None))
                .collect(),
        )
    });
    plots::risk(folder, &series.collect::<Vec<_>>(), wanted)
}
