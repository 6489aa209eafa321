//! Arguments of `beamgen check`.

use std::path::PathBuf;

use clap::Args;

use super::{CheckerFlags, InputFlags, RuleFlags};

#[derive(Args, Debug)]
#[command(after_long_help = CHECK)]
#[command(mut_arg("checker", |arg| arg.hide_short_help(false)))]
#[command(mut_arg("checker_command", |arg| arg.hide_short_help(false)))]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub checkers: CheckerFlags,
    #[command(flatten)]
    pub rule: RuleFlags,
    /// Check the first K chains of each file only
    #[arg(long, value_name = "K")]
    pub limit: Option<usize>,
    /// Write what each checker says of each step into this file, a JSON line for each chain
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print one JSON object for each file and checker
    #[arg(long)]
    pub json: bool,
}

const CHECK: &str = "\
Examples:
  beamgen check processbench_gsm8k.json --checker arithmetic
  beamgen check labels.jsonl --checker arithmetic,consistency --out verdicts.jsonl
  beamgen check steps.jsonl --checker-command 'python3 examples/checkers/python_steps.py --run'

A checker says pass, fail or abstain of a step, and fail only of what it can prove wrong. The table has, \
for each checker, the share of steps with a verdict, how often a fail stands on a step that is labelled \
wrong, and how many first mistakes were found. Every fail on a step that is labelled right is listed with \
its reason. Without --checker and --checker-command all built-in checkers are asked. Files are those \
that `beamgen labels` reads; what stands behind a chain's first mistake has no label and counts for neither.";
