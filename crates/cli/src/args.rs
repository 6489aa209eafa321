//! Commands and their arguments. Nothing is read or built here.

use std::ffi::OsString;
use std::path::PathBuf;

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

mod adapt;
mod annotate;
mod calibrate;
mod check;
mod data;
mod flags;
mod labels;
mod mend;
mod monitor;
mod old;
mod sandbox;
mod scoring;
mod serve;
mod texts;
mod train;

pub(crate) use adapt::AdaptArgs;
#[cfg_attr(
    not(feature = "train"),
    expect(unused_imports, reason = "read where training is built in")
)]
pub(crate) use adapt::RefreshFlags;
pub(crate) use annotate::AnnotateArgs;
pub(crate) use calibrate::CalibrateArgs;
pub(crate) use check::CheckArgs;
pub(crate) use data::{DataFlags, PartFlags};
pub(crate) use flags::{
    CheckerFlags, EngineFlags, Flags, Given, ModelFlags, PrmFlags, ScoreFlags, SearchFlags,
    SettingFlags, flagged,
};
pub(crate) use labels::{
    ChainsArgs, ConvertArgs, InputFlags, JudgeArgs, JudgeAs, LabelsArgs, LabelsCommand, RuleFlags,
    SplitArgs, StatArgs,
};
pub(crate) use mend::{AnswersFlags, GuardArgs, RefineArgs};
pub(crate) use monitor::MonitorArgs;
pub(crate) use sandbox::SandboxArgs;
pub(crate) use scoring::{EvalPrmArgs, ScoreArgs};
#[cfg(feature = "serve")]
pub(crate) use serve::LogFormat;
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
    /// Run an OpenAI-compatible HTTP server that answers with searches
    Serve(Box<ServeArgs>),
    /// Compare search strategies: accuracy, tokens, seconds
    Bench(Box<BenchArgs>),
    /// Measure the speed of one model without a search
    BenchEngine(BenchEngineArgs),
    /// Show a run file, or one of its problems with its tree
    Show(ShowArgs),
    /// Score the steps of given chains with a reward model
    Score(ScoreArgs),
    /// Rewrite given answers from their weakest step
    Refine(Box<RefineArgs>),
    /// Accept, mend or withhold given answers, with a reason
    Guard(Box<GuardArgs>),
    /// Measure how well a reward model finds the first wrong step of chains
    EvalPrm(EvalPrmArgs),
    /// Fit a calibration: turn a reward model's scores into probabilities of success
    Calibrate(Box<CalibrateArgs>),
    /// Train a reward model further on chains of a new generator, if it needs it
    ///
    /// Requires a build with `--features train`.
    Adapt(Box<AdaptArgs>),
    /// Compare the answers of run files with those of a reference, without texts
    Monitor(MonitorArgs),
    /// Run checkers on the steps of labelled chains, and measure their verdicts
    Check(Box<CheckArgs>),
    /// Sample chains of a generator, and label their steps by rollouts
    Label(Box<LabelArgs>),
    /// Convert, count, split and judge labelled chains
    Labels(LabelsArgs),
    /// Rate steps by hand, on a local page or in the terminal
    Annotate(AnnotateArgs),
    /// List models, or show the memory that a pair needs
    Models(ModelsArgs),
    /// Fine-tune a checkpoint, or train the bundled models from scratch
    ///
    /// Requires a build with `--features train`.
    Train(TrainArgs),
    /// Run a program that nobody trusts, without network and without rights
    Sandbox(SandboxArgs),
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
    /// Problems: a file, a data set ORG/NAME, or a question in quotes; `-` is stdin [default: bundled]
    #[arg(help_heading = None::<&str>)]
    pub file: Option<PathBuf>,

    #[command(flatten)]
    pub settings: SearchFlags,

    #[command(flatten)]
    pub data: DataFlags,
    /// Solve the first K problems only
    #[arg(long, value_name = "K")]
    pub limit: Option<usize>,
    /// Skip problems that are too long for a model's context
    ///
    /// Without this flag such a problem is an error. Skipped problems are counted and marked.
    #[arg(long, hide_short_help = true)]
    pub skip_too_long: bool,
    /// Write a run file: a JSON line for each problem
    ///
    /// Each line is written as soon as its problem is done.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Add every node of each search tree to the run file
    #[arg(long, hide_short_help = true)]
    pub tree: bool,
    /// Print what the run will cost at most, its memory and its time, and end
    ///
    /// The time is measured on some of the problems, which takes up to a minute with large models.
    #[arg(long, hide_short_help = true)]
    pub plan: bool,
    /// Resume the run file of --out: skip its finished problems
    #[arg(long)]
    pub resume: bool,
    /// Print JSON: a line for each problem, then a summary
    #[arg(long)]
    pub json: bool,
    /// Print the summary only, and no progress
    #[arg(short, long, hide_short_help = true)]
    pub quiet: bool,
    /// Print the effective settings to stderr
    ///
    /// On a terminal they are printed in any case.
    #[arg(short, long, conflicts_with = "quiet", hide_short_help = true)]
    pub verbose: bool,
    /// When to use colours
    #[arg(long, value_enum, default_value_t, hide_short_help = true)]
    pub color: ColorChoice,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::SHOW)]
