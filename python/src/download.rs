//! Models by name: the hub, with the environment of Python's `huggingface_hub`, and the progress of
//! downloads.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use beamgen::hub::{Hub, HubConfig, Progress};
use beamgen::{Error, SolverBuilder};

use crate::wait::Told;

/// How far the download of a file is: model, file, bytes so far, bytes of all if the hub says.
pub type Download = (String, String, u64, Option<u64>);

/// Time between two reports of a file that is not done.
const PAUSE: Duration = Duration::from_millis(100);

/// Connects the builder to the hub if a named model is not on this machine.
pub fn attach<T: 'static>(
    builder: SolverBuilder,
    tell: Sender<Told<Download, T>>,
) -> Result<SolverBuilder, Error> {
    let models = &builder.settings().models;
    let named = [&models.generator, &models.prm, &models.prm_reference];
    // A server may say that it has its model from a hub.
    let served = models.generator_server.is_some() || models.prm_server.is_some();
    if !served && named.into_iter().flatten().all(|name| name.exists()) {
        return Ok(builder);
    }
    let mut config = HubConfig::from_lookup(|name| std::env::var(name).ok())?;
    config.offline |= models.offline;
    let mut told = Instant::now();
    Ok(builder.hub(Hub::new(config)?, move |model, progress| {
        if let Progress::Bytes { file, done, total } = progress
            && (total == Some(done) || told.elapsed() >= PAUSE)
        {
            told = Instant::now();
            // Nobody listens any more after an interrupt.
            let _ = tell.send(Told::Note((model.to_owned(), file.to_owned(), done, total)));
        }
    }))
}
