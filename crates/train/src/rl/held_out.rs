//! The accuracy on problems that nothing is learnt from.

use beamgen_search::Problem;

use super::policy::Policy;
use super::report::HeldOut;
use super::rollout::{Chain, Plan};
use crate::Result;
use crate::tune::work;

/// The seed of the samples: the same for all runs and updates, so that measurements differ by the
/// policy alone.
const SEED: u64 = 0x0e1d_0074;

/// Takes a `part` of the problems, 0 to 1, to be measured: those of the same text on one side, by a
/// hash of the text and the seed. Returns those to learn from, then the others.
#[must_use]
pub fn hold_out(problems: Vec<Problem>, part: f64, seed: u64) -> (Vec<Problem>, Vec<Problem>) {
    let texts: Vec<String> = problems.iter().map(|p| p.text.clone()).collect();
    let (train, held_out) = work::split(&texts, part, seed);
    let of = |which: &[usize]| which.iter().map(|&i| problems[i].clone()).collect();
    (of(&train), of(&held_out))
}

/// Measures the policy after `update` updates: samples as `plan` says, and one greedy chain.
///
/// # Errors
/// The policy fails.
pub(super) fn measure(
    policy: &mut Policy,
    problems: &[Problem],
    plan: &Plan,
    update: usize,
) -> Result<HeldOut> {
    let mut plan = plan.clone();
    plan.writing.seed = SEED;
    let mut chains = |plan: &Plan| -> Result<Vec<Chain>> {
        let rollouts = plan.roll_out(policy.generator(), None, problems.to_vec())?;
        Ok(rollouts.groups.into_iter().flat_map(|g| g.chains).collect())
    };
    let part = |chains: &[Chain], which: &dyn Fn(&Chain) -> bool| {
        chains.iter().filter(|chain| which(chain)).count() as f64 / chains.len().max(1) as f64
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
        greedy: part(&greedy, &Chain::is_right),
        sampled: part(&sampled, &Chain::is_right),
        unsound: Chain::unsound(sampled.iter()),
        truncated: part(&sampled, &|chain| !chain.finished),
        length: tokens as f64 / sampled.len().max(1) as f64,
        is_best: false,
        fallen: 0,
    })
}