pub(crate) struct ShowArgs {
    /// A run file of `beamgen solve --out`
    pub file: PathBuf,
    /// Show the problem with this id only
    ///
    /// Shows its steps, all answers with their votes and, if the run had --tree, its search tree.
    #[arg(long)]
    pub id: Option<String>,
    /// Write an HTML page instead
    ///
    /// One file that works without network: problems by outcome and by certainty, a reliability
    /// diagram of the scores and, if the run had --tree, every search tree. An existing file is
    /// replaced.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write a table with a row for each problem instead: .csv, .tsv or .parquet by the name
    #[arg(long, value_name = "FILE", conflicts_with_all = ["html", "completions"])]
    pub table: Option<PathBuf>,
    /// Write all complete chains as search-and-learn does instead: JSON lines with `completions`
    ///
    /// Needs a run with --tree. `beamgen bench --pool` reads the file, too.
    #[arg(long, value_name = "FILE", conflicts_with = "html")]
    pub completions: Option<PathBuf>,
    /// When to use colours
    #[arg(long, value_enum, default_value_t, hide_short_help = true)]
    pub color: ColorChoice,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::MODELS, next_help_heading = "Models")]
pub(crate) struct ModelsArgs {
    /// Show the memory that this generator needs
    ///
    /// With --prm, the memory that the pair needs. Nothing is loaded, but files that are not on
    /// this machine are downloaded.
    #[arg(long, value_name = "MODEL")]
    pub generator: Option<PathBuf>,
    /// Show the engine and model of these servers; --prm-url likewise
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub generator_url: Vec<String>,
    /// Write the bundled models to the folders generator, prm and orm in DIR
    ///
    /// These are checkpoints in Hugging Face layout: to read, to load elsewhere, to fine-tune. None
    /// of the folders may exist.
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
#[command(after_help = texts::SHORT, after_long_help = texts::LABEL)]
#[command(next_help_heading = "Labels")]
pub(crate) struct LabelArgs {
    /// Problems with answers, one a line; `-` is stdin [default: bundled]
    #[arg(help_heading = None::<&str>)]
    pub file: Option<PathBuf>,

    /// Choice of the steps to roll out: all, early, binary or adaptive
    ///
    /// all: every step, with --rollouts rollouts each. early: every step, until a rollout is right.
    /// binary: a binary search for the first wrong step of each wrong chain. adaptive: every step,
    /// with more rollouts for problems of which few chains are right.
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
    /// Rollouts for each step; 0 writes chains with their outcomes only
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub rollouts: u32,
    /// With --mode binary: also search N wrong rollouts of each problem
    ///
    /// Rollouts are chosen as in OmegaPRM, and are written as chains with the source rollout.
    #[arg(long, value_name = "N", default_value_t = 0, hide_short_help = true)]
    pub searches: u32,
    /// Label hard chains only: K wrong ones with the highest scores, K right ones with the lowest
    ///
    /// K chains of each problem. --prm scores the chains when all of them are done. Problems without a
    /// wrong chain give no labels.
    #[arg(long, value_name = "K")]
    pub mine: Option<usize>,
    /// Skip problems whose chains are all right or all wrong
    ///
    /// The chains of these problems do not differ in outcome, so they get no rollouts and no labels.
    #[arg(long)]
    pub mixed: bool,

    #[command(flatten, next_help_heading = "Input and output")]
    pub settings: SettingFlags,

