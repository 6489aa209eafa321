//! Opens the Hugging Face hub with the settings of the environment, and shows the progress of
//! downloads.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use beamgen::SolverBuilder;
use beamgen::hub::{Hub, HubConfig, Progress};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::failure::Failure;
use crate::output;
use crate::plan::size;
use crate::printable;

/// The time between lines of progress if stderr is not a terminal.
const LINE: Duration = Duration::from_secs(15);

/// Opens the hub with the same environment variables, cache and token as Python's
/// `huggingface_hub`.
pub(crate) fn hub(offline: bool) -> Result<Hub, beamgen::Error> {
    let mut config = HubConfig::from_lookup(|name| std::env::var(name).ok())?;
    // `or` keeps the value of HF_HUB_OFFLINE, which `from_lookup` has read.
    config.offline |= offline;
    Ok(Hub::new(config)?)
}

/// Connects the builder to the hub if a named model is not on this machine.
pub(crate) fn attach(builder: SolverBuilder) -> Result<SolverBuilder, Failure> {
    let models = &builder.current_config().models;
    // A run with local models must not fail because of a wrong variable of the hub.
    if !models.may_need_hub() {
        return Ok(builder);
    }
    let hub = hub(models.offline)?;
    let mut display = Display::new();
    Ok(builder.hub(hub, move |model, progress| display.show(model, progress)))
}

/// Shows progress: a bar for each file on a terminal, otherwise a line every [`LINE`].
pub(crate) struct Display {
    bars: Option<MultiProgress>,
    /// By model and file, because two models may have files of the same name.
    files: HashMap<(String, String), ProgressBar>,
    /// The bytes so far and the total, if known, of each unfinished file; used if stderr is not a
    /// terminal.
    under_way: BTreeMap<String, (u64, Option<u64>)>,
    last_line: Instant,
}

impl Display {
    pub(crate) fn new() -> Self {
        Self {
            bars: std::io::stderr().is_terminal().then(MultiProgress::new),
            files: HashMap::new(),
            under_way: BTreeMap::new(),
            last_line: Instant::now(),
        }
    }

    pub(crate) fn show(&mut self, model: &str, progress: Progress) {
        match progress {
            Progress::Bytes { file, done, total } => self.bytes(model, &file, done, total),
            Progress::Waiting { file } => {
                self.say(format_args!(
                    "{model}: another program is downloading {file}"
                ));
            }
            Progress::Limited { wait } => {
                self.say(format_args!(
                    "{model}: the hub limits requests; trying again in {} s",
                    wait.as_secs()
                ));
            }
            _ => {}
        }
    }

    /// Prints a line, above the bars if there are any.
    fn say(&self, line: fmt::Arguments<'_>) {
        match &self.bars {
            Some(bars) => bars.suspend(|| output::note(line)),
            None => output::note(line),
        }
    }

    fn bytes(&mut self, model: &str, file: &str, done: u64, total: Option<u64>) {
        let Some(bars) = &self.bars else {
            if total == Some(done) {
                self.under_way.remove(file)
            } else {
                self.under_way.insert(file.to_owned(), (done, total))
            };
            if self.last_line.elapsed() >= LINE && !self.under_way.is_empty() {
                self.last_line = Instant::now();
                output::note(format_args!("{model}: {}", listed(&self.under_way)));
            }
            return;
        };
        let key = (model.to_owned(), file.to_owned());
        let bar = self.files.entry(key).or_insert_with(|| {
            let bar = bars.add(ProgressBar::new(total.unwrap_or(0)));
            let style = "  {bar:20} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left  {wide_msg}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar.set_message(printable::line(file).into_owned());
            bar
        });
        bar.set_position(done);
        if total == Some(done) {
            bar.finish_and_clear();
        }
    }
}

/// Formats the progress of several files in one line: `a: 1.0 GiB of 4.0 GiB, b: 2.0 GiB`.
fn listed(files: &BTreeMap<String, (u64, Option<u64>)>) -> String {
    let files = files.iter().map(|(file, (done, total))| {
        let of = total.map(|total| format!(" of {}", size(total)));
        format!("{file}: {}{}", size(*done), of.unwrap_or_default())
    });
    files.collect::<Vec<_>>().join(", ")
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
                display.show(
                    model,
                    Progress::Bytes {
                        file: file.to_owned(),
                        done,
                        total,
                    },
                );
            }
        }
        let mut lengths: Vec<_> = display.files.values().map(ProgressBar::length).collect();
        lengths.sort();
        assert_eq!(lengths, [Some(10), Some(20)]);
        assert!(display.files.values().all(ProgressBar::is_finished));
    }

    #[test]
    fn files_under_way_share_a_line() {
        let mut display = Display {
            bars: None,
            ..Display::new()
        };
        for (file, done, total) in [
            ("b", 1, Some(8)),
            ("a", 2, None),
            ("c", 3, Some(8)),
            ("b", 4, Some(8)),
            ("c", 8, Some(8)),
        ] {
            display.show(
                "m",
                Progress::Bytes {
                    file: file.to_owned(),
                    done,
                    total,
                },
            );
        }
        let line = listed(&display.under_way);
        assert_eq!(
            line,
            format!("a: {}, b: {} of {}", size(2), size(4), size(8))
        );
    }
}
