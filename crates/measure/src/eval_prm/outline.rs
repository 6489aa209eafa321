//! The outline of an evaluation: the reward model, the files of chains and the settings.

use std::path::Path;

use beamgen::eval::calibrate::{PolicyName, ScoreMap};
use beamgen::{Aggregation, Config};
use beamgen_labels::LabelRule;
use serde::{Deserialize, Serialize};

use crate::{Error, calibrate, scores};

/// The description of an evaluation. A report is computed from the outline and the rows only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outline {
    /// The reward model as named by the settings, for the reader of the report.
    pub model: String,
    /// The score below which a step is flagged as wrong.
    pub threshold: f32,
    /// The rule that labels were derived with.
    pub rule: LabelRule,
    /// The aggregation of step scores into the score of a chain in probes; `None` without probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Aggregation>,
    /// The files of labelled chains, in the order of the report.
    pub sets: Vec<SetOutline>,
    /// The calibration whose probabilities are shown with the scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibrated>,
}

impl Outline {
    /// Describes an evaluation of the reward model in `config`. The calibration is `calibration`, else that of
    /// `config`, else the file `calibration.json` in the model's folder, if it exists.
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
        // Only the default file may be missing: a named calibration must exist.
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
    /// The path of the calibration file, as given by the caller.
    pub name: String,
    /// The policy that it was fitted to.
    pub policy: PolicyName,
    /// The aggregation of the scores up to a step into the input of the map.
    pub aggregation: Aggregation,
    /// The map from scores to probabilities.
    pub map: ScoreMap,
}

/// A file of data, as a report names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetOutline {
    /// The name of the file without its extension, made unique in the report by a number.
    pub name: String,
    /// The path of the file, as given by the caller.
    pub source: String,
    /// The name of the format that the file was read in.
    pub format: String,
    /// The number of records that could not be used.
    pub rejected: usize,
}
