//! The saved state of a run. A resumed run gives the result of an uninterrupted one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::Tensor;

use super::watch::Watch;
use crate::optim::AdamW;
use crate::tune::{Decoder, state};
use crate::{Error, Result};

/// The progress of a run. The weights and the moments of the optimiser are stored elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    /// The number of finished updates; the next one has this number plus 1.
    pub updates: usize,
    /// The number of problems taken from the endless stream of problems, which continues there.
    pub taken: usize,
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
    /// Returns the paths of the state files in the folder `work`.
    pub(super) fn in_folder(work: &Path) -> Self {
        Self {
            state: work.join("state.safetensors"),
            best: work.join("best.safetensors"),
        }
    }

    /// Restores decoder and optimiser from the saved state, and returns the progress. `None` means that no state is
    /// saved.
    ///
    /// # Errors
    /// The file is invalid or has the state of another model.
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
        // The optimiser has its own count of steps, since an update may take several.
        optimizer.restore(&saved, self.count(&saved, "optimizer_steps")?);
        Ok(Some(State {
            updates: state::step(&self.state, &saved)?,
            // Earlier versions wrote the number of taken problems under the key "drawn".
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

    /// Saves the weights, the optimiser's moments and the progress in one file.
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

    /// Saves the current weights as those of the best measurement.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn keep(&self, decoder: &Decoder) -> Result<()> {
        state::save_weights(&self.best, decoder)
    }

    /// Loads the weights of the best measurement into `decoder`.
    ///
    /// # Errors
    /// The file is invalid or has the weights of another model.
    pub(super) fn take_best(&self, decoder: &Decoder) -> Result<()> {
        decoder.restore(&state::load(&self.best, &decoder.device)?)
    }
}
