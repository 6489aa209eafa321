//! Arguments of `beamgen calibrate`.

use std::path::PathBuf;

use beamgen::Aggregation;
use beamgen::eval::calibrate::Method;
use clap::Args;

use super::{PrmFlags, RuleFlags, by_name, texts};

#[derive(Args, Debug)]
#[command(after_long_help = texts::CALIBRATE)]
pub(crate) struct CalibrateArgs {
    /// Files of labelled chains of one policy, as `beamgen label` writes them
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present = "runs")]
    pub data: Vec<PathBuf>,
    /// Chains of this policy alone: its generator's name or fingerprint, or part of it
    ///
    /// With @T behind it at temperature T alone, as in @0.5. Needed if the data have several.
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// How scores become probabilities: isotonic, platt or temperature
    #[arg(long, value_name = "METHOD", value_parser = by_name(Method::ALL.map(|method| (method.name(), method))), default_value = "isotonic", hide_possible_values = true)]
    pub method: Method,
    /// Which score of the chain so far becomes a probability: min (the lowest) or last
    ///
    /// A search by the probabilities aggregates them the same way. last suits a reward model that
    /// judges the chain so far with each step, min one that judges the steps. An ORM has always last.
    #[arg(long, value_name = "AGGREGATION", value_parser = by_name([("min", Aggregation::Min), ("last", Aggregation::Last)]), default_value = "min", hide_possible_values = true)]
    pub aggregation: Aggregation,
    /// The part of the problems that is held out, to tell how good the fit is
    #[arg(long, value_name = "SHARE", default_value_t = 0.25)]
    pub held_out: f64,
    /// Run files of `beamgen solve` with this calibration, on problems with answers
    ///
    /// How often their answers are wrong, by score, is added to the calibration: --max-error goes
    /// by it.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub runs: Vec<PathBuf>,
    /// Run files of the same search on other problems: what --max-error keeps there
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "runs")]
    pub check: Vec<PathBuf>,
    /// The share of wrong answers that --check looks at
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub max_error: f64,
    /// Draw the reliability of the held-out steps, or the risk of the runs, into this folder
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// The calibration's file [default: calibration.json in the reward model's folder]
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
