//! `beamgen train rl --refresh-prm`: a reward model that follows the policy.
//!
//! The run pauses after every `--refresh-prm` updates. Chains of the policy are labelled, the reward model is
//! trained further on them and on older ones, and the run resumes with the new reward model.

use std::path::PathBuf;

use beamgen::Problem;
use beamgen::checkers::Verifiers;
use beamgen_train::rl::{self, Ended, Event, Job, Reward, RewardSources};

use super::failure;
use super::stages::{Judge, Stages, format_of, reward_model};
use crate::args::RlArgs;
use crate::failure::{Failure, refuse};
use crate::output;

/// Refuses flags that leave nothing to refresh.
pub(super) fn check(args: &RlArgs, reward: Reward) -> Result<(), Failure> {
    if !reward.scores() {
        return refuse("--refresh-prm needs --reward prm or both: change one of them");
    }
    if args.prm_reference.is_some() && args.refresh.checker.is_some() {
        return refuse(
            "--checker labels steps, but a log-ratio (--prm-reference) learns outcomes: leave one of them out",
        );
    }
    judge(args).map(|_| ())
}

fn judge(args: &RlArgs) -> Result<Judge, Failure> {
    let Some(folder) = args.prm.as_ref().filter(|prm| prm.is_dir()) else {
        return refuse(
            "--refresh-prm trains the reward model further: give its folder with --prm DIR",
        );
    };
    Ok(Judge {
        folder: folder.clone(),
        format: format_of(folder, args.prm_format.as_deref())?,
        reference: args.prm_reference.clone(),
    })
}

/// Runs the job, with a new reward model after every `--refresh-prm` updates.
pub(super) fn run(
    args: &RlArgs,
    mut job: Job,
    mut verifier: Option<&mut Verifiers>,
    show: &mut dyn FnMut(&Event),
) -> Result<Ended, Failure> {
    let stages = Stages::new(job.out.join("work").join("refresh"))?;
    let mut judge = judge(args)?;
    let completions = judge.completions(&args.refresh);
    let mut data: Vec<PathBuf> = Vec::new();
    // A resumed run takes the reward model of its last refreshment.
    let mut updates = 0;
    while job.resume && stages.is_done(&format!("prm-{}", updates + args.refresh_prm)) {
        updates += args.refresh_prm;
        judge.folder = stages.path(&format!("prm-{updates}"));
        data.push(stages.path(&format!("labelled-{updates}.jsonl")));
    }
    let mut left = job.stop_after;
    loop {
        // Counted from the start of the run: an interrupted one may be between two refreshments, or
        // at one that was not made.
        job.pause_at = Some(updates + args.refresh_prm);
        job.stop_after = left;
        let texts = job.problems.iter().map(Problem::with_context);
        let mut scorer = reward_model(&judge, texts)?;
        let mut done = 0;
        let rewards = RewardSources {
            scorer: Some(&mut *scorer),
            verifier: verifier.as_deref_mut().map(|verifier| verifier as _),
        };
        let ended = rl::run(&job, rewards, &mut |event| {
            done += usize::from(matches!(event, Event::Update(_)));
            show(&event);
        })
        .map_err(failure)?;
        left = left.map(|left| left.saturating_sub(done));
        if ended != Ended::Paused || left == Some(0) {
            return Ok(ended);
        }
        updates += args.refresh_prm;
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
        let labelled = stages.label(&name, &policy, &problems, completions, &args.refresh)?;
        data.push(labelled);
        judge = stages.learn(&name, &judge, &data, &args.refresh)?;
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
