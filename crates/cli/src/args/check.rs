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
    /// Write each checker's verdict on each step to this file, a JSON line for each chain
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

A checker's verdict on a step is pass, fail or abstain; fail only if it can prove the step wrong. The \
table has, for each checker, the share of steps with a verdict, the share of fails on steps that are \
labelled wrong, and how many first wrong steps it found. Each fail on a step that is labelled right is \
listed with its reason. Without --checker and --checker-command all built-in checkers run. FILE has any \
format of `beamgen labels`. Steps after a chain's first wrong step have no label, and do not count.";
