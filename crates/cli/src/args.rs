//! Commands and their arguments. Nothing is read or built here.

use std::ffi::OsString;
use std::path::PathBuf;

use beamgen::Aggregation;
use beamgen::scorer::ScorerKind;
use beamgen::strategy::StrategyName;
use beamgen_labels::monte_carlo::Mode;
use beamgen_world::Split;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::failure::{Failure, refuse};
use crate::output;
use crate::palette::ColorChoice;

mod annotate;
mod calibrate;
mod check;
mod flags;
mod labels;
mod mend;
mod old;
mod serve;
mod texts;
mod train;

pub(crate) use annotate::AnnotateArgs;
pub(crate) use calibrate::CalibrateArgs;
pub(crate) use check::CheckArgs;
pub(crate) use flags::{
    CheckerFlags, EngineFlags, Flags, Given, ModelFlags, PrmFlags, SearchFlags, SettingFlags,
    flagged,
};
pub(crate) use labels::{
    ChainsArgs, ConvertArgs, InputFlags, JudgeArgs, JudgeAs, LabelsArgs, LabelsCommand, RuleFlags,
    SplitArgs, StatArgs,
};
pub(crate) use mend::{AnswersFlags, GuardArgs, RefineArgs};
pub(crate) use serve::ServeArgs;
#[cfg_attr(
    not(feature = "train"),
    expect(unused_imports, reason = "read where training is built in")
)]
pub(crate) use train::{
    AbacusArgs, DecayFlag, DeviceFlag, RewardArgs, RlArgs, RunFlags, SftArgs, TrainArgs,
    TrainCommand, TuneFlags,
};

/// The answer to `--version`.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("BEAMGEN_COMMIT"),
    ")"
);

/// PRM-guided beam search decoding
///
/// A generator proposes reasoning steps, a reward model scores each one, and weak chains are
/// dropped before they cost tokens.
#[derive(Parser, Debug)]
#[command(
    name = "beamgen",
    bin_name = "beamgen",
    version = VERSION,
    after_long_help = texts::TOP,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Solve problems and show the chosen chains with their scores
    Solve(Box<SolveArgs>),
    /// Serve HTTP requests, as `OpenAI`'s clients make them
    Serve(Box<ServeArgs>),
    /// Compare search strategies: accuracy, tokens, seconds
    Bench(Box<BenchArgs>),
    /// Measure the speed of one model without a search
    BenchEngine(BenchEngineArgs),
    /// Show a run file, or one of its problems with its tree
    Show(ShowArgs),
    /// Score the steps of given chains with a reward model
    Score(ScoreArgs),
    /// Write given answers again from their weakest step
    Refine(Box<RefineArgs>),
    /// Accept, mend or withhold given answers, with a reason
    Guard(Box<GuardArgs>),
    /// Measure how well a reward model finds first wrong steps
    EvalPrm(EvalPrmArgs),
    /// Fit a reward model's scores to probabilities of success
    Calibrate(Box<CalibrateArgs>),
    /// Check the steps of labelled chains with checkers that can prove them wrong
    Check(Box<CheckArgs>),
    /// Label a generator's own chains by rollouts from their steps
    Label(Box<LabelArgs>),
    /// Read, count, convert and split labelled steps
    Labels(LabelsArgs),
    /// Rate steps as a person, on a local page or in the terminal
    Annotate(AnnotateArgs),
    /// List models, and show the memory that a pair needs
    Models(ModelsArgs),
    /// Train a checkpoint further, or the bundled models from scratch
    ///
    /// Needs a build with `--features train`.
    Train(TrainArgs),
    /// Write problems of the bundled world as JSON lines
    Problems(ProblemsArgs),
    /// Write a completion script for a shell
    Completions(CompletionsArgs),
    /// Write the manual page of a command
    Man(ManArgs),
}

#[derive(Args, Debug)]
#[command(after_help = texts::SHORT, after_long_help = texts::solve())]
#[command(next_help_heading = "Input and output")]
pub(crate) struct SolveArgs {
    /// Problems, one a line, or one question in quotes; `-` is stdin [default: bundled]
    #[arg(help_heading = None::<&str>)]
    pub file: Option<PathBuf>,

    #[command(flatten)]
    pub settings: SearchFlags,

