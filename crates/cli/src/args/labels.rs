//! Arguments of `beamgen labels`.

use std::path::PathBuf;

use beamgen_labels::{Agree, FORMATS, Format, LabelRule, Neutral, RolloutLabel, Source};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};

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
    /// Add what a reward model or checkers say of each step
    Judge(Box<JudgeArgs>),
    /// Write chains without anything that is known of them, for people who rate
    Chains(ChainsArgs),
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
    /// Where labels come from, in order of precedence: rating, rollouts, given, verdict, pass, judge,
    /// outcome, V<0.2&judge<0.5
    ///
    /// A step's label is that of the first rule that says something of it; names are separated by
    /// commas, or the flag is repeated. rating[=NAME]: what people say, by most of them or by one.
    /// rollouts: as --rollout-label says. given: labels of unknown origin. verdict[=CHECKER]: the first
    /// step that fails is 0, and what follows is unknown. pass[=CHECKER]: a step that passes is 1.
    /// judge[=NAME][:C]: the judge's score, unless it is between 1-C and C; judge-hard: 1 if it is
    /// above one half. outcome: if no step is wrong by the rules before, all steps of a right chain
    /// are 1, and the last one of a wrong chain is 0. V (the share of right rollouts) and judge[=NAME]
    /// with bounds: 0 where all are below, 1 where all are above. For an ORM the chain's label is the
    /// lowest of its steps [default: those that a chain names (`labels judge --as`), or
    /// rating,rollouts,given]
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub rule: Vec<Source>,
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
            sources: self.rule.clone(),
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
    /// Derive the chains' labels from it: label, soft or veto
    ///
    /// The file's chains name the rules then, which hold wherever --rule names no others. label:
    /// verdict,outcome,pass of checkers, judge-hard of a reward model. soft: judge. veto: verdict, or
    /// judge<0.5, before the usual rules.
    #[arg(
        long = "as",
        value_name = "WAY",
        value_enum,
        hide_possible_values = true
    )]
    pub way: Option<JudgeAs>,
    #[command(flatten)]
    pub prm: PrmFlags,
    #[command(flatten)]
    pub checkers: CheckerFlags,
}

/// The use that `labels judge` makes of the new facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JudgeAs {
    /// Hard labels: fails, the outcome and passes; or scores above one half
    Label,
    /// Soft labels: scores; of checkers, as label
    Soft,
    /// 0 where it says so, before all that was known
    Veto,
}

#[derive(Args, Debug)]
pub(crate) struct ChainsArgs {
    #[command(flatten)]
    pub input: InputFlags,
    /// The file to write, in the format beamgen; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// The flags that name one.
const REWARD_MODEL: [&str; 3] = ["pair", "prm", "prm_url"];

const JUDGE: &str = "\
Examples:
  beamgen labels judge labels.jsonl --prm DIR --out judged.jsonl
  beamgen train prm --from DIR --data judged.jsonl --agree chains --out my-prm
  beamgen labels judge chains.jsonl --checker arithmetic --as label --out l.jsonl
  beamgen train prm --from DIR --data l.jsonl --out my-prm
      labels by a checker alone

Each step gets the reward model's probability that it is right, under its name in `opinions`. With \
--checker or --checker-command these are asked in place of the reward model: `verdicts` has by name \
what each says, with the reason of a fail; one that abstains says nothing. Other facts stay as they are. \
Without --as labels stay as they are, too: --rule of the commands that use labels derives them from the new facts, and \
--agree leaves out what a fail or the mean of the opinions contradicts.";

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
