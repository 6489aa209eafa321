//! Models of the hub: its address and cache, and the progress of downloads.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use beamgen::SolverBuilder;
use beamgen::hub::{Hub, HubConfig, Progress};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::failure::Failure;
use crate::output;
use crate::plan::size;
use crate::printable;

/// Time between lines of progress where stderr is no terminal.
const LINE: Duration = Duration::from_secs(15);

/// The hub, with the environment variables, cache and token of Python's `huggingface_hub`.
pub fn hub(offline: bool) -> Result<Hub, Failure> {
    let config = HubConfig::from_lookup(|name| std::env::var(name).ok());
    let mut config = config.map_err(beamgen::Error::from)?;
    config.offline |= offline;
    Ok(Hub::new(config).map_err(beamgen::Error::from)?)
}

/// Connects the builder to the hub if a named model is not on this machine.
pub fn attach(builder: SolverBuilder) -> Result<SolverBuilder, Failure> {
    let models = &builder.settings().models;
    let named = [&models.generator, &models.prm, &models.prm_reference];
    // A server may say that it has its model from a hub.
    let served = models.generator_server.is_some() || models.prm_server.is_some();
    if !served && named.into_iter().flatten().all(|name| name.exists()) {
        return Ok(builder);
    }
    let hub = hub(models.offline)?;
    let mut display = Display::new();
    Ok(builder.hub(hub, move |model, progress| display.show(model, progress)))
}

/// Shows progress: a bar for each file on a terminal, otherwise a line every [`LINE`].
struct Display {
    bars: Option<MultiProgress>,
    /// By model and file, because two models may have files of the same name.
    files: HashMap<(String, String), ProgressBar>,
    last_line: Instant,
}

impl Display {
    fn new() -> Self {
        Self {
            bars: std::io::stderr().is_terminal().then(MultiProgress::new),
            files: HashMap::new(),
            last_line: Instant::now(),
        }
    }

    fn show(&mut self, model: &str, progress: Progress<'_>) {
        match progress {
            Progress::Bytes { file, done, total } => self.bytes(model, file, done, total),
            Progress::Waiting { file } => {
                output::note(format_args!(
                    "{model}: another program is downloading {file}"
                ));
            }
            _ => {}
        }
    }

    fn bytes(&mut self, model: &str, file: &str, done: u64, total: Option<u64>) {
        let Some(bars) = &self.bars else {
            if self.last_line.elapsed() >= LINE {
                self.last_line = Instant::now();
                let of = total.map(|total| format!(" of {}", size(total)));
                let of = of.unwrap_or_default();
                output::note(format_args!("{model}: {file}: {}{of}", size(done)));
            }
            return;
        };
        let key = (model.to_owned(), file.to_owned());
        let bar = self.files.entry(key).or_insert_with(|| {
            let bar = bars.add(ProgressBar::new(total.unwrap_or(0)));
            let style = "  {prefix}  {bar:20} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar.set_prefix(printable::line(file).into_owned());
            bar
        });
        bar.set_position(done);
        if total == Some(done) {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressDrawTarget;

    use super::*;

    #[test]
    fn files_of_two_models_have_a_bar_each() {
        let hidden = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
        let mut display = Display {
            bars: Some(hidden),
            ..Display::new()
        };
        for (model, bytes) in [("a/b@main", 10), ("c/d@main", 20)] {
            for done in [0, bytes] {
                let total = Some(bytes);
                let file = "model.safetensors";
                display.show(model, Progress::Bytes { file, done, total });
            }
        }
        let mut lengths: Vec<_> = display.files.values().map(ProgressBar::length).collect();
        lengths.sort();
        assert_eq!(lengths, [Some(10), Some(20)]);
        assert!(display.files.values().all(ProgressBar::is_finished));
    }
}
