//! A scorer whose scores are probabilities of success, by a calibration.

use std::path::{Path, PathBuf};

use beamgen_eval::calibrate::{Calibration, PolicyName, ScoreMap};
use beamgen_search::{
    Aggregation, BatchId, ConfigError, Executed, Memory, Problem, ScoreError, ScoreId, ScoreItem,
    ScoreResult, Scored, Scorer, Submitted,
};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::Error;
use crate::fingerprint::CALIBRATION;

/// The kind of score that a reward model with a calibration gives a step.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(
    serialize_all = "kebab-case",
    parse_err_ty = ConfigError,
    parse_err_fn = ScoreAs::unknown
)]
pub enum ScoreAs {
    /// The reward model's score as it is.
    #[default]
    Raw,
    /// The probability of success that the calibration assigns to the score.
    Calibrated,
    /// The median of the probability of success, from the hidden state.
    Median,
    /// The low quantile (10 %) of the probability of success, from the hidden state.
    Lower,
}

impl ScoreAs {
    fn unknown(name: &str) -> ConfigError {
        ConfigError::Unknown {
            field: "score_as",
            value: name.to_owned(),
            known: Self::VARIANTS.join(", "),
        }
    }
}

/// The maximum size of a calibration file, in bytes.
const MAX_BYTES: u64 = 64 << 20;

pub(crate) fn open(path: &Path) -> Result<Calibration, Error> {
    let text = beamgen_files::read_text_file(path, MAX_BYTES).map_err(Error::unreadable(path))?;
    Calibration::parse(&text).map_err(|reason| Error::Calibration {
        path: path.to_owned(),
        reason,
    })
}

/// Returns the path where a model's calibration is expected: in the folder of the model, or next to
/// a model that is a file.
pub(crate) fn beside(model: &Path) -> PathBuf {
    if model.is_dir() {
        return model.join(CALIBRATION);
    }
    let mut name = model.as_os_str().to_owned();
    // The file's own extension stays in the name, so that two files of one folder have two
    // calibrations.
    name.push(".");
    name.push(CALIBRATION);
    PathBuf::from(name)
}

/// Returns warnings if the calibration was fitted to another reward model, policy or aggregation.
/// The aggregation is not compared if it is `None`, which means that the search does not use the
/// calibration's map of scores.
pub(crate) fn mismatches(
    calibration: &Calibration,
    path: &Path,
    prm: &str,
    policy: &PolicyName,
    aggregation: Option<Aggregation>,
) -> Vec<String> {
    let path = path.display();
    let mut notes = Vec::new();
    if calibration.prm != prm {
        notes.push(format!(
            "warning: {path} was fitted to another reward model ({}, not {prm}): fit it again, or its probabilities are wrong",
            calibration.prm
        ));
    }
    if calibration.policy != *policy {
        notes.push(format!(
            "warning: {path} was fitted to the policy {}, but this is {policy}: its probabilities may be off",
            calibration.policy
        ));
    }
    if let Some(aggregation) = aggregation.filter(|own| *own != calibration.aggregation) {
        notes.push(format!(
            "warning: {path} was fitted for aggregation {}, but this search has {aggregation}: its probabilities may be off",
            calibration.aggregation
        ));
    }
    notes
}

/// A scorer that converts the scores of another one by a calibration.
pub(crate) struct Calibrated {
    pub(crate) scorer: Box<dyn Scorer + Send>,
    pub(crate) map: ScoreMap,
    pub(crate) score_as: ScoreAs,
}

impl Calibrated {
    fn read(&self, result: ScoreResult) -> ScoreResult {
        let read = |scored: Scored| Scored {
            probabilities: self.scores(&scored),
            ..scored
        };
        result.map(|all| all.into_iter().map(|one| one.map(read)).collect())
    }

    fn scores(&self, scored: &Scored) -> Vec<Option<f32>> {
        let scores = scored.probabilities.iter().enumerate();
        let read = scores.map(|(at, score)| {
            let score = (*score)?;
            Some(match self.score_as {
                ScoreAs::Raw => score,
                ScoreAs::Calibrated => self.map.apply(score),
                // Without quantiles the step has no score, since the raw score is on another scale.
                ScoreAs::Median => scored.quantiles.get(at).map(|quantiles| quantiles[1])?,
                ScoreAs::Lower => scored.quantiles.get(at).map(|quantiles| quantiles[0])?,
            })
        });
        read.collect()
    }
}

impl Scorer for Calibrated {
    fn open(&mut self, problem: &Problem, key: u64) -> Result<ScoreId, ScoreError> {
        self.scorer.open(problem, key)
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        self.scorer.fork(id)
    }

    fn release(&mut self, id: ScoreId) {
        self.scorer.release(id);
    }

    fn executed(&self) -> Executed {
        self.scorer.executed()
    }

    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult {
        let scored = self.scorer.score(items);
        self.read(scored)
    }

    fn submit(&mut self, batch: BatchId, items: &[ScoreItem<'_>]) -> Submitted {
        match self.scorer.submit(batch, items) {
            Submitted::Done(scored) => Submitted::Done(self.read(scored)),
            Submitted::Pending => Submitted::Pending,
        }
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, ScoreResult)> {
        let collected = self.scorer.collect(wait).into_iter();
        collected
            .map(|(batch, scored)| (batch, self.read(scored)))
            .collect()
    }

    fn evict_borrowed(&mut self) {
        self.scorer.evict_borrowed();
    }

    fn memory(&self) -> Memory {
        self.scorer.memory()
    }
}
