//! `beamgen train rl --refresh-prm`: a reward model that follows the policy.
//!
//! The run pauses after every `--refresh-prm` updates. Chains of the policy are labelled, the reward model is
//! trained further on them and on older ones, and the run resumes with the new reward model.

use std::path::{Path, PathBuf};

use beamgen::scorer::{Scorer, ScorerKind};
use beamgen::{Config, Problem};
use beamgen_train::rl::{self, Ended, Event, Job, Reward};

use super::failure;
use super::stages::{Stages, format_of};
use crate::args::RlArgs;
use crate::failure::{Failure, refuse};
use crate::output;
use crate::settings;

/// Refuses flags that leave nothing to refresh.
pub(super) fn check(args: &RlArgs, reward: Reward) -> Result<(), Failure> {
    if !reward.scores() {
        return refuse("--refresh-prm needs --reward prm or both: change one of them");
    }
    let prm = folder(args)?;
    format_of(prm, args.prm_format.as_deref()).map(|_| ())
}

fn folder(args: &RlArgs) -> Result<&Path, Failure> {
    match &args.prm {
        Some(prm) if prm.is_dir() => Ok(prm),
        _ => {
            refuse("--refresh-prm trains the reward model further: give its folder with --prm DIR")
        }
    }
}

/// Runs the job, with a new reward model after every `--refresh-prm` updates.
pub(super) fn run(
    args: &RlArgs,
    mut job: Job,
    show: &mut dyn FnMut(&Event),
) -> Result<Ended, Failure> {
    let stages = Stages::new(job.out.join("work").join("refresh"))?;
    let format = format_of(folder(args)?, args.prm_format.as_deref())?;
    let mut prm = folder(args)?.to_owned();
    let mut data: Vec<PathBuf> = Vec::new();
    // A resumed run takes the reward model of its last refreshment.
    let mut updates = 0;
    while job.resume && stages.is_done(&format!("prm-{}", updates + args.refresh_prm)) {
        updates += args.refresh_prm;
        prm = stages.path(&format!("prm-{updates}"));
        data.push(stages.path(&format!("labelled-{updates}.jsonl")));
    }
    let last = job.stop_after.map_or(usize::MAX, |count| updates + count);
    loop {
        let until = (updates + args.refresh_prm).min(last);
        job.stop_after = Some(until - updates);
        let mut scorer = load(&prm, &format, &job.problems)?;
        let mut reached = updates;
        let ended = rl::run(&job, Some(&mut *scorer), &mut |event| {
            if let Event::Update(update) = &event {
                reached = update.update;
            }
            show(&event);
        })
        .map_err(failure)?;
        if ended != Ended::Paused || until == last {
            return Ok(ended);
        }
        updates = reached.max(until);
        job.resume = true;
        let name = updates.to_string();
        output::note(format_args!(
            "  after update {updates}: the reward model is refreshed"
        ));
        let policy = stages.path(&format!("policy-{name}"));
        rl::write_policy(&job, &policy).map_err(failure)?;
        let problems = problems(
            &job.problems,
            updates / args.refresh_prm,
            args.refresh_problems,
        );
        let problems = stages.problems(&format!("problems-{name}.jsonl"), &problems)?;
        data.push(stages.label(&name, &policy, &problems, &args.refresh)?);
        prm = stages.learn(&name, (&prm, &format), &data, &args.refresh)?;
    }
}

/// Returns the problems of a refreshment: the next `count` ones, in rounds over all problems.
fn problems(all: &[Problem], refreshment: usize, count: usize) -> Vec<Problem> {
    let from = refreshment.saturating_sub(1) * count;
    let count = count.min(all.len());
    (from..from + count)
        .map(|at| Problem {
            id: at.to_string(),
            ..all[at % all.len()].clone()
        })
        .collect()
}

fn load(prm: &Path, format: &str, problems: &[Problem]) -> Result<Box<dyn Scorer + Send>, Failure> {
    let mut config = Config::default();
    config.models.prm = Some(prm.to_owned());
    config.models.prm_format = Some(format.to_owned());
    config.models.scorer = ScorerKind::Prm;
    config.resolve_words();
    settings::reward_model(config, problems.iter().map(Problem::with_context))
}