    /// Solve the first K problems only
    #[arg(long, value_name = "K")]
    pub limit: Option<usize>,
    /// Leave out problems that are too long for a model's context
    ///
    /// Without it the file is refused. They are counted and marked.
    #[arg(long, hide_short_help = true)]
    pub skip_too_long: bool,
    /// Write a run file, a JSON line for each problem
    ///
    /// A line is written as soon as its problem is done.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Put every node of each search into the run file
    #[arg(long, hide_short_help = true)]
    pub tree: bool,
    /// Continue the run file; skip its finished problems
    #[arg(long)]
    pub resume: bool,
    /// Print JSON: a line for each problem, then a summary
    #[arg(long)]
    pub json: bool,
    /// Print the summary only, and no progress
    #[arg(short, long, hide_short_help = true)]
    pub quiet: bool,
    /// Show the effective settings on stderr
    ///
    /// On a terminal they are shown without it.
    #[arg(short, long, conflicts_with = "quiet", hide_short_help = true)]
    pub verbose: bool,
    /// Use colours
    #[arg(long, value_enum, default_value_t, hide_short_help = true)]
    pub color: ColorChoice,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::SHOW)]
pub(crate) struct ShowArgs {
    /// A run file of `beamgen solve --out`
    pub file: PathBuf,
    /// Show this problem only
    ///
    /// With its steps, all answers and their votes, and its tree if the run had --tree.
    #[arg(long)]
    pub id: Option<String>,
    /// Write a page for a browser instead
    ///
    /// One file that works without network: problems by outcome and by certainty, how far scores
    /// can be trusted, and every tree of a run with --tree. A file that is there is replaced.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Use colours
    #[arg(long, value_enum, default_value_t, hide_short_help = true)]
    pub color: ColorChoice,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::MODELS, next_help_heading = "Models")]
pub(crate) struct ModelsArgs {
    /// Show what this generator needs
    ///
    /// With --prm, show what the pair needs. Nothing is loaded, but what is not on this machine is
    /// downloaded.
    #[arg(long, value_name = "MODEL")]
    pub generator: Option<PathBuf>,
    /// Show what these servers are (as do addresses of --prm-url)
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub generator_url: Vec<String>,
    /// Write the bundled models as folders below DIR: generator, prm, orm
    ///
    /// They are what any checkpoint in Hugging Face layout is: to look at, to load elsewhere, to
    /// train further. None of these folders may be there.
    #[arg(
        long,
        num_args = 2,
        value_names = ["bundled", "DIR"],
        exclusive = true
    )]
    pub write: Vec<PathBuf>,
    /// Print one JSON object for each model
    #[arg(long, help_heading = None::<&str>)]
    pub json: bool,
    #[command(flatten)]
    pub models: ModelFlags,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::SCORE)]
pub(crate) struct ScoreArgs {
    /// Chains, one JSON object a line; `-` is stdin
    pub file: PathBuf,
    /// How step scores become `score` [default: min]
    ///
    /// min, product, mean, last, max, soft-min[:T] or likely-min[:W]
    #[arg(long)]
    pub aggregation: Option<Aggregation>,
    #[command(flatten)]
    pub prm: PrmFlags,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::EVAL_PRM)]
pub(crate) struct EvalPrmArgs {
    /// Files of labelled chains, of any format of `beamgen labels`; the table has a row for each
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present = "redraw")]
    pub data: Vec<PathBuf>,
    /// Write a report to this folder: report.md, results.json, rows.jsonl, plots
    #[arg(long, value_name = "DIR", help_heading = "Report")]
    pub report: Option<PathBuf>,
    /// Change the chains on purpose, score them again, and say what the model does not notice
    ///
    /// Question removed or swapped, a wrong number, filler, repeats, one giant step and others; and how scores
    /// hold on other generators and harder levels, where the data name them.
    /// --report has all figures. It costs about fifteen times the scoring.
    #[arg(long, conflicts_with = "redraw", help_heading = "Probes")]
    pub probes: bool,
    /// How step scores become a chain's score in probes [default: min]
    ///
    /// min, product, mean, last, max or soft-min[:T]
    #[arg(long, requires = "probes", help_heading = "Probes")]
    pub aggregation: Option<Aggregation>,
    /// Write the report in this folder again from its rows.jsonl, without a model
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["data", "report", "limit"],
        help_heading = "Report"
    )]
    pub redraw: Option<PathBuf>,
    /// Show in the report what this calibration makes of the scores [default: the one beside the model]
    #[arg(
        long,
        value_name = "FILE",
        requires = "report",
        help_heading = "Report"
    )]
    pub calibration: Option<PathBuf>,
    #[command(flatten)]
    pub labels: RuleFlags,
    /// Call a step wrong if its score is below T
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

