//! `beamgen refine` and `beamgen guard`: given answers mended, accepted or withheld.

use std::io::{self, Write};
use std::path::Path;

use beamgen::mend::{self, Guard, Guarded, Guarding, Refine, Refined, Refining, Task, Verdict};
use beamgen::{Config, Problem, Settings, Solver};
use serde::Serialize;

use crate::args::{AnswersFlags, GuardArgs, RefineArgs};
use crate::failure::{Failure, refuse};
use crate::foreign;
use crate::lost;
use crate::output;
use crate::progress::Progress;
use crate::settings::{self, ShowPlan};
use crate::table::counted;
use crate::write::Output;

/// The number of answers processed together, which is enough to fill the forward passes.
const AT_ONCE: usize = 64;

pub(crate) fn refine(args: &RefineArgs) -> Result<(), Failure> {
    let how = Refine {
        rounds: args.rounds,
        below: args.below,
    };
    if how.below.is_some_and(|below| !(0.0..=1.0).contains(&below)) {
        return refuse("--below is not a score: use a number from 0 to 1");
    }
    let mut changed = 0;
    let count = each(
        &args.answers,
        |_, problem, settings| Refining::new(problem, settings, how),
        Refining::done,
        &mut |done: &Refined| {
            changed += usize::from(done.changed);
            (done.id.clone(), done.difference.clone(), done.error.clone())
        },
    )?;
    output::note(format_args!(
        "{changed} of {} changed",
        counted(count, "answer", "answers")
    ));
    Ok(())
}

pub(crate) fn guard(args: &GuardArgs) -> Result<(), Failure> {
    let how = Guard {
        bound: args.bound,
        samples: args.samples,
        rounds: args.rounds,
    };
    if !(0.0..=1.0).contains(&how.bound) {
        return refuse("--bound is not a score: use a number from 0 to 1");
    }
    let task = |solver: &Solver, problem: Problem, settings| {
        let is_foreign = solver.is_foreign(&problem);
        Guarding::new(problem, solver.config(), settings, how, is_foreign)
    };
    let mut verdicts = [0; 3];
    let count = each(
        &args.answers,
        task,
        Guarding::done,
        &mut |done: &Guarded| {
            let mut lines: Vec<String> = Vec::new();
            if let Some(verdict) = done.verdict {
                verdicts[verdict as usize] += 1;
                lines.push(
                    match verdict {
                        Verdict::Accept => "accepted",
                        Verdict::Mend => "mended",
                        Verdict::Withhold => "withheld",
                    }
                    .to_owned(),
                );
            }
            lines.extend(done.reasons.iter().map(|found| found.reason.clone()));
            lines.extend(done.difference.clone());
            (done.id.clone(), lines, done.error.clone())
        },
    )?;
    let [accepted, mended, withheld] = verdicts;
    output::note(format_args!(
        "{}: {accepted} accepted, {mended} mended, {withheld} withheld",
        counted(count, "answer", "answers")
    ));
    Ok(())
}

/// The id of an answer, the lines to print, and the error if the answer could not be processed.
type Shown = (String, Vec<String>, Option<String>);

/// Runs a task on each answer of a file, and writes the results in the order of the file. Returns
/// the number of answers.
fn each<T: Task, D: Serialize>(
    args: &AnswersFlags,
    task: impl Fn(&Solver, Problem, Settings) -> T,
    done: impl Fn(T) -> D,
    show: &mut dyn FnMut(&D) -> Shown,
) -> Result<usize, Failure> {
    let config = settings::search_config(&args.settings)?;
    config.check()?;
    settings::refuse_verifier(&config, "refine` and `beamgen guard")?;
    // The output is opened before the models are loaded, so that one that cannot be written fails
    // now.
    let mut out = args.out.as_deref().map(Output::open).transpose()?;
    let mut problems = answers(&args.file, &config)?;
    problems.truncate(args.limit.unwrap_or(usize::MAX));
    let mut solver = settings::any_solver(config, ShowPlan::OwnModels)?;
    if !solver.has_scorer() {
        return refuse(
            "--scorer none: this command scores answers: name a scorer, or leave --scorer out",
        );
    }
    let texts = problems.iter().map(Problem::with_context);
    foreign::note(solver.has_bundled(), "answers", texts);
    let own = solver.settings();
    let mut progress = Progress::new(problems.len(), "answers");
    let (mut lines, mut failed) = (Vec::new(), 0);
    let mut stdout = io::stdout().lock();
    let mut ended = Ok(());
    // Answers are processed in groups, so that results are in the order of the file and the first
    // ones appear early.
    for some in problems.chunks(AT_ONCE) {
        let tasks = some
            .iter()
            .map(|one| task(&solver, one.clone(), own.clone()));
        let mut tasks: Vec<T> = tasks.collect();
        ended = mend::run(&mut solver, &mut tasks).map_err(Failure::from);
        if ended.is_err() {
            break;
        }
        let group: Vec<D> = tasks.into_iter().map(&done).collect();
        for one in &group {
            output::json_line(&mut lines, one)?;
        }
        let told = group.iter().map(|one| {
            progress.done(None);
            let (id, shown, error) = show(one);
            if let Some(error) = error {
                failed += 1;
                output::note(format_args!("beamgen: answer {id}: {error}"));
            }
            (id, shown)
        });
        let told: Vec<_> = told.collect();
        ended = if out.is_some() {
            differences(&mut stdout, &told)
        } else {
            stdout.write_all(&std::mem::take(&mut lines))
        }
        .and_then(|()| stdout.flush())
        .map_err(Failure::from);
        if ended.is_err() {
            break;
        }
    }
    drop(progress);
    if let Some(out) = &mut out {
        // Results before a failure are kept, even if the reader of stdout has gone.
        out.write(&lines)?;
    }
    ended?;
    lost::tell_of(&solver);
    match failed {
        0 => Ok(problems.len()),
        failed => Err(Failure::Run(anyhow::anyhow!(
            "{} could not be worked on: see the messages above",
            counted(failed, "answer", "answers")
        ))),
    }
}

/// Prints the id of each answer, followed by its lines.
fn differences(to: &mut impl Write, told: &[(String, Vec<String>)]) -> io::Result<()> {
    for (id, shown) in told {
        writeln!(to, "{id}")?;
        for line in shown {
            writeln!(to, "  {}", crate::printable::line(line))?;
        }
    }
    Ok(())
}

/// Reads the answers in a file. Each becomes a problem whose given steps are the answer's.
fn answers(file: &Path, config: &Config) -> Result<Vec<Problem>, Failure> {
    let cut = |text: &str| mend::steps_of(text, &config.generator);
    let chains = beamgen_labels::open_unlabelled(file, &cut)?.chains;
    let answers = (1..)
        .zip(chains)
        .map(|(number, chain): (usize, _)| Problem {
            id: chain.id.unwrap_or_else(|| number.to_string()),
            text: chain.problem,
            answer: chain.answer,
            steps: chain.steps.into_iter().map(|step| step.text).collect(),
            ..Problem::default()
        });
    Ok(answers.collect())
}
