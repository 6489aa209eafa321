//! Makes a plan from flags.

use beamgen::Config;
use beamgen_measure::bench::{Plan, SetOutline, crossed};

use super::given_file;
use crate::args::BenchArgs;
use crate::failure::{Failure, refuse};
use crate::settings;

/// Makes a plan of all combinations: each strategy with each scorer and each number of chains.
pub(super) fn from_flags(args: &BenchArgs) -> Result<Plan, Failure> {
    let seeds = args.seeds.unwrap_or(1);
    if seeds == 0 {
        return refuse("--seeds 0 leaves nothing to measure: use at least 1");
    }
    let base = settings::config(&args.settings)?;
    let searches = crossed(&base, &args.strategies, &args.scorers, &args.chains)?;
    let configs: Vec<Config> = searches.iter().map(|(_, config)| config.clone()).collect();
    settings::refuse_idle(&configs, &args.settings.given, "--scorers prm or orm")?;
    let (problems, count) = settings::problems(
        given_file(args),
        &args.data,
        base.models.offline,
        args.limit,
    )?;
    let set = SetOutline::of_file(given_file(args), &problems, count);
    Ok(Plan::of(searches, seeds, set, problems)?)
}
