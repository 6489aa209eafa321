//! The figures of an update's chains and optimiser steps.

use beamgen_eval::Verdict;

use super::Recipe;
use super::batch::Batch;
use super::lesson::Lesson;
use super::report::Update;
use super::rollout::Chain;

/// Returns the figures of an update that its chains and optimiser steps decide. The caller fills in the others, such
/// as times; they are 0 here.
pub(super) fn tally(recipe: &Recipe, batch: &Batch, lesson: &Lesson) -> Update {
    let sum = |value: &dyn Fn(&Chain) -> f64| batch.chains().map(value).sum::<f64>();
    let chains = (batch.chains().count() as f64).max(1.0);
    let tokens = sum(&|chain| chain.tokens.len() as f64).max(1.0);
    let steps = sum(&|chain| chain.steps.len() as f64).max(1.0);
    let fraction =
        |is: &dyn Fn(&Chain) -> bool| sum(&|chain| f64::from(u8::from(is(chain)))) / chains;
    let groups = batch.all().count();
    let informative = batch.all().filter(|(_, earned)| earned.informative).count();
    let rewards = batch.all().flat_map(|(_, earned)| &earned.rewards);
    // Clipping and `kl_old` are per trained token; all other means are over all sampled chains.
    let learnt = lesson.tokens.max(1) as f64;
    Update {
        reward: rewards.sum::<f64>() / chains,
        right: fraction(&Chain::is_right),
        unsound: Chain::unsound(batch.chains()),
        informative: informative as f64 / groups.max(1) as f64,
        worst_score: recipe.reward.scores().then(|| sum(&worst_score) / chains),
        kl_old: lesson.kl_old / learnt,
        entropy: -sum(&log_prob) / tokens,
        length: tokens / chains,
        steps: steps / chains,
        repetition: sum(&|chain| chain.repeated as f64) / steps,
        truncated: fraction(&|chain| !chain.finished),
        cannot_tell: fraction(&|chain| chain.verdict == Verdict::CannotTell),
        clipped: lesson.clipped as f64 / learnt,
        loss: lesson.losses.iter().sum::<f64>() / lesson.losses.len().max(1) as f64,
        gradient_norm: lesson.norm,
        mismatch_mean: lesson.mismatch.mean(),
        mismatch_max: lesson.mismatch.max,
        groups,
        learnt: lesson.chains,
        rollout_tokens: batch.rollouts.tokens,
        rollout_seconds: batch.rollouts.seconds,
        scoring_seconds: batch.rollouts.scoring,
        training_tokens: lesson.passed,
        ..Update::default()
    }
}

fn worst_score(chain: &Chain) -> f64 {
    let scores = chain.scores().into_iter().map(f64::from);
    scores.fold(1.0, f64::min)
}

fn log_prob(chain: &Chain) -> f64 {
    chain.steps.iter().map(|step| step.log_prob).sum()
}