#[derive(Args, Debug)]
#[command(after_help = texts::SHORT, after_long_help = texts::LABEL)]
#[command(next_help_heading = "Labels")]
pub(crate) struct LabelArgs {
    /// Problems with answers, one a line; `-` is stdin [default: bundled]
    #[arg(help_heading = None::<&str>)]
    pub file: Option<PathBuf>,

    /// Which steps are rolled out: all, early, binary or adaptive
    ///
    /// all: every step, with as many rollouts. early: every step, until a rollout is right. binary:
    /// a binary search for the first error of each wrong chain. adaptive: every step, with more
    /// rollouts where few chains are right.
    #[arg(
        long,
        value_parser = by_name(Mode::ALL.map(|mode| (mode.name(), mode))),
        value_name = "MODE",
        default_value = "all",
        hide_possible_values = true
    )]
    pub mode: Mode,
    /// Chains to sample for each problem
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub chains: usize,
    /// Rollouts from after a step; 0 gives chains with their outcomes alone
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub rollouts: u32,
    /// With --mode binary: search so many wrong rollouts of each problem, too
    ///
    /// Searches are chosen as `OmegaPRM` does, and come out as chains with the source rollout.
    #[arg(long, value_name = "N", default_value_t = 0, hide_short_help = true)]
    pub searches: u32,
    /// Label only the K wrong chains of each problem that the PRM rates highest, and as many right
    /// ones
    ///
    /// The chains are scored by --prm when all are done. The right ones are those that it rates
    /// lowest. Problems without a wrong chain give no labels.
    #[arg(long, value_name = "K")]
    pub mine: Option<usize>,
    /// Leave out problems whose chains are all right or all wrong
    ///
    /// They get no rollouts and give no labels: there is nothing to choose between their chains.
    #[arg(long)]
    pub mixed: bool,

    #[command(flatten, next_help_heading = "Input and output")]
    pub settings: SettingFlags,

    /// Label chains of the first K problems only
    #[arg(long, value_name = "K")]
    pub limit: Option<usize>,
    /// Leave out problems that are too long for the generator's context
    ///
    /// Without it the file is refused.
    #[arg(long, hide_short_help = true)]
    pub skip_too_long: bool,
    /// Write the labelled chains here, one JSON object a line
    ///
    /// In the order of the problems. FILE.run beside it has what --resume needs.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Continue FILE; skip its finished problems
    #[arg(long)]
    pub resume: bool,
    /// Print the summary as a JSON object
    #[arg(long)]
    pub json: bool,
    /// Print the summary only, and no progress
    #[arg(short, long, hide_short_help = true)]
    pub quiet: bool,
}

/// A value by its name in a table.
fn by_name<T: Clone + Send + Sync + 'static>(
    table: impl IntoIterator<Item = (&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let (names, values): (Vec<_>, Vec<_>) = table.into_iter().unzip();
    PossibleValuesParser::new(names.clone()).try_map(move |given| {
        let at = names.iter().position(|name| *name == given);
        at.map(|at| values[at].clone())
            .ok_or("there is no such name")
    })
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::PROBLEMS)]
pub(crate) struct ProblemsArgs {
    /// How many problems
    #[arg(long, default_value_t = 100)]
    pub count: usize,
    /// The seed of all random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// test is held out from every training, train is not
    #[arg(long, value_parser = by_name([("test", Split::Test), ("train", Split::Train)]), default_value = "test")]
    pub split: Split,
    /// Fewest people in a problem; each is a step of the solution
    #[arg(long, value_name = "P", default_value_t = 3)]
    pub min_people: usize,
    /// Most people in a problem
    #[arg(long, value_name = "P", default_value_t = 7)]
    pub max_people: usize,
    /// How many people back a fact may refer
    ///
    /// The bundled models know 1.
    #[arg(long, value_name = "R", default_value_t = 1)]
    pub dependency_distance: usize,
    /// Write labelled chains for `beamgen eval-prm` instead
    ///
    /// They are solutions with mistakes, and the label is the first wrong step.
    #[arg(long)]
    pub steps: bool,
    /// Write the right solution of each problem, too, for `beamgen train sft`
    #[arg(long, conflicts_with = "steps")]
    pub solutions: bool,
    /// Write a twin behind each problem: the same with other numbers
    ///
    /// Its id ends in -twin. Summaries then say how many are right on both, which tells method from
    /// luck.
    #[arg(long, conflicts_with = "steps")]
    pub twins: bool,
}

