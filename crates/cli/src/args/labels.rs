//! Arguments of `beamgen labels`.

use std::path::PathBuf;

use beamgen_labels::{Agree, FORMATS, Format, LabelRule, Neutral, RolloutLabel, Source};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};

use super::{CheckerFlags, PartFlags, PrmFlags, by_name};

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
    /// Convert labelled chains from any format to another
    Convert(ConvertArgs),
    /// Count chains, labels, repeats and rejected records
    Stat(StatArgs),
    /// Split chains into a training and a test set, by problem
    Split(SplitArgs),
    /// Add a reward model's scores or checkers' verdicts to each step
    Judge(Box<JudgeArgs>),
    /// Write chains without labels and other facts, for people who rate them
    Chains(ChainsArgs),
}

/// The files, and how they are read.
#[derive(Args, Debug)]
pub(crate) struct InputFlags {
    /// Labelled chains: files or data sets ORG/NAME; `-` is stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub part: PartFlags,
    /// Format of the files [default: recognised from the first records]
    #[arg(long, value_name = "FORMAT", value_parser = format(|_| true), hide_possible_values = true)]
    pub from: Option<&'static Format>,
    /// Read each alternative of a step as a chain of its own, too (PRM800K)
    ///
    /// A chain of an alternative has the steps before it, and a label on the alternative only.
    /// Without this flag only the chosen path is read.
    #[arg(long)]
    pub alternatives: bool,
    /// Keep the chains of these levels only, as their source names them: `--level 'Level 1,Level 2'`
    ///
    /// `labels stat` lists the levels. Chains without a level are left out.
    #[arg(long, value_name = "LEVEL", value_delimiter = ',')]
    pub level: Vec<String>,
    /// Write all rejected records to this file, with their places and reasons
    #[arg(long, value_name = "FILE")]
    pub rejected: Option<PathBuf>,
}

/// How labels are derived from ratings and rollouts.
#[derive(Args, Debug, Default, PartialEq)]
#[command(next_help_heading = "Labels")]
pub(crate) struct RuleFlags {
    /// Rules that give labels, in order of precedence: rating, rollouts, given, verdict, pass, judge,
    /// outcome, V<0.2&judge<0.5
    ///
    /// The first rule that decides on a step gives its label. Separate rules by commas, or repeat the
    /// flag. rating[=NAME]: ratings of people, by majority or of one person. rollouts: as
    /// --rollout-label says. given: labels of unknown origin. verdict[=CHECKER]: the first step that fails
    /// is 0, and the steps after it are unknown. pass[=CHECKER]: a step that passes is 1.
    /// judge[=NAME][:C]: the judge's score, unless it is between 1-C and C. judge-hard: 1 if that
    /// score is above one half, else 0. outcome: if the rules before find no wrong step, all steps of
    /// a right chain are 1, and the last step of a wrong chain is 0. V (the share of right rollouts)
    /// and judge[=NAME] with bounds: 0 if all are below, 1 if all are above. For an ORM, the chain's
    /// label is the lowest label of its steps [default: the rules named in the chain (`labels judge
    /// --as`), or rating,rollouts,given]
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub rule: Vec<Source>,
    /// Label of a neutral rating: positive, negative, drop or half
    ///
    /// positive as Lightman et al. and Qwen, negative as TRL, drop for no label, half for 0.5
    /// [default: positive; half in `labels stat`]
    #[arg(long, value_name = "RULE", value_parser = by_name(NEUTRAL), hide_possible_values = true)]
    pub neutral: Option<Neutral>,
    /// Rule that turns a step's rollouts into a label: hard, soft, threshold=X, ratio=X
    ///
    /// hard: 1 if any rollout is right. soft: the share of right rollouts. threshold: 1 if that
    /// share is above X. ratio: 1 if the share is at least X times that of the step before
    /// [default: hard]
    #[arg(long = "rollout-label", value_name = "RULE")]
    pub rollouts: Option<RolloutLabel>,
    /// Drop the labels after a chain's first wrong step
    #[arg(long)]
    pub first_error_only: bool,
    /// Keep labels only if second opinions (`labels judge`) agree: steps, chains or known
    ///
    /// steps: a step keeps its label if its second opinion agrees. chains: a chain keeps its labels
    /// if both have the same first wrong step. known: a step loses its label only if it has a second
    /// opinion that disagrees, which suits checkers that abstain.
    #[arg(long, value_name = "WHERE", value_parser = by_name(AGREE), hide_possible_values = true)]
    pub agree: Option<Agree>,
}

impl RuleFlags {
    /// Returns the rule for labels. Without --neutral, neutral ratings are treated as `neutral`
    /// says.
    pub(crate) fn rule(&self, neutral: Neutral) -> LabelRule {
        LabelRule {
            sources: self.rule.clone(),
            neutral: self.neutral.unwrap_or(neutral),
            rollouts: self.rollouts.unwrap_or_default(),
            first_error_only: self.first_error_only,
            agree: self.agree,
        }
    }

