//! Shows the progress of a run on stderr: a bar on a terminal, or else a line every 15 seconds.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use beamgen::Event;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;
use crate::printable;
use crate::table::{counted, grouped};

/// The minimum time between updates of the bar.
const REDRAW: Duration = Duration::from_millis(100);
/// The time between lines if stderr is not a terminal. A shorter run prints no line.
const LINE: Duration = Duration::from_secs(15);
/// The time before a part's rate is shown. Tokens are counted when their step closes, so the rate
/// is zero during the first passes.
const SETTLED: Duration = Duration::from_secs(2);

/// The bar and a message. indicatif cuts the message at the terminal's width, because a wrapped
/// line would not be erased completely.
const BAR: &str = "  {bar:20} {wide_msg}";

/// The progress of a run.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    name: String,
    unit: &'static str,
    total: usize,
    done: usize,
    /// The work of the whole run, in an arbitrary unit: only `work_done / work` is used.
    work: f64,
    work_done: f64,
    work_each: f64,
    started: Instant,
    /// The number of graded problems in the current part.
    graded: usize,
    correct: usize,
    part_started: Instant,
    /// The tokens per second and the number of chains when a pass was last shown; empty before
    /// that.
    pace: String,
    shown: Instant,
}

impl Progress {
    /// Starts the progress of a run over `total` items. `unit` is the plural noun for the items.
    pub(crate) fn new(total: usize, unit: &'static str) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self::on(is_terminal.then(ProgressDrawTarget::stderr), total, unit)
    }

    /// Starts the progress as [`new`](Self::new) does, but shows nothing if `quiet`.
    pub(crate) fn unless(quiet: bool, total: usize, unit: &'static str) -> Self {
        if quiet {
            // Without any bar, lines would be printed, so the bar exists but is hidden.
            Self::on(Some(ProgressDrawTarget::hidden()), total, unit)
        } else {
            Self::new(total, unit)
        }
    }