#[derive(Args, Debug)]
#[command(after_help = texts::SHORT, after_long_help = texts::BENCH)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct BenchArgs {
    /// Problems with answers, one a line; `-` is stdin [default: bundled]
    #[arg(value_name = "FILE", help_heading = None::<&str>)]
    pub file: Option<PathBuf>,
    /// The same as FILE
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "file",
        help_heading = None::<&str>,
        hide_short_help = true
    )]
    pub problems: Option<PathBuf>,
    /// Choose among solutions that exist already; nothing is sampled
    ///
    /// JSON lines with problem, answer and solutions, or what Qwen2.5-Math's evaluation,
    /// search-and-learn, grade-school-math or `ProcessBench` write. Each solution is scored once, then
    /// every selector with every aggregation chooses among them. May be repeated.
    #[arg(long, value_name = "FILE", help_heading = None::<&str>)]
    pub pool: Vec<PathBuf>,

    /// Strategies to compare
    ///
    /// Those of `beamgen solve --strategy` [default: single,majority,best-of-n,beam]
    #[arg(
        long,
        value_parser = strategy_name(),
        hide_possible_values = true,
        value_delimiter = ',',
        value_name = "LIST"
    )]
    pub strategies: Vec<StrategyName>,
    /// Scorers for strategies that use one [default: prm]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub scorers: Vec<ScorerKind>,
    /// Numbers of chains to compare at [default: 16]
    #[arg(short = 'n', long = "n", value_delimiter = ',', value_name = "LIST")]
    pub chains: Vec<usize>,
    /// Average over so many seeds [default: 1]
    ///
    /// They are --seed and the numbers after it.
    #[arg(long, value_name = "COUNT")]
    pub seeds: Option<u64>,

    #[command(flatten, next_help_heading = "Input and output")]
    pub settings: SettingFlags,

    /// Solve the first K problems of each set only
    #[arg(long, value_name = "K")]
    pub limit: Option<usize>,
    /// Write a results folder with rows, tables and plots
    ///
    /// Every raw row is written as soon as it is there, tables and plots at the end.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue the results folder; skip what is in it
    #[arg(long)]
    pub resume: bool,
    /// Check everything and show what would be run
    #[arg(long, conflicts_with = "out", hide_short_help = true)]
    pub plan: bool,
    /// Draw the tables and plots of a results folder again
    ///
    /// Nothing is run.
    #[arg(long, value_name = "DIR", exclusive = true)]
    pub redraw: Option<PathBuf>,
    /// Print one JSON object for each row of the table
    #[arg(long)]
    pub json: bool,
    /// Print the table only, and no progress
    #[arg(short, long, hide_short_help = true)]
    pub quiet: bool,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::BENCH_ENGINE)]
