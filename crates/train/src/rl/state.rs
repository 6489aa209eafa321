//! The saved state of a run, from which it resumes as if it had never been interrupted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::Tensor;

use super::watch::Watch;
use crate::optim::AdamW;
use crate::tune::{Decoder, state};
use crate::{Error, Result};

/// The progress of a run, apart from weights and moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    /// The number of updates done.
    pub updates: usize,
    /// The number of problems taken from the stream of problems.
    pub taken: usize,
    /// The memory of the rule for early stopping.
    pub watch: Watch,
    /// Whether the run stopped because the held-out accuracy fell.
    pub stopped: bool,
}

/// The files of a run's state.
#[derive(Clone, Debug)]
pub(super) struct Files {
    state: PathBuf,
    best: PathBuf,
}

impl Files {
    /// Names the files in a `work` folder.
    pub(super) fn in_folder(work: &Path) -> Self {
        Self {
            state: work.join("state.safetensors"),
            best: work.join("best.safetensors"),
        }
    }

    /// Restores decoder and optimiser from the saved state; returns `None` if nothing is saved.
    ///
    /// # Errors
    /// The file is broken or belongs to another model.
    pub(super) fn restore(
        &self,
        decoder: &Decoder,
        optimizer: &mut AdamW,
    ) -> Result<Option<State>> {
        if !self.state.exists() {
            return Ok(None);
        }
        let saved = state::load(&self.state, &decoder.device)?;
        decoder.restore(&saved)?;
        // Optimiser steps and updates differ: an update may take several.
        optimizer.restore(&saved, self.count(&saved, "optimizer_steps")?);
        Ok(Some(State {
            updates: state::step(&self.state, &saved)?,
            // The key of earlier versions, kept so that their runs can be resumed.
            taken: self.count(&saved, "drawn")?,
            watch: Watch {
                best: state::number(&saved, "best")?,
                best_update: self.count(&saved, "best_update")?,
                best_reward: state::number(&saved, "best_reward")?,
                fallen: self.count(&saved, "fallen")?,
                since: (
                    state::number(&saved, "since")?.unwrap_or(0.0),
                    self.count(&saved, "since_updates")?,
                ),
            },
            stopped: self.count(&saved, "stopped")? > 0,
        }))
    }

    fn count(&self, saved: &HashMap<String, Tensor>, name: &str) -> Result<usize> {
        let number = state::number(saved, name)?.ok_or_else(|| {
            Error::Checkpoint(self.state.clone(), format!("saved state lacks `{name}`"))
        })?;
        Ok(number as usize)
    }

    /// Saves weights, moments and progress.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn save(&self, decoder: &Decoder, optimizer: &AdamW, at: &State) -> Result<()> {
        let watch = &at.watch;
        let mut numbers = vec![
            ("optimizer_steps", optimizer.steps() as f64),
            ("drawn", at.taken as f64),
            ("best_update", watch.best_update as f64),
            ("fallen", watch.fallen as f64),
            ("since", watch.since.0),
            ("since_updates", watch.since.1 as f64),
            ("stopped", f64::from(u8::from(at.stopped))),
        ];
        numbers.extend(watch.best.map(|best| ("best", best)));
        numbers.extend(watch.best_reward.map(|reward| ("best_reward", reward)));
        state::save(&self.state, decoder, optimizer, at.updates, &numbers)
    }

    /// Saves the current weights as the best ones.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn keep(&self, decoder: &Decoder) -> Result<()> {
        state::save_weights(&self.best, decoder)
    }

    /// Restores the best weights.
    ///
    /// # Errors
    /// The file is broken or belongs to another model.
    pub(super) fn take_best(&self, decoder: &Decoder) -> Result<()> {
        decoder.restore(&state::load(&self.best, &decoder.device)?)
    }
}
