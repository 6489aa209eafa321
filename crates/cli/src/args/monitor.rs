//! Arguments of `beamgen monitor`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
#[command(after_long_help = MONITOR)]
pub(crate) struct MonitorArgs {
    /// Reference: a calibration made with --runs, or a run file
    pub reference: PathBuf,
    /// Run files to compare with the reference
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const MONITOR: &str = "\
Examples:
  beamgen calibrate --data labels.jsonl --runs before.jsonl --out calibration.json
  beamgen monitor calibration.json today.jsonl
  beamgen monitor before.jsonl today.jsonl --json

The table has the means of the reference and of the runs, and how far their distributions are apart: \
PSI, the population stability index, and KS, the largest difference of the cumulative shares, each with \
the bound above which it is no accident. No texts and no reference answers are read. The exit status is \
1 if a bound is exceeded, so that a job can raise an alarm. `beamgen serve --reference` has the same \
numbers in its metrics.";