pub(crate) struct BenchEngineArgs {
    /// The model [default: bundled]
    ///
    /// A folder in Hugging Face layout, a GGUF file, ORG/NAME[@REVISION] of the hub, or bundled.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// Use random bfloat16 weights
    ///
    /// Their shapes are those of the folder's config.json; nothing else of it is read.
    #[arg(long, requires = "model")]
    pub random: bool,
    /// Numbers of sequences decoded together
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,4,16,64,256"
    )]
    pub batch: Vec<usize>,
    /// Lengths of the prompt that they share, in tokens
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "128,1024"
    )]
    pub prefix: Vec<usize>,
    /// Tokens to append to each sequence
    #[arg(long, value_name = "TOKENS", default_value_t = 32)]
    pub new: usize,
    /// Runs of each measurement; median and spread are shown
    #[arg(long, value_name = "RUNS", default_value_t = 5)]
    pub repeat: usize,
    /// Compute logits but sample nothing; the next tokens are given
    #[arg(long)]
    pub no_sample: bool,
    #[command(flatten)]
    pub engine: EngineFlags,
    /// Print one JSON object for each measurement
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::MAN)]
pub(crate) struct ManArgs {
    /// The command whose page is printed [default: beamgen itself]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub command: Option<String>,
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// A strategy by its name in the table of strategies, or that of a preset.
fn strategy_name() -> impl TypedValueParser<Value = StrategyName> {
    let names =
        StrategyName::all().map(|named| PossibleValue::new(named.name()).help(named.summary()));
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// All commands and flags, for what is generated from them.
pub(crate) fn definition() -> clap::Command {
    old::accepted(Cli::command())
}

/// Parses the command line: the command, and all that was given. Help and version end the process;
/// an error becomes one line.
pub(crate) fn parse() -> Result<(Command, ArgMatches), Failure> {
    let parsed = definition().try_get_matches();
    match parsed.and_then(|given| Ok((Cli::from_arg_matches(&given)?.command, given))) {
        Ok(parsed) => {
            let definition = definition();
            let (command, _) = named(&definition, std::env::args_os().skip(1));
            for note in old::notes(command, std::env::args_os()) {
                output::note_once(format_args!("{note}"));
            }
            Ok(parsed)
        }
        // Help into a closed pipe is no failure.
        Err(help) if !help.use_stderr() => {
            let _ = help.print();
            std::process::exit(0)
        }
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = help.print();
            std::process::exit(2)
        }
        Err(error) => refuse(one_line(&error)),
    }
}

/// clap's message in one line: what is wrong, a similar name if there is one, and where help is.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let parts =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let parts = parts.filter(|line| !line.starts_with("tip: to pass"));
    let message = parts.collect::<Vec<_>>().join(" ").replace(" tip: ", ", ");
    let definition = definition();
    let (_, command) = named(&definition, std::env::args_os().skip(1));
    format!(
        "{}: see `{command} --help`",
        message.trim_start_matches("error: ")
    )
}

/// The command that arguments name, and how it is typed: `beamgen labels convert`.
fn named(
    definition: &clap::Command,
    arguments: impl Iterator<Item = OsString>,
) -> (&clap::Command, String) {
    let (mut command, mut typed) = (definition, definition.get_name().to_owned());
    for argument in arguments {
        let Some(inner) = command.find_subcommand(&argument) else {
            break;
        };
        typed = format!("{typed} {}", inner.get_name());
        command = inner;
    }
    (command, typed)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        super::Cli::command().debug_assert();
    }

    #[test]
    fn earlier_spellings_are_accepted_with_a_note() {
        for (typed, words) in [
            (
                "eval-prm --data a --rollouts soft --threshold=0.4",
                &["rollout-label", "wrong-below"][..],
            ),
            ("calibrate --data a --rollouts soft", &["rollout-label"]),
            ("check a --rollouts soft", &["rollout-label"]),
            (
                "labels split a --train b --test c",
                &["train-out", "test-out"],
            ),
            (
                "train sft --data a --from b --out c --train top=2 --max-tokens 9",
                &["max-example-tokens"],
            ),
            ("serve --max-tokens 9", &["max-request-tokens"]),
            ("problems --reach 1", &["dependency-distance"]),
            ("train abacus --gate-problems 3", &["evaluation-problems"]),
            ("label --rollouts 3 --out a", &[]),
            ("solve --threshold 0.5 -- --rollouts", &[]),
        ] {
            let typed = || typed.split(' ').map(OsString::from);
            let all = [OsString::from("beamgen")].into_iter().chain(typed());
            let definition = super::definition();
            definition.clone().try_get_matches_from(all).unwrap();
            let notes = super::old::notes(super::named(&definition, typed()).0, typed());
            assert_eq!(notes.len(), words.len(), "{notes:?}");
            for (note, word) in notes.iter().zip(words) {
                assert!(
                    note.ends_with(&format!(" is now called --{word}")),
                    "{note}"
                );
            }
        }
    }

    #[test]
    fn help_is_that_of_the_command_that_was_typed() {
        for (typed, command) in [
            (&["solve", "bench", "--foo"][..], "beamgen solve"),
            (&["labels", "convert", "a"], "beamgen labels convert"),
            (&["slove"], "beamgen"),
            (&["--foo", "solve"], "beamgen"),
            (&[], "beamgen"),
        ] {
            let arguments = typed.iter().map(Into::into);
            assert_eq!(super::named(&super::definition(), arguments).1, command);
        }
    }
}
