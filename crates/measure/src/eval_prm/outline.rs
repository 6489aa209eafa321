//! The outline of a report: model, files and settings.

use std::path::Path;

use beamgen::eval::calibrate::{PolicyName, ScoreMap};
use beamgen::{Aggregation, Config};
use beamgen_labels::LabelRule;
use serde::{Deserialize, Serialize};

use crate::{Error, calibrate, scores};

/// The subject of a report and the settings of its measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outline {
    /// The name of the reward model, as the caller gave it.
    pub model: String,
    /// The threshold: a step with a lower score is flagged.
    pub threshold: f32,
    /// The rule that labels were derived with.
    pub rule: LabelRule,
    /// The aggregation of step scores into a chain's score for probes; `None` without probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Aggregation>,
    /// The files of labelled chains.
    pub sets: Vec<SetOutline>,
    /// The calibration whose probabilities are shown with the scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibrated>,
}

impl Outline {
    /// Describes a report on the reward model of these settings. The calibration is the named one,
    /// otherwise that of the settings, otherwise `calibration.json` next to the model.
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
        // A model without a calibration is measured without one.
        let beside = beside.filter(|path| path.is_file());
        let path = named.map(Path::to_owned).or(beside);
        Ok(Self {
            model: scores::scorer(config),
            threshold,
            rule,
            probes,
            sets,
            calibration: path
                .map(|path| {
                    let read = calibrate::read(&path)?;
                    Ok::<_, Error>(Calibrated {
                        name: path.display().to_string(),
                        policy: read.policy,
                        aggregation: read.aggregation,
                        map: read.map,
                    })
                })
                .transpose()?,
        })
    }
}

/// A calibration in a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibrated {
    /// The path of the calibration, as the caller gave it.
    pub name: String,
    /// The policy that it was fitted to.
    pub policy: PolicyName,
    /// The aggregation of step scores, up to and including a step, to which the map is applied.
    pub aggregation: Aggregation,
    /// The map from scores to probabilities.
    pub map: ScoreMap,
}

/// A file of data, as a report names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetOutline {
    /// The name of the file without its ending; unique in the report.
    pub name: String,
    /// The path, as the caller gave it.
    pub source: String,
    /// The name of the file's format.
    pub format: String,
    /// The number of records that could not be used.
    pub rejected: usize,
}
