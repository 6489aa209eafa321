//! The live display on stderr: a bar on a terminal, now and then a line elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use beamgen::Event;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;
use crate::printable;
use crate::table::grouped;

/// How often a terminal's display changes.
const REDRAW: Duration = Duration::from_millis(100);
/// How often a line appears where there is no terminal; short runs stay silent.
const LINE: Duration = Duration::from_secs(15);

/// How far a run is.
pub struct Progress {
    bar: Option<ProgressBar>,
    name: String,
    unit: &'static str,
    total: usize,
    done: usize,
    graded: usize,
    correct: usize,
    started: Instant,
    shown: Instant,
}

impl Progress {
    /// For a run over `total` of what `unit` names.
    pub fn new(total: usize, unit: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template(&format!(
                "  {{prefix}}{{bar:20}} {{pos}}/{{len}} {unit}  {{msg}}",
            )) {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        Self {
            bar,
            name: String::new(),
            unit,
            total,
            done: 0,
            graded: 0,
            correct: 0,
            started: now,
            shown: now,
        }
    }

    /// Puts a name before the bar, to tell one of several runs.
    pub fn named(mut self, name: &str) -> Self {
        self.name = format!("{}  ", printable::line(name));
        if let Some(bar) = &self.bar {
            bar.set_prefix(self.name.clone());
        }
        self
    }

    /// Counts a problem that is done.
    pub fn done(&mut self, correct: Option<bool>) {
        self.done += 1;
        self.graded += usize::from(correct.is_some());
        self.correct += usize::from(correct == Some(true));
        if let Some(bar) = &self.bar {
            bar.set_position(self.done as u64);
        }
    }

    /// Sees what happens in the run.
    pub fn observe(&mut self, event: &Event<'_>) {
        let Event::Pass { rows, ledger, .. } = event else {
            return;
        };
        let every = if self.bar.is_some() { REDRAW } else { LINE };
        if self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        let tokens = ledger.generated_tokens + ledger.scored_tokens;
        let rate = tokens as f64 / self.started.elapsed().as_secs_f64();
        let accuracy = match self.graded {
            0 => String::new(),
            graded => format!(
                "  {:.1} % right so far",
                100.0 * self.correct as f64 / graded as f64
            ),
        };
        let rate = grouped(rate as u64);
        let left = left(self.done, self.total, self.started.elapsed());
        let left = left.map_or(String::new(), |left| format!("  {} left", words(left)));
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!(
                    "{rows} chains alive  {rate} tokens/s{accuracy}{left}"
                ));
            }
            None => output::note(format_args!(
                "{}{}/{} {}  {rate} tokens/s{accuracy}{left}",
                self.name, self.done, self.total, self.unit
            )),
        }
    }

    /// Lets `print` write to the terminal without tearing the bar.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

/// The time that the rest takes at the pace so far. Many problems are in flight at once, so the
/// first that are done say little: nothing until a twentieth is done, and at least three.
fn left(done: usize, total: usize, elapsed: Duration) -> Option<Duration> {
    let enough = (total / 20).clamp(3, 32);
    let rest = total.saturating_sub(done);
    (done >= enough && rest > 0).then(|| elapsed.mul_f64(rest as f64 / done as f64))
}

/// A time as people say it, rounded up.
fn words(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6000 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_told_once_enough_is_done() {
        let minute = Duration::from_secs(60);
        assert_eq!(left(0, 80, minute), None);
        assert_eq!(left(3, 80, minute), None);
        assert_eq!(left(4, 80, minute), Some(19 * minute));
        assert_eq!(left(40, 80, minute), Some(minute));
        assert_eq!(left(80, 80, minute), None);
        assert_eq!(left(1, 2, minute), None);
        assert_eq!(
            left(32, 10_000, minute).map(words).as_deref(),
            Some("5 h 11 min")
        );
        assert_eq!(words(Duration::from_millis(200)), "1 s");
        assert_eq!(words(Duration::from_secs(121)), "3 min");
    }
}
