//! Measurement of the accuracy on held-out problems.

use beamgen_search::Problem;

use super::policy::Policy;
use super::report::HeldOut;
use super::rollout::{Chain, Plan};
use crate::Result;
use crate::tune::work;

/// The seed of the samples. It is the same in all runs and updates, so measurements differ only by
/// the policy.
const SEED: u64 = 0x0e1d_0074;

/// Splits problems into a training set and a held-out set with about a fraction `part` of them, 0
/// to 1. Problems of the same text are on the same side, by a hash of text and seed. Returns the
/// training set first.
#[must_use]
pub fn hold_out(problems: Vec<Problem>, part: f64, seed: u64) -> (Vec<Problem>, Vec<Problem>) {
    let texts: Vec<String> = problems.iter().map(|p| p.text.clone()).collect();
    let (train, held_out) = work::split(&texts, part, seed);
    let pick = |set: &[usize]| set.iter().map(|&i| problems[i].clone()).collect();
    (pick(&train), pick(&held_out))
}

/// Measures the policy after `update` updates, by the samples of `plan` and by one greedy chain per
/// problem.
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

/// Returns the fraction of chains that satisfy a condition; 0 without chains.
fn fraction(chains: &[Chain], is: impl Fn(&Chain) -> bool) -> f64 {
    chains.iter().filter(|chain| is(chain)).count() as f64 / chains.len().max(1) as f64
}
