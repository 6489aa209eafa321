//! Arguments of `beamgen score` and `beamgen eval-prm`.

use std::path::PathBuf;

use beamgen::Aggregation;
use clap::Args;

use super::{PartFlags, PrmFlags, RuleFlags, ScoreFlags, texts};

#[derive(Args, Debug)]
#[command(after_long_help = texts::SCORE)]
pub(crate) struct ScoreArgs {
    /// Chains, one JSON object a line; `-` is stdin
    pub file: PathBuf,
    /// Rule that turns step scores into `score` [default: min]
    ///
    /// min, product, mean, last, max, soft-min[:T] or likely-min[:W]
    #[arg(long)]
    pub aggregation: Option<Aggregation>,
    /// Score each step by K completions of the chain up to that step
    ///
    /// The score of a step is the share of its completions that agree with the vote of K chains from the bare problem.
    /// With `--set search.rollouts.value=prm` or `verifier` it is the mean score or outcome of the completions.
    /// `--set search.rollouts.weight=W` mixes it with the reward model's score. `score` is that of the last step.
    #[arg(long, value_name = "K", help_heading = "Completions")]
    pub rollouts: Option<usize>,
    #[command(flatten)]
    pub settings: ScoreFlags,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::EVAL_PRM)]
pub(crate) struct EvalPrmArgs {
    /// Files of labelled chains, in any format of `beamgen labels`; each has a row in the table
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present = "redraw")]
    pub data: Vec<PathBuf>,
    #[command(flatten)]
    pub part: PartFlags,
    /// Write a report to this folder: report.md, results.json, rows.jsonl, plots
    #[arg(long, value_name = "DIR", help_heading = "Report")]
    pub report: Option<PathBuf>,
    /// Change the chains on purpose, score them again, and report what the model does not notice
    ///
    /// Changes: the question removed or swapped, a wrong number, filler, repeats, all steps in one
    /// and others. Also compares generators and levels, if the data name them. --report has all
    /// figures. Takes about fifteen times the scoring's time.
    #[arg(long, conflicts_with = "redraw", help_heading = "Probes")]
    pub probes: bool,
    /// Score the beginnings of steps, and print how well they predict the score of the whole step
    ///
    /// After each word of a step: the correlation with the score of the whole step, and the ROC area for the step's
    /// label. Early rejection needs scores that say something before a step is whole.
    #[arg(long, conflicts_with_all = ["redraw", "report", "probes"], help_heading = "Beginnings of steps")]
    pub partial: bool,
    /// Rule that turns step scores into a chain's score in probes [default: min]
    ///
    /// min, product, mean, last, max or soft-min[:T]
    #[arg(long, requires = "probes", help_heading = "Probes")]
    pub aggregation: Option<Aggregation>,
    /// Write the report in this folder again from its rows.jsonl; no model is needed
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["data", "report", "limit"],
        help_heading = "Report"
    )]
    pub redraw: Option<PathBuf>,
    /// Calibration to report, too [default: calibration.json in the model's folder]
    #[arg(
        long,
        value_name = "FILE",
        requires = "report",
        help_heading = "Report"
    )]
    pub calibration: Option<PathBuf>,
    #[command(flatten)]
    pub labels: RuleFlags,
    /// Count a step as wrong if its score is below T
    #[arg(
        long = "wrong-below",
        value_name = "T",
        default_value_t = 0.5,
        allow_negative_numbers = true
    )]
    pub threshold: f32,
    /// Read the first K chains of each file only
    #[arg(long, value_name = "K")]
    pub limit: Option<usize>,
    /// Print one JSON object for each file
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub prm: PrmFlags,
}