    /// Starts with a bar if `terminal` is given, or with lines if not.
    fn on(terminal: Option<ProgressDrawTarget>, total: usize, unit: &'static str) -> Self {
        let bar = terminal.map(|terminal| {
            let bar = ProgressBar::with_draw_target(Some(total as u64), terminal);
            // The template is constant and valid. If it were not, the default style would do.
            if let Ok(style) = ProgressStyle::with_template(BAR) {
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
            work: total as f64,
            work_done: 0.0,
            work_each: 1.0,
            started: now,
            graded: 0,
            correct: 0,
            part_started: now,
            pace: String::new(),
            shown: now,
        }
    }

    /// Sets the work of the whole run, if its parts differ in the work per item.
    pub(crate) fn with_work(mut self, work: f64) -> Self {
        self.work = work;
        self
    }

    /// Begins a part of the run, with the name to show and the work per item. The rate and the
    /// share of right answers start again.
    pub(crate) fn part(&mut self, name: &str, work_each: f64) {
        self.name = printable::line(name).into_owned();
        self.work_each = work_each;
        (self.graded, self.correct) = (0, 0);
        self.pace.clear();
        self.part_started = Instant::now();
    }

    /// Counts a finished item. `correct` is `None` for an item that is not graded.
    pub(crate) fn done(&mut self, correct: Option<bool>) {
        self.done += 1;
        self.work_done += self.work_each;
        self.graded += usize::from(correct.is_some());
        self.correct += usize::from(correct == Some(true));
        if let Some(bar) = &self.bar {
            bar.set_position(self.done as u64);
        }
        if self.is_due() {
            self.show();
        }
    }

    /// Updates the display after a forward pass, unless the last update was too recent.
    pub(crate) fn observe(&mut self, event: &Event<'_>) {
        let Event::Pass { rows, ledger, .. } = event else {
            return;
        };
        if self.is_due() {
            let tokens = ledger.generated_tokens + ledger.scored_tokens;
            let rate = rate(tokens, self.part_started.elapsed());
            let is_bar = self.bar.is_some();
            let alive = is_bar.then(|| counted(*rows, "chain alive", "chains alive"));
            self.pace = joined(rate.into_iter().chain(alive));
            self.show();
        }
    }

    /// Returns whether an update is due. If so, the caller must show one, since the next interval
    /// starts now.
    fn is_due(&mut self) -> bool {
        let every = if self.bar.is_some() { REDRAW } else { LINE };
        let is_due = self.shown.elapsed() >= every;
        if is_due {
            self.shown = Instant::now();
        }
        is_due
    }

    fn show(&self) {
        match &self.bar {
            Some(bar) => bar.set_message(self.message()),
            None => output::note(self.message()),
        }
    }

    /// Returns the message. The most important parts come first, since a narrow terminal cuts off
    /// the end.
    fn message(&self) -> String {
        let share = self.work_done / self.work;
        let left = left(self.done, self.total, share, self.started.elapsed());
        let accuracy = (self.graded > 0).then(|| {
            let share = 100.0 * self.correct as f64 / self.graded as f64;
            format!("{share:.1} % right so far")
        });
        let parts = [
            Some(format!("{}/{} {}", self.done, self.total, self.unit)),
            Some(self.name.clone()),
            left.map(|left| format!("{} left", words(left))),
            accuracy,
            Some(self.pace.clone()),
        ];
        joined(parts.into_iter().flatten())
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Hides the bar while `print` writes to the terminal.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

/// Joins the parts with blanks, without the empty ones.
fn joined(parts: impl Iterator<Item = String>) -> String {
    let said: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    said.join("  ")
}

/// Formats the tokens per second; `None` before [`SETTLED`].
fn rate(tokens: u64, elapsed: Duration) -> Option<String> {
    let rate = tokens as f64 / elapsed.as_secs_f64();
    (elapsed >= SETTLED).then(|| format!("{} tokens/s", grouped(rate as u64)))
}

/// Estimates the remaining time from the share of the work that is done. Many problems run at once,
/// so the first finished ones say little about the pace. There is no estimate before a twentieth of
/// the problems is done, and at least 3.
fn left(done: usize, total: usize, share: f64, elapsed: Duration) -> Option<Duration> {
    // 32 finished problems are enough even in a run over thousands.
    let enough = (total / 20).clamp(3, 32);
    let is_told = done >= enough && done < total && share > 0.0;
    is_told.then(|| elapsed.mul_f64((1.0 - share).max(0.0) / share))
}

/// Formats a time as seconds, minutes or hours, rounded up.
fn words(time: Duration) -> String {
    words_of(time.as_secs_f64())
}

/// Formats seconds as [`words`] does.
pub(crate) fn words_of(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6000 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    #[test]
    fn the_time_left_is_told_once_enough_is_done() {
        let minute = Duration::from_secs(60);
        let left = |done, total| left(done, total, done as f64 / total as f64, minute);
        assert_eq!(left(0, 80), None);
        assert_eq!(left(3, 80), None);
        assert_eq!(left(4, 80), Some(19 * minute));
        assert_eq!(left(40, 80), Some(minute));
        assert_eq!(left(80, 80), None);
        assert_eq!(left(1, 2), None);
        let long = left(32, 10_000).map(words);
        assert_eq!(long.as_deref(), Some("5 h 11 min"));
        assert_eq!(words(Duration::from_millis(200)), "1 s");
        assert_eq!(words(Duration::from_secs(121)), "3 min");
    }

    #[test]
    fn the_rate_is_told_once_steps_have_closed() {
        assert_eq!(rate(20, Duration::from_millis(900)), None);
        let told = rate(30_000, Duration::from_secs(4));
        assert_eq!(told.as_deref(), Some("7 500 tokens/s"));
    }

    /// A terminal of some columns that keeps what is written to it.
    #[derive(Clone, Debug)]
    struct Screen {
        columns: u16,
        written: Arc<Mutex<Vec<String>>>,
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            self.columns
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.written.lock().unwrap().push(text.to_owned());
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nothing_is_shown_of_a_quiet_run() {
        let quiet = Progress::unless(true, 3, "problems");
        assert!(quiet.bar.as_ref().is_some_and(ProgressBar::is_hidden));
    }

    #[test]
    fn a_line_is_cut_where_the_terminal_ends() {
        for columns in [30, 80, 200] {
            let screen = Screen {
                columns,
                written: Arc::default(),
            };
            let terminal = ProgressDrawTarget::term_like(Box::new(screen.clone()));
            let mut progress = Progress::on(Some(terminal), 500, "problems");
            progress.part("3/8 a run with a long name \u{6570}\u{6570}@16", 1.0);
            (0..40).for_each(|_| progress.done(Some(true)));
            progress.pace = "12 345 tokens/s  256 chains alive".to_owned();
            progress.show();
            let written = screen.written.lock().unwrap();
            let widths = written.iter().map(|text| console::measure_text_width(text));
            let widest = widths.max().unwrap();
            assert!(widest <= usize::from(columns), "{written:?}");
            let last = written.iter().rfind(|text| text.contains("40/500"));
            let last = last.unwrap_or_else(|| panic!("{written:?}"));
            assert_eq!(last.contains("chains alive"), columns == 200, "{last}");
        }
    }

    /// Ten problems with one chain each, then ten with nine: after the first ten, nine tenths of
    /// the work are still to come.
    #[test]
    fn the_time_left_is_that_of_all_parts() {
        let mut progress = Progress::new(20, "problems").with_work(100.0);
        progress.part("1/2", 1.0);
        (0..10).for_each(|_| progress.done(Some(true)));
        assert_eq!((progress.done, progress.correct), (10, 10));
        let share = progress.work_done / progress.work;
        let minute = Duration::from_secs(60);
        let told = left(progress.done, progress.total, share, minute);
        assert_eq!(told.map(|left| left.as_secs_f64().round()), Some(540.0));
        progress.part("2/2", 9.0);
        assert_eq!((progress.done, progress.correct), (10, 0));
        (0..10).for_each(|_| progress.done(Some(false)));
        assert_eq!(progress.work_done, progress.work);
        assert_eq!(left(progress.done, progress.total, 1.0, minute), None);
    }
}
