//! Arguments of `beamgen labels`.

use std::path::PathBuf;

use beamgen_labels::{Agree, FORMATS, Format, LabelRule, Neutral, RolloutLabel};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::{CheckerFlags, PrmFlags, by_name};

const LABELS: &str = "\
Examples:
  beamgen labels stat prm800k.jsonl
  beamgen labels convert phase2.jsonl --to trl --alternatives --out trl.jsonl
  beamgen labels split labels.jsonl --train-out train.jsonl --test-out test.jsonl";

#[derive(Args, Debug)]
#[command(after_long_help = LABELS)]
pub(crate) struct LabelsArgs {
    #[command(subcommand)]
    pub command: LabelsCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LabelsCommand {
    /// Read labelled chains of any format and write them in another
    Convert(ConvertArgs),
    /// Count chains, labels, repeats and rejected records
    Stat(StatArgs),
    /// Part chains into training and test, by problem
    Split(SplitArgs),
    /// Add a reward model's second opinion to each step
    Judge(Box<JudgeArgs>),
}

/// The files, and how they are read.
#[derive(Args, Debug)]
pub(crate) struct InputFlags {
    /// Labelled chains, JSON lines or one JSON array; `-` is stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The files' format [default: recognised from the first records]
    #[arg(long, value_name = "FORMAT", value_parser = format(|_| true), hide_possible_values = true)]
    pub from: Option<&'static Format>,
    /// Make a chain of each alternative of a step too
    ///
    /// It has the steps before it, and no label but its own (PRM800K). Without this flag only the
    /// chosen path counts.
    #[arg(long)]
    pub alternatives: bool,
    /// Keep the chains of these levels only, as their source names them: `--level 'Level 1,Level 2'`
    ///
    /// `labels stat` says which there are. Chains that name no level are left out.
    #[arg(long, value_name = "LEVEL", value_delimiter = ',')]
    pub level: Vec<String>,
    /// Write all rejected records into this file, with their places and reasons
    #[arg(long, value_name = "FILE")]
    pub rejected: Option<PathBuf>,
}

/// How labels are derived from ratings and rollouts.
#[derive(Args, Debug, Default, PartialEq)]
#[command(next_help_heading = "Labels")]
pub(crate) struct RuleFlags {
    /// What a neutral rating counts as: positive, negative, drop or half
    ///
    /// positive is Lightman's and Qwen's way, negative TRL's, half the label 0.5 [default:
    /// positive; half in `labels stat`]
    #[arg(long, value_name = "RULE", value_parser = by_name(NEUTRAL), hide_possible_values = true)]
    pub neutral: Option<Neutral>,
    /// How rollouts become a label: hard, soft, threshold=X, ratio=X
    ///
    /// hard: 1 if any is right. soft: the share of right ones. threshold: 1 if that share is above
    /// X. ratio: 1 if it is at least X times the share one step before [default: hard]
    #[arg(long = "rollout-label", value_name = "RULE")]
    pub rollouts: Option<RolloutLabel>,
    /// Drop the labels behind a chain's first wrong step
    #[arg(long)]
    pub first_error_only: bool,
    /// Where second opinions (`labels judge`) have to agree with labels: steps, chains or known
    ///
    /// steps: a step has a label only where they do. chains: a chain has labels only if both have
    /// the same first wrong step. known: a step loses its label only where there is a second
    /// opinion and it is another one, as suits those of checkers.
    #[arg(long, value_name = "WHERE", value_parser = by_name(AGREE), hide_possible_values = true)]
    pub agree: Option<Agree>,
}

impl RuleFlags {
    /// The rule, with what a neutral rating counts as if no flag says it.
    pub(crate) fn rule(&self, neutral: Neutral) -> LabelRule {
        LabelRule {
            neutral: self.neutral.unwrap_or(neutral),
            rollouts: self.rollouts.unwrap_or_default(),
            first_error_only: self.first_error_only,
            agree: self.agree,
        }
    }

    /// Whether any of the flags was given.
    pub(crate) fn given(&self) -> bool {
        *self != Self::default()
    }
}

#[derive(Args, Debug)]
#[command(after_long_help = formats())]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub input: InputFlags,
    /// The format to write: beamgen, trl, math-shepherd or rlhflow
    #[arg(long, value_name = "FORMAT", value_parser = format(Format::writes), hide_possible_values = true)]
    pub to: &'static Format,
    /// The file to write; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    #[command(flatten)]
    pub rule: RuleFlags,
}

