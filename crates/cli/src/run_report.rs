//! Reports on a run over many problems, in the same way for all commands: the progress, problems
//! that failed or lost chains or verdicts, and the end of the run.

use std::io;

use beamgen::models::MemoryPlan;
use beamgen::{Event, Most, Pace, ProblemResult, Solver};

use crate::failure::Failure;
use crate::forecast;
use crate::interrupt::Interrupt;
use crate::output;
use crate::progress::Progress;
use crate::table::counted;

pub(crate) struct RunReport {
    pub progress: Progress,
    skip_too_long: bool,
    /// The number of problems that could not be tried, except those that --skip-too-long allows to
    /// skip.
    refused: usize,
    /// The number of problems that lost chains to a lack of memory, and of those that lost
    /// verdicts.
    lost: [usize; 2],
    plan: Option<Planned>,
}

/// The plan of a run, which is printed once the pace is known, if the run is long.
struct Planned {
    pace: Pace,
    problems: usize,
    most: Most,
    memory: MemoryPlan,
}

impl RunReport {
    pub(crate) fn new(quiet: bool, skip_too_long: bool, total: usize) -> Self {
        Self {
            progress: Progress::unless(quiet, total, "problems"),
            skip_too_long,
            refused: 0,
            lost: [0; 2],
            plan: None,
        }
    }

    /// Prints the plan of the run as soon as its first problems are done, if the run is long.
    /// `most` is the bound of one search.
    pub(crate) fn plan(&mut self, solver: &Solver, problems: usize, most: Most) {
        self.plan = Some(Planned {
            pace: Pace::start(problems, solver.config().search.in_flight),
            problems,
            most: most.times(problems as u64),
            memory: solver.memory_plan().clone(),
        });
    }

    /// Shows the progress after an event of the search.
    pub(crate) fn observe(&mut self, event: &Event<'_>) {
        self.progress.observe(event);
        if let Some(plan) = &mut self.plan {
            plan.pace.observe(event);
        }
    }

    /// Counts a finished problem. Prints the reason if the problem could not be tried.
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
        let Some(plan) = &mut self.plan else { return };
        plan.pace.done(result);
        if let Some(forecast) = plan.pace.settled(plan.problems, plan.most) {
            let plan = self.plan.take();
            if let Some(plan) = plan.filter(|_| forecast.seconds >= forecast::LONG) {
                self.progress.aside(|| {
                    // The plan is for information only, so a closed stderr does not stop the run.
                    let _ = forecast::write(&mut io::stderr().lock(), &forecast, &plan.memory);
                });
            }
        }
    }

    /// Prints notes about problems that lost chains or verdicts. Fails if the run was interrupted,
    /// or if a problem could not be tried. `is_kept` says whether a file has the results.
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
            (
                memory,
                "chains because memory was short",
                "raise --kv-memory",
            ),
            (verdicts, "verdicts of programs", "fix the command"),
        ] {
            if lost > 0 {
                let problems = counted(lost, "problem", "problems");
                output::note(format_args!(
                    "note: {problems} lost {what}, which makes results worse: {advice}{again}"
                ));
            }
        }
        // An interrupt is reported before failed problems, because its exit code matters more to
        // the caller.
        ended(interrupt, [done, all], "problems", missing)?;
        match self.refused {
            0 => Ok(()),
            refused => Err(Failure::Run(anyhow::anyhow!(
                "{} could not be tried: see the messages above",
                counted(refused, "problem", "problems")
            ))),
        }
    }
}

/// Fails if a run was interrupted before all items were done. `unit` is the plural noun for items.
/// `missing` is the placeholder for the value of `--out`, if that flag was not given.
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
        None => "resume with the same command and --resume".to_owned(),
        Some(out) => format!("to be able to resume, run with --out {out}, then add --resume"),
    };
    let line = format!("interrupted after {done} of {all} {unit}: {how}");
    Err(interrupt.failure(line))
}
