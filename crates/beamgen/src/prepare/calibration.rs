//! Finds the calibration of the reward model, and checks that the settings can use it.

use std::path::PathBuf;

use beamgen_eval::calibrate::Calibration;

use super::reward::RewardModels;
use crate::calibrated::{ScoreAs, beside, open};
use crate::source::Source;
use crate::{Config, Error};

pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) calibration: Calibration,
}

/// Finds the calibration that the settings name. If they name none but need one, looks next to the
/// model.
pub(super) fn find(config: &Config, model: Option<&Source>) -> Result<Option<Found>, Error> {
    let models = &config.models;
    let needed = models.score_as != ScoreAs::Raw || models.max_error > 0.0;
    let useful = needed || config.search.confidence > 0.0;
    let path = match (&models.calibration, model) {
        (Some(path), _) => Some(path.clone()),
        // A broken file next to the model must not stop runs that need no calibration, so it is
        // read only if needed.
        (None, Some(Source::Local { path: model, .. })) if useful => {
            Some(beside(model)).filter(|path| path.is_file())
        }
        _ => None,
    };
    let Some(path) = path else {
        return if needed {
            Err(Error::NoCalibration)
        } else {
            Ok(None)
        };
    };
    let calibration = open(&path)?;
    Ok(Some(Found { path, calibration }))
}

impl Found {
    /// Fails if the settings need quantiles that the calibration lacks, or if the quantiles do not
    /// fit the model. `reward` is the reward model, if this process runs it.
    pub(super) fn check(
        &self,
        score_as: ScoreAs,
        reward: Option<&RewardModels>,
    ) -> Result<(), Error> {
        let wanted = matches!(score_as, ScoreAs::Median | ScoreAs::Lower);
        let width = reward.map(|reward| reward.prm.config.hidden_size);
        let reason = match (&self.calibration.quantiles, width) {
            (None, _) if wanted => "has no quantiles".to_owned(),
            // A wrong width is an error even if no setting needs quantiles, because the loaded
            // model computes them anyway.
            (Some(head), Some(width)) if width != head.width() => format!(
                "it reads hidden states of {} values, and the reward model has {width}",
                head.width()
            ),
            (Some(_), None) if wanted => {
                "its quantiles are read of hidden states, which this scorer does not show"
                    .to_owned()
            }
            _ => return Ok(()),
        };
        let path = self.path.clone();
        Err(Error::Calibration { path, reason })
    }
}
