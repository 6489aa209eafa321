//! The saved state of a run: a safetensors file with weights, moments and the number of finished updates.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use candle_core::{Device, Tensor};

use super::Decoder;
use crate::optim::AdamW;
use crate::write::{first_line, write_tensors};
use crate::{Error, Result};

const STEP: &str = "step";
/// The least time between two saves of a run that saves by time.
pub(crate) const SAVE: Duration = Duration::from_secs(300);

pub(crate) fn load(path: &Path, device: &Device) -> Result<HashMap<String, Tensor>> {
    candle_core::safetensors::load(path, device)
        .map_err(|error| Error::Checkpoint(path.to_owned(), first_line(&error)))
}

pub(crate) fn step(path: &Path, state: &HashMap<String, Tensor>) -> Result<usize> {
    let step = state
        .get(STEP)
        .ok_or_else(|| Error::Checkpoint(path.to_owned(), "saved state lacks `step`".into()))?;
    Ok(step.to_scalar::<u32>()? as usize)
}

/// Returns a number that [`save`] stored under `name`; `None` if the file has no such number.
pub(crate) fn number(state: &HashMap<String, Tensor>, name: &str) -> Result<Option<f64>> {
    let saved = state.get(name).map(Tensor::to_scalar::<f64>);
    Ok(saved.transpose()?)
}

/// Writes a state after `step` updates. `numbers` are additional values, to be read by [`number`].
pub(crate) fn save(
    path: &Path,
    decoder: &Decoder,
    optimizer: &AdamW,
    step: usize,
    numbers: &[(&str, f64)],
) -> Result<()> {
    let mut all: HashMap<String, Tensor> = optimizer.state().collect();
    for (name, var) in decoder.vars() {
        all.insert(name.to_owned(), var.as_tensor().clone());
    }
    // Numbers are stored as tensors so that the whole state is one file, which is replaced atomically.
    all.insert(STEP.into(), Tensor::new(step as u32, &Device::Cpu)?);
    for &(name, number) in numbers {
        all.insert(name.to_owned(), Tensor::new(number, &Device::Cpu)?);
    }
    write_tensors(path, &all)
}

/// Writes only the trained weights, without the moments that a resume would need.
pub(crate) fn save_weights(path: &Path, decoder: &Decoder) -> Result<()> {
    let vars = decoder.vars();
    let all = vars.map(|(name, var)| (name.to_owned(), var.as_tensor().clone()));
    write_tensors(path, &all.collect())
}
