//! Shows the progress of measurements on a terminal.

use beamgen::Event;
use beamgen::scorer::ScoreError;
use beamgen_measure::Watch;

use crate::output;
use crate::progress::Progress;

/// Shows the progress of a measurement, and reports chains that the reward model could not score.
#[derive(Default)]
pub(crate) struct Shown {
    /// Whether no progress and no notes are shown.
    pub is_quiet: bool,
    /// Notes to print when the work begins: before, an error may follow.
    pub notes: Vec<String>,
    progress: Option<Progress>,
}

impl Watch for Shown {
    fn begin(&mut self, total: usize, unit: &'static str, work: f64) {
        for note in self.notes.drain(..).filter(|_| !self.is_quiet) {
            output::note_once(format_args!("note: {note}"));
        }
        self.progress = Some(Progress::unless(self.is_quiet, total, unit).with_work(work));
    }

    fn part(&mut self, name: &str, work: f64) {
        if let Some(progress) = &mut self.progress {
            progress.part(name, work);
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        if let Some(progress) = &mut self.progress {
            progress.observe(event);
        }
    }

    fn done(&mut self, correct: Option<bool>) {
        if let Some(progress) = &mut self.progress {
            progress.done(correct);
        }
    }

    fn refused(&mut self, chain: &str, reason: &ScoreError) {
        let note = || output::note(format_args!("beamgen: chain {chain}: {reason}"));
        match &self.progress {
            Some(progress) => progress.aside(note),
            None => note(),
        }
    }
}