    #[command(flatten)]
    pub data: DataFlags,
    /// Label chains of the first K problems only
    #[arg(long, value_name = "K")]
    pub limit: Option<usize>,
    /// Skip problems that are too long for the generator's context
    ///
    /// Without this flag such a problem is an error.
    #[arg(long, hide_short_help = true)]
    pub skip_too_long: bool,
    /// Write the labelled chains to this file, one JSON object a line
    ///
    /// In the order of the problems. --resume also needs FILE.run, which is next to it.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Print what the run will cost at most, its memory and its time, and end
    ///
    /// The time is measured on some of the problems, which takes up to a minute with large models.
    #[arg(long, hide_short_help = true)]
    pub plan: bool,
    /// Resume the file of --out: skip its finished problems
    #[arg(long)]
    pub resume: bool,
    /// Print the summary as a JSON object
    #[arg(long)]
    pub json: bool,
    /// Print the summary only, and no progress
    #[arg(short, long, hide_short_help = true)]
    pub quiet: bool,
}

/// Returns a parser that accepts the names in `table` and returns the value of the given name.
fn by_name<T: Clone + Send + Sync + 'static>(
    table: impl IntoIterator<Item = (&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let (names, values): (Vec<_>, Vec<_>) = table.into_iter().unzip();
    PossibleValuesParser::new(names.clone()).try_map(move |given| {
        let at = names.iter().position(|name| *name == given);
        at.map(|at| values[at].clone())
            .ok_or("not a name of the table")
    })
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::PROBLEMS)]
pub(crate) struct ProblemsArgs {
    /// Number of problems
    #[arg(long, default_value_t = 100)]
    pub count: usize,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Set to sample from: test is held out from all training, train is not
    #[arg(long, value_parser = by_name([("test", Split::Test), ("train", Split::Train)]), default_value = "test")]
    pub split: Split,
    /// Fewest people in a problem; the solution has a step for each person
    #[arg(long, value_name = "P", default_value_t = 3)]
    pub min_people: usize,
    /// Most people in a problem
    #[arg(long, value_name = "P", default_value_t = 7)]
    pub max_people: usize,
    /// Greatest distance, in people, to the person that a fact refers to
    ///
    /// The bundled models are trained on distance 1 only.
    #[arg(long, value_name = "R", default_value_t = 1)]
    pub dependency_distance: usize,
    /// Write labelled chains for `beamgen eval-prm` instead
    ///
    /// Each chain is a solution that may have mistakes; its label is the first wrong step.
    #[arg(long)]
    pub steps: bool,
    /// Also write the right solution of each problem, for `beamgen train sft`
    #[arg(long, conflicts_with = "steps")]
    pub solutions: bool,
    /// Write a twin after each problem: the same text with other numbers
    ///
    /// A twin's id ends in -twin. Summaries then report how many pairs are right in both problems,
    /// which separates method from luck.
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
    /// Problems, as FILE
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "file",
        help_heading = None::<&str>,
        hide_short_help = true
    )]
    pub problems: Option<PathBuf>,
    /// Choose among the solutions in this file; nothing is sampled
    ///
    /// JSON lines with problem, answer and solutions, or an output file of Qwen2.5-Math's
    /// evaluation, search-and-learn, grade-school-math or ProcessBench. Each solution is scored
    /// once; then every selector with every aggregation chooses among them. May be repeated.
    #[arg(long, value_name = "FILE", help_heading = None::<&str>)]
    pub pool: Vec<PathBuf>,

    /// Strategies to compare
    ///
    /// Names as for `beamgen solve --strategy` [default: single,majority,best-of-n,beam]
    #[arg(
        long,
        value_parser = strategy_name(),
        hide_possible_values = true,
        value_delimiter = ',',
        value_name = "LIST"
    )]
    pub strategies: Vec<StrategyName>,
    /// Scorers to compare: prm, orm, exact [default: prm]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub scorers: Vec<ScorerKind>,
    /// Numbers of chains to compare [default: 16]
    #[arg(short = 'n', long = "n", value_delimiter = ',', value_name = "LIST")]
    pub chains: Vec<usize>,
    /// Number of seeds to average over [default: 1]
    ///
    /// The first seed is --seed; the others are the numbers after it.
    #[arg(long, value_name = "COUNT")]
    pub seeds: Option<u64>,

    #[command(flatten, next_help_heading = "Input and output")]
    pub settings: SettingFlags,

    #[command(flatten)]
    pub data: DataFlags,
    /// Solve the first K problems of each set only
    #[arg(long, value_name = "K")]
    pub limit: Option<usize>,
    /// Write a results folder with rows, tables and plots
    ///
    /// Each raw row is written as soon as it is measured, tables and plots at the end.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Resume the results folder of --out: skip finished rows
    #[arg(long)]
    pub resume: bool,
    /// Check all settings, list the runs with their memory and time, and end
    ///
    /// The time is measured on some of the problems, which takes up to a minute a search with large
    /// models.
    #[arg(long, conflicts_with = "out", hide_short_help = true)]
    pub plan: bool,
    /// Redraw the tables and plots of a results folder
    ///
    /// Made from the folder's rows; no search is run.
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
    /// Model to measure [default: bundled]
    ///
    /// A folder in Hugging Face layout, a GGUF file, ORG/NAME[@REVISION] on the Hugging Face hub,
    /// or bundled.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// Use random bfloat16 weights in place of the model's
    ///
    /// The folder's config.json gives their shapes; nothing else in the folder is read.
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
    /// Lengths of the prompt that all sequences share, in tokens
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
    /// Repetitions of each measurement; median and spread are shown
    #[arg(long, value_name = "RUNS", default_value_t = 5)]
    pub repeat: usize,
    /// Compute logits, but sample nothing: continue with fixed tokens
    #[arg(long)]
    pub no_sample: bool,
    /// Show the time of each operation, next to the least that the machine needs
    ///
    /// The least time is that of the operation's bytes at the rate at which memory is read, or of
    /// its arithmetic at the ceiling, whichever is longer. An operation can take less if the caches
    /// hold its bytes, or if AMX multiplies int8. For the CPU only.
    #[arg(long)]
    pub profile: bool,
    #[command(flatten)]
    pub engine: EngineFlags,
    /// Print one JSON object for each measurement
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// Shell that reads the script
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::MAN)]
pub(crate) struct ManArgs {
    /// Command whose page is printed [default: beamgen itself]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub command: Option<String>,
    /// Write the pages of all commands to this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Returns a parser of strategy names, including presets such as `majority`.
fn strategy_name() -> impl TypedValueParser<Value = StrategyName> {
    let names =
        StrategyName::all().map(|named| PossibleValue::new(named.name()).help(named.summary()));
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// Returns the definition of all commands and flags. The parser, the completion scripts and the
/// manual pages are made from this definition.
pub(crate) fn definition() -> clap::Command {
    old::accepted(Cli::command())
}

/// Parses the command line. Returns the command, and clap's record of the given flags. Help and
/// version end the process; an error becomes one line.
pub(crate) fn parse() -> Result<(Command, ArgMatches), Failure> {
    let parsed = definition().try_get_matches();
    match parsed.and_then(|given| Ok((Cli::from_arg_matches(&given)?.command, given))) {
        Ok(parsed) => {
            // The parser consumed the first definition, so a second one is made.
            let definition = definition();
            let (command, _) = named(&definition, std::env::args_os().skip(1));
            for note in old::notes(command, std::env::args_os()) {
                output::note_once(format_args!("{note}"));
            }
            Ok(parsed)
        }
        // With `beamgen --help | head` the reader closes the pipe early, which is not an error.
        Err(help) if !help.use_stderr() => {
            let _ = help.print();
            std::process::exit(0)
        }
        // clap treats a missing argument as a request for help, but it is wrong usage: exit code 2.
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = help.print();
            std::process::exit(2)
        }
        Err(error) => refuse(one_line(&error)),
    }
}

/// Parses a command that another command of this program runs, without the program's name.
#[cfg(feature = "train")]
pub(crate) fn parse_own(command: &[&str]) -> Result<Command, Failure> {
    let line = std::iter::once("beamgen").chain(command.iter().copied());
    let parsed = definition().try_get_matches_from(line);
    match parsed.and_then(|given| Cli::from_arg_matches(&given)) {
        Ok(cli) => Ok(cli.command),
        Err(error) => refuse(one_line(&error)),
    }
}

/// Joins clap's message into one line: the error, clap's suggestion of a similar name, and the
/// command that prints help.
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

/// Returns the command that the arguments name, and its full name, such as `beamgen labels
/// convert`.
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
