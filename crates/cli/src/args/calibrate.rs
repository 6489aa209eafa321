//! Arguments of `beamgen calibrate`.

use std::path::PathBuf;

use beamgen::Aggregation;
use beamgen::eval::calibrate::Method;
use clap::Args;

use super::{PartFlags, PrmFlags, RuleFlags, by_name, texts};

#[derive(Args, Debug)]
#[command(after_long_help = texts::CALIBRATE)]
pub(crate) struct CalibrateArgs {
    /// Files of labelled chains of one policy (generator and temperature), from `beamgen label`
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present = "runs")]
    pub data: Vec<PathBuf>,
    #[command(flatten)]
    pub part: PartFlags,
    /// Use chains of this policy only: its generator's name or fingerprint, or a part of either
    ///
    /// @T after the name selects temperature T, as in NAME@0.5 or @0.5. Required if the data have
    /// several policies.
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// Method that turns scores into probabilities: isotonic, platt or temperature
    #[arg(long, value_name = "METHOD", value_parser = by_name(Method::ALL.map(|method| (method.name(), method))), default_value = "isotonic", hide_possible_values = true)]
    pub method: Method,
    /// Score of the chain so far that becomes a probability: min (the lowest step) or last
    ///
    /// Give the search the same --aggregation. last suits a reward model whose step scores judge
    /// the whole chain so far; min suits a model that judges each step. An ORM always has last.
    #[arg(long, value_name = "AGGREGATION", value_parser = by_name([("min", Aggregation::Min), ("last", Aggregation::Last)]), default_value = "min", hide_possible_values = true)]
    pub aggregation: Aggregation,
    /// Share of the problems that is held out to measure the fit
    #[arg(long, value_name = "SHARE", default_value_t = 0.25)]
    pub held_out: f64,
    /// Run files of `beamgen solve` with this calibration, on problems with answers
    ///
    /// Adds to the calibration how often answers are wrong, by score: --max-error of `beamgen solve`
    /// needs it.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub runs: Vec<PathBuf>,
    /// Run files of the same search on other problems, to check the share of wrong answers there
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "runs")]
    pub check: Vec<PathBuf>,
    /// Share of wrong answers that --check tests
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub max_error: f64,
    /// Write plots to this folder: reliability of the held-out steps, or risk of the runs
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Calibration file to write [default: calibration.json in the reward model's folder]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub labels: RuleFlags,
    #[command(flatten)]
    pub prm: PrmFlags,
}
