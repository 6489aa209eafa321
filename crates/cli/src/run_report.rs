//! The report of a run over many problems, as every command gives it: the progress, the problems
//! that could not be tried, and the end.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::progress::Progress;

/// The report of a run.
pub struct RunReport {
    pub progress: Progress,
    skip_too_long: bool,
    /// The number of problems that could not be tried and were not to be skipped.
    refused: usize,
}

impl RunReport {
    /// A report of a run over `total` problems.
    pub fn new(quiet: bool, skip_too_long: bool, total: usize) -> Self {
        Self {
            progress: Progress::unless(quiet, total, "problems"),
            skip_too_long,
            refused: 0,
        }
    }

    /// Counts a problem that is done, and reports the reason if it could not be tried.
    pub fn done(&mut self, id: &str, error: Option<&str>, too_long: bool, correct: Option<bool>) {
        if let Some(error) = error {
            let skipped = too_long && self.skip_too_long;
            self.refused += usize::from(!skipped);
            let what = if skipped { "skipped: " } else { "" };
            self.progress
                .aside(|| output::note(format_args!("beamgen: problem {id}: {what}{error}")));
        }
        self.progress.done(correct);
    }

    /// Returns the failure of a run that was interrupted, which `how` says to continue, or that
    /// could not try some problems.
    pub fn end(
        self,
        interrupt: &Interrupt,
        done: usize,
        all: usize,
        how: &str,
    ) -> Result<(), Failure> {
        if done < all {
            let line = format!("interrupted, {done} of {all} problems are done: {how}");
            return Err(interrupt.failure(line));
        }
        match self.refused {
            0 => Ok(()),
            refused => Err(Failure::Run(anyhow::anyhow!(
                "{refused} problems could not be tried, see above"
            ))),
        }
    }
}