#[derive(Args, Debug)]
#[command(after_long_help = formats())]
pub(crate) struct StatArgs {
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub rule: RuleFlags,
    /// Print one JSON object for each file
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_long_help = SPLIT)]
pub(crate) struct SplitArgs {
    #[command(flatten)]
    pub input: InputFlags,
    /// The file for the chains to train on, in the format beamgen
    #[arg(long = "train-out", value_name = "FILE")]
    pub train: PathBuf,
    /// The file for the chains to test with
    #[arg(long = "test-out", value_name = "FILE")]
    pub test: PathBuf,
    /// The test's share of the problems
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    pub share: f64,
    /// Which problems are drawn for the test
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Keep problems of these benchmark files out of the training part
    ///
    /// JSON with the problems under "problem", "question" or the like. Case, spacing and LaTeX's
    /// looks do not matter.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub exclude: Vec<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_long_help = JUDGE)]
#[command(mut_arg("checker", |arg| arg.hide_short_help(false).conflicts_with_all(REWARD_MODEL)))]
#[command(mut_arg("checker_command", |arg| arg.hide_short_help(false).conflicts_with_all(REWARD_MODEL)))]
pub(crate) struct JudgeArgs {
    #[command(flatten)]
    pub input: InputFlags,
    /// The file to write, in the format beamgen; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    #[command(flatten)]
    pub prm: PrmFlags,
    #[command(flatten)]
    pub checkers: CheckerFlags,
}

/// The flags that name one.
const REWARD_MODEL: [&str; 3] = ["pair", "prm", "prm_url"];

const JUDGE: &str = "\
Examples:
  beamgen labels judge labels.jsonl --prm DIR --out judged.jsonl
  beamgen train prm --from DIR --data judged.jsonl --agree chains --out my-prm
  beamgen labels judge labels.jsonl --checker arithmetic --out checked.jsonl
  beamgen train prm --from DIR --data checked.jsonl --agree known --out my-prm

Each step gets `second`, the reward model's probability that it is right, and each chain \
`second_scorer`. With --checker or --checker-command these are asked in place of the reward model: \
`second` is 0 where one of them fails a step, and missing elsewhere, since a step that passes may be \
wrong still. Facts and labels stay as they are; --agree of the commands that use labels leaves out what \
the two disagree on. A file may carry second opinions from elsewhere, too.";

const SPLIT: &str = "\
Example:
  beamgen labels split labels.jsonl --train-out train.jsonl --test-out test.jsonl \\
      --share 0.1 --seed 3 --exclude math500.jsonl processbench_math.json

All chains of a problem are on the same side. The test part depends on the seed and on the problems \
alone. A problem of a benchmark that falls to the test stays there.";

fn formats() -> String {
    let rows = FORMATS.iter().map(|format| {
        let written = if format.writes() { "" } else { " (read only)" };
        format!("\n  {:<17} {}{written}", format.name, format.about)
    });
    format!(
        "Formats:{}\n\nThe format beamgen keeps the raw facts, so the flags on labels are for the others. A trl file \
         has -100 for a step without a label where there is one before the last label; math-shepherd and rlhflow \
         need a hard label for every step before it.",
        rows.collect::<String>()
    )
}

/// A format by its name.
fn format(offered: fn(&Format) -> bool) -> impl TypedValueParser<Value = &'static Format> {
    let offered = FORMATS.into_iter().filter(move |format| offered(format));
    let names = offered.map(|format| PossibleValue::new(format.name).help(format.about));
    PossibleValuesParser::new(names).try_map(|name| Format::named(&name))
}

/// Neutral ratings by name.
const NEUTRAL: [(&str, Neutral); 4] = [
    ("positive", Neutral::Positive),
    ("negative", Neutral::Negative),
    ("drop", Neutral::Drop),
    ("half", Neutral::Half),
];

/// Agreements by name.
const AGREE: [(&str, Agree); 3] = [
    ("steps", Agree::Steps),
    ("chains", Agree::Chains),
    ("known", Agree::Known),
];

fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| *share > 0.0 && *share < 1.0)
        .ok_or_else(|| "write a number between 0 and 1".to_owned())
}
