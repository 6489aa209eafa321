//! The accuracy of the policy on problems that are not trained on.

use beamgen_search::Problem;

use super::policy::Policy;
use super::report::HeldOut;
use super::rollout::{Chain, Plan, RewardSources};
use crate::Result;
use crate::tune::work;

/// The seed of sampling. It is the same at every measurement, so that only the policy differs.
const SEED: u64 = 0x0e1d_0074;

/// Splits problems into a training set (first) and a held-out set with about the fraction `part` of the problems,
/// from 0 to 1. A hash of text and seed decides the side, so problems of equal text stay together.
#[must_use]
pub fn hold_out(problems: Vec<Problem>, part: f64, seed: u64) -> (Vec<Problem>, Vec<Problem>) {
    let texts: Vec<String> = problems.iter().map(|p| p.text.clone()).collect();
    let (train, held_out) = work::split(&texts, part, seed);
    let pick = |set: &[usize]| set.iter().map(|&i| problems[i].clone()).collect();
    (pick(&train), pick(&held_out))
}

/// Measures the accuracy of the policy after `update` updates, by the sampled chains of `plan` and by a greedy chain
/// for each problem.
///
/// # Errors
/// The policy fails.
pub(super) fn measure(
    policy: &mut Policy,
    mut rewards: RewardSources<'_>,
    problems: &[Problem],
    plan: &Plan,
    update: usize,
) -> Result<HeldOut> {
    let mut plan = plan.clone();
    plan.writing.seed = SEED;
    let mut chains = |plan: &Plan| -> Result<Vec<Chain>> {
        let rewards = RewardSources {
            scorer: None,
            ..rewards.again()
        };
        let rollouts = plan.roll_out(policy.generator(), rewards, problems.to_vec())?;
        Ok(rollouts.groups.into_iter().flat_map(|g| g.chains).collect())
    };
    let sampled = chains(&plan)?;
    let greedy = chains(&Plan {
        greedy: true,
        chains: 1,
        ..plan
    })?;
    let tokens = sampled
        .iter()
        .map(|chain| chain.tokens.len())
        .sum::<usize>();
    Ok(HeldOut {
        update,
        problems: problems.len(),
        greedy: fraction(&greedy, Chain::is_right),
        sampled: fraction(&sampled, Chain::is_right),
        unsound: Chain::unsound(sampled.iter()),
        truncated: fraction(&sampled, |chain| !chain.finished),
        length: tokens as f64 / sampled.len().max(1) as f64,
        is_best: false,
        fallen: 0,
    })
}

/// Returns the fraction of chains for which `is` holds, or 0 if there are no chains.
fn fraction(chains: &[Chain], is: impl Fn(&Chain) -> bool) -> f64 {
    chains.iter().filter(|chain| is(chain)).count() as f64 / chains.len().max(1) as f64
}
