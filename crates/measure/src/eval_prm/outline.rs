//! The subject of a report.

use std::path::{Path, PathBuf};

use beamgen::eval::calibrate::{PolicyName, ScoreMap};
use beamgen::{Aggregation, Config};
use beamgen_labels::LabelRule;
use serde::{Deserialize, Serialize};

use crate::{Error, calibrate, scores};

/// The subject of a report, and how it was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outline {
    /// The reward model, as it was named.
    pub model: String,
    /// A score below it flags a step.
    pub threshold: f32,
    /// The rule that labels were derived with.
    pub rule: LabelRule,
    /// How step scores become a chain's, if there are probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Aggregation>,
    /// The files.
    pub sets: Vec<SetOutline>,
    /// The calibration whose probabilities are shown with the scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibrated>,
}

impl Outline {
    /// Describes the report on a reward model with these settings. Its calibration is the named one,
    /// or that of the settings, or the one next to the model.
    ///
    /// # Errors
    /// The calibration cannot be read.
    pub fn new(
        config: &Config,
        calibration: Option<&Path>,
        threshold: f32,
        rule: LabelRule,
        probes: Option<Aggregation>,
        sets: Vec<SetOutline>,
    ) -> Result<Self, Error> {
        let models = &config.models;
        let named = calibration.or(models.calibration.as_deref());
        let beside = models.prm.as_ref().map(|prm| prm.join("calibration.json"));
        let beside = beside.filter(|path| path.is_file());
        let path = named.map(Path::to_owned).or(beside);
        let calibrated = |path: PathBuf| {
            let read = calibrate::read(&path)?;
            Ok::<_, Error>(Calibrated {
                name: path.display().to_string(),
                policy: read.policy,
                aggregation: read.aggregation,
                map: read.map,
            })
        };
        Ok(Self {
            model: scores::scorer(config),
            threshold,
            rule,
            probes,
            sets,
            calibration: path.map(calibrated).transpose()?,
        })
    }
}

/// A calibration in a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibrated {
    /// The file as it was named.
    pub name: String,
    /// The policy that it was fitted to.
    pub policy: PolicyName,
    /// The score of the chain so far that it takes.
    pub aggregation: Aggregation,
    /// The map from scores to probabilities.
    pub map: ScoreMap,
}

/// A file of data, as a report names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetOutline {
    /// The file's name without its ending; unlike all others of the report.
    pub name: String,
    /// The path, as it was named.
    pub source: String,
    /// The name of its format.
    pub format: String,
    /// The number of records that could not be used.
    pub rejected: usize,
}