    pub(crate) fn given(&self) -> bool {
        *self != Self::default()
    }
}

#[derive(Args, Debug)]
#[command(after_long_help = formats())]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub input: InputFlags,
    /// Format to write: beamgen, trl, math-shepherd or rlhflow
    #[arg(long, value_name = "FORMAT", value_parser = format(Format::writes), hide_possible_values = true)]
    pub to: &'static Format,
    /// File to write; `-` is stdout
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
    /// File for the training chains, in the format beamgen
    #[arg(long = "train-out", value_name = "FILE")]
    pub train: PathBuf,
    /// File for the test chains, in the format beamgen
    #[arg(long = "test-out", value_name = "FILE")]
    pub test: PathBuf,
    /// Share of the problems that goes to the test set
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    pub share: f64,
    /// Seed of the choice of test problems
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Keep problems of these benchmark files out of the training set
    ///
    /// JSON with the problems under "problem", "question" or the like. Case, spacing and LaTeX's
    /// spelling variants are ignored in the comparison.
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
    /// File to write, in the format beamgen; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Use of the new facts as labels: label, soft or veto [default: none]
    ///
    /// The written chains name these rules, which hold unless --rule names others. label:
    /// verdict,outcome,pass for checkers, judge-hard for a reward model. soft: judge. veto: verdict,
    /// or judge<0.5, before the usual rules.
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

/// The labels that `labels judge` derives from the new facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JudgeAs {
    /// Hard labels: fails, the outcome and passes; or scores above one half
    Label,
    /// Soft labels: a reward model's scores; for checkers, as label
    Soft,
    /// 0 for steps that the judge finds wrong; other steps keep the labels that they had
    Veto,
}

#[derive(Args, Debug)]
pub(crate) struct ChainsArgs {
    #[command(flatten)]
    pub input: InputFlags,
    /// File to write, in the format beamgen; `-` is stdout
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// The names of the flags that select a reward model.
const REWARD_MODEL: [&str; 3] = ["pair", "prm", "prm_url"];

const JUDGE: &str = "\
Examples:
  beamgen labels judge labels.jsonl --prm DIR --out judged.jsonl
  beamgen train prm --from DIR --data judged.jsonl --agree chains --out my-prm
  beamgen labels judge chains.jsonl --checker arithmetic --as label --out l.jsonl
  beamgen train prm --from DIR --data l.jsonl --out my-prm
      labels by a checker only

Each step gets the reward model's probability that it is right, in `opinions` under the model's name. With \
--checker or --checker-command, checkers run in place of the reward model: `verdicts` has each checker's \
verdict by name, with the reason of a fail, and nothing if it abstains. Other facts stay as they are. \
Without --as, labels stay as they are, too: commands that use labels derive them from the new facts with --rule, \
and leave out labels that a fail or the mean of the opinions contradicts with --agree.";

const SPLIT: &str = "\
Example:
  beamgen labels split labels.jsonl --train-out train.jsonl --test-out test.jsonl \\
      --share 0.1 --seed 3 --exclude math500.jsonl processbench_math.json

All chains of a problem go to the same set. The test set depends on the seed and on the problems only. \
Problems of a benchmark may go to the test set.";

fn formats() -> String {
    let rows = FORMATS.iter().map(|format| {
        let written = if format.writes() { "" } else { " (read only)" };
        format!("\n  {:<17} {}{written}", format.name, format.about)
    });
    format!(
        "Formats:{}\n\nThe format beamgen keeps the raw facts, so the flags on labels are for other formats. A trl \
         file has -100 for a step without a label before the last labelled step; math-shepherd and rlhflow need a \
         hard label for every step before that.",
        rows.collect::<String>()
    )
}

/// Returns a parser of the names of those formats that `offered` accepts.
fn format(offered: fn(&Format) -> bool) -> impl TypedValueParser<Value = &'static Format> {
    let offered = FORMATS.into_iter().filter(move |format| offered(format));
    let names = offered.map(|format| PossibleValue::new(format.name).help(format.about));
    PossibleValuesParser::new(names).try_map(|name| Format::named(&name))
}

const NEUTRAL: [(&str, Neutral); 4] = [
    ("positive", Neutral::Positive),
    ("negative", Neutral::Negative),
    ("drop", Neutral::Drop),
    ("half", Neutral::Half),
];

const AGREE: [(&str, Agree); 3] = [
    ("steps", Agree::Steps),
    ("chains", Agree::Chains),
    ("known", Agree::Known),
];

fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| *share > 0.0 && *share < 1.0)
        .ok_or_else(|| "not a number between 0 and 1".to_owned())
}
