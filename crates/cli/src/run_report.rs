//! The report of a run over many problems, as every command gives it: the progress, the problems
//! that could not be tried or lost something, and the end.

use beamgen::ProblemResult;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::progress::Progress;
use crate::table::counted;

/// The report of a run.
pub(crate) struct RunReport {
    pub progress: Progress,
    skip_too_long: bool,
    /// The number of problems that could not be tried and were not to be skipped.
    refused: usize,
    /// The numbers of problems that lost chains to memory, and verdicts of checkers.
    lost: [usize; 2],
}

impl RunReport {
    /// A report of a run over `total` problems.
    pub(crate) fn new(quiet: bool, skip_too_long: bool, total: usize) -> Self {
        Self {
            progress: Progress::unless(quiet, total, "problems"),
            skip_too_long,
            refused: 0,
            lost: [0; 2],
        }
    }

    /// Counts a problem that is done, and reports the reason if it could not be tried.
    pub(crate) fn done(&mut self, result: &ProblemResult, correct: Option<bool>) {
        if let Some(error) = &result.error {
            let skipped = result.too_long && self.skip_too_long;
            self.refused += usize::from(!skipped);
            let what = if skipped { "skipped: " } else { "" };
            let id = &result.problem.id;
            self.progress
                .aside(|| output::note(format_args!("beamgen: problem {id}: {what}{error}")));
        }
        self.lost[0] += usize::from(result.lost_to_memory > 0);
        self.lost[1] += usize::from(result.lost_verdicts > 0);
        self.progress.done(correct);
    }

    /// Notes what was lost. Returns the failure of a run that was interrupted, or that could not try
    /// some problems. `is_kept` says whether the results are in a file.
    pub(crate) fn end(
        self,
        interrupt: &Interrupt,
        [done, all]: [usize; 2],
        is_kept: bool,
    ) -> Result<(), Failure> {
        let [memory, verdicts] = self.lost;
        let missing = (!is_kept).then_some("FILE");
        let again = missing.map_or(", and --resume to try again", |_| "");
        for (lost, what, advice) in [
            (memory, "chains for want of memory", "raise --kv-memory"),
            (verdicts, "verdicts of checkers", "mend the command"),
        ] {
            if lost > 0 {
                let problems = counted(lost, "problem", "problems");
                output::note(format_args!(
                    "note: {problems} lost {what}, and results are worse for it: {advice}{again}"
                ));
            }
        }
        ended(interrupt, [done, all], "problems", missing)?;
        match self.refused {
            0 => Ok(()),
            refused => Err(Failure::Run(anyhow::anyhow!(
                "{} could not be tried, see above",
                counted(refused, "problem", "problems")
            ))),
        }
    }
}

/// Fails if not `all` of what `unit` names were done, since the run was interrupted. `missing` is
/// what `--out` takes, if it was not given.
pub(crate) fn ended(
    interrupt: &Interrupt,
    [done, all]: [usize; 2],
    unit: &str,
    missing: Option<&str>,
) -> Result<(), Failure> {
    if done == all {
        return Ok(());
    }
    let how = match missing {
        None => "the same command with --resume goes on".to_owned(),
        Some(out) => format!("with --out {out} and --resume a run goes on where it stopped"),
    };
    let line = format!("interrupted, {done} of {all} {unit} are done: {how}");
    Err(interrupt.failure(line))
}
