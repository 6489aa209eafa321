//! From flags to a plan.

use beamgen::scorer::ScorerKind;
use beamgen_measure::bench::{Plan, SetOutline};

use super::given_file;
use crate::args::BenchArgs;
use crate::failure::{Failure, refuse};
use crate::settings;

/// The plan that flags describe: every strategy with every scorer at every number of chains.
pub fn from_flags(args: &BenchArgs) -> Result<Plan, Failure> {
    let seeds = args.seeds.unwrap_or(1);
    if seeds == 0 {
        return refuse("--seeds 0 leaves nothing to measure: give at least 1");
    }
    let base = settings::config(&args.settings)?;
    let scorers = match args.scorers.as_slice() {
        [] => &[ScorerKind::Prm],
        given => given,
    };
    let mut scored = base.clone();
    let is_model = |scorer: &&ScorerKind| matches!(scorer, ScorerKind::Prm | ScorerKind::Orm);
    scored.models.scorer = *scorers.iter().find(is_model).unwrap_or(&ScorerKind::None);
    settings::refuse_idle(&scored, &args.settings.given, "--scorers prm or orm")?;
    let (problems, count) = settings::problems(given_file(args), args.limit)?;
    let set = SetOutline::of_file(given_file(args), &problems, count);
    let (strategies, chains) = (&args.strategies, &args.chains);
    let plan = Plan::of(&base, strategies, scorers, chains, seeds, set, problems);
    Ok(plan?)
}
