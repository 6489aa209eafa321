//! What can be typed. Nothing is read or built here.

use std::path::PathBuf;

use beamgen::{
    Aggregation, Choose, DeviceChoice, KvType, ScorerKind, Strategies, StrategyName, WeightType,
};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

use crate::failure::Failure;
use crate::palette::ColorChoice;
use crate::version::VERSION;

const EXAMPLES: &str = "\
Examples:
  beamgen solve                                 the bundled sample problems with the bundled models
  beamgen solve problems.jsonl --out run.jsonl  a file of your own; the run file keeps every result
  beamgen solve problems.jsonl --out run.jsonl --resume
  echo 'Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?' | beamgen solve -
  beamgen bench --limit 100                     beam search against best-of-N and the rest

Exit codes: 0 done, 1 the run failed, 2 wrong usage or input.";

const SOLVE_EXAMPLES: &str = "\
Examples:
  beamgen solve                                          bundled problems, bundled models
  beamgen solve problems.jsonl -n 32 -m 4 --seed 7       a wider beam on a file of your own
  beamgen solve problems.jsonl --strategy majority       no reward model: the most frequent answer
  beamgen solve --strategy mcts --set search.mcts.exploration=2 --budget-tokens 2000
  beamgen solve problems.jsonl --out run.jsonl --resume  go on where a killed run stopped
  beamgen solve - --json < problems.jsonl | jq .answer   for programs
  beamgen solve problems.jsonl --generator DIR --prm DIR models of your own, in Hugging Face layout
  beamgen solve problems.jsonl --generator model.gguf --prm DIR
  beamgen solve problems.jsonl --pair qwen2.5-math-1.5b  published models by name (see `beamgen models`)";

const SOLVE_INPUT: &str = "\
FILE has one problem a line: plain text, or JSON with \"problem\" (or \"question\" or
\"prompt\") and, if known, \"answer\" and \"id\". Flags on search, sampling and models are keys of the
configuration file as well (configs/search/default.toml has them all); --set sets any of them, such
as those of one strategy: --set search.lookahead.steps=2. majority, weighted and single are short
for strategy \"best-of-n\" with another choose or n.

Beside a step stands its score, the reward model's probability that it is right: ? marks a score below
0.9, ! one below 0.5. An answer is a guess if nothing in the chain marks it as the answer, so that its
last number was taken. Ctrl-C ends the run with what is done; --resume goes on with it.";

const BENCH_EXAMPLES: &str = "\
Examples:
  beamgen bench --limit 100                              the usual strategies on bundled problems
  beamgen bench problems.jsonl --strategies best-of-n,beam --n 4,16,64
  beamgen bench problems.jsonl --scorers prm,orm --seeds 3 --json
  beamgen bench --config configs/bench/quick.toml --out quick    tables, plots and all raw rows
  beamgen bench --config configs/bench/quick.toml --out quick --resume
  beamgen bench --redraw quick                           the report anew, nothing is run

A --config with [[run]] tables is a bench of its own: problem sets, runs, seeds and comparisons
(see configs/bench/). Any other is settings for all strategies, as for `beamgen solve`. M is lowered
to N where N is smaller.";

const BENCH_ENGINE_EXAMPLES: &str = "\
Examples:
  beamgen bench-engine                                     the bundled generator
  beamgen bench-engine --model DIR --dtype int8 --batch 1,64 --prefix 1024
  beamgen bench-engine --model model.gguf --no-sample --json > rows.jsonl

All sequences of a batch go on from one prompt of --prefix tokens that is read once; every pass appends a token to each
and computes its logits, from which the next one is drawn at temperature 0.8: what a search asks of the engine. Tokens
of the prompt mean nothing, so that no tokenizer is needed. GB/s are the weights of each pass against the memory's
reading speed, GFLOP/s the multiply-adds (two each) against those of a loop in registers; both ceilings are measured by
the same process on the same threads.";

const SHOW_EXAMPLES: &str = "\
Examples:
  beamgen solve --out run.jsonl --tree && beamgen show run.jsonl
  beamgen show run.jsonl --id world-2026-1

A step of the tree has its score, its text, its number and what became of it: pruned in which round, at which rank (by
chain score) and below which cutoff, or the end of its chain. docs/run-file.md lists all fields of the file.";

const MODELS_EXAMPLES: &str = "\
Examples:
  beamgen models                                                  the cache, pairs, and what is known to work
  beamgen models --pair qwen2.5-math-1.5b                         what a pair needs in memory
  beamgen models --generator model.gguf --prm Qwen/Qwen2.5-Math-PRM-7B   what the pair needs in memory
  beamgen models --generator DIR --prm DIR --dtype bf16";

const SCORE_EXAMPLES: &str = "\
Examples:
  beamgen score chains.jsonl > scores.jsonl           with the bundled reward model
  beamgen score chains.jsonl --prm DIR --aggregation min

FILE has one chain a line: {\"id\": \"a\", \"problem\": \"...\", \"steps\": [\"...\", \"...\"]}; a JSON array of
such objects does as well. Each line of output has the id, `scores` (one a step, 0 to 1) and `score` (aggregated),
or `error` for a chain that the model cannot take.";

const EVAL_PRM_EXAMPLES: &str = "\
Examples:
  beamgen eval-prm --data processbench_gsm8k.json --prm DIR
  beamgen eval-prm --data gsm8k.json math.json --prm DIR --threshold 0.4 --json
  beamgen problems --count 500 --steps > world.jsonl && beamgen eval-prm --data world.jsonl

Data are chains as for `beamgen score`, each with its label: `label`, the index of the first wrong step from 0, -1 for
none (ProcessBench), or `labels`, a list of true and false.";

const TRAIN_EXAMPLES: &str = "\
Examples:
  beamgen train --out my-abacus            the models as shipped
  beamgen train --out my-abacus --resume   after an interruption
  beamgen train --quick --out /tmp/quick   the whole pipeline on a small scale";

const PROBLEMS_EXAMPLES: &str = "\
Examples:
  beamgen problems --count 500 > held-out.jsonl && beamgen bench held-out.jsonl";

/// PRM-guided beam search decoding: a generator proposes reasoning steps, a reward model scores
/// each one, and weak chains are dropped before they cost tokens.
#[derive(Parser, Debug)]
#[command(name = "beamgen", version = VERSION, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Solve problems, showing each step of the chosen chains with its score
    Solve(Box<SolveArgs>),
    /// Compare search strategies on the same problems: accuracy, tokens, seconds
    Bench(Box<BenchArgs>),
    /// Time one engine without a search: tokens a second of decoding and prefill
    BenchEngine(BenchEngineArgs),
    /// Show a run file: its problems, or one of them with its tree
    Show(ShowArgs),
    /// Score the steps of given chains with a reward model: JSON lines in and out
    Score(ScoreArgs),
    /// Measure how well a reward model finds first wrong steps, as ProcessBench does
    EvalPrm(EvalPrmArgs),
    /// List models: in the hub's cache, pairs, known to work, and what a pair needs in memory
    Models(ModelsArgs),
    /// Train the bundled generator, PRM and ORM from fixed seeds, and measure the pair (needs a build
    /// with `--features train`)
    Train(TrainArgs),
    /// Write problems of the bundled world, a JSON line each
    Problems(ProblemsArgs),
}

/// Examples, the table of strategies, what the input may be.
fn solve_help() -> String {
    let strategies = Strategies::builtin().help();
    format!("{SOLVE_EXAMPLES}\n\nStrategies:\n{strategies}\n{SOLVE_INPUT}")
}

#[derive(Args, Debug)]
#[command(after_help = solve_help())]
pub struct SolveArgs {
    /// Problems, a line each; `-` reads stdin [default: the bundled sample]
    pub file: Option<PathBuf>,

    /// beam, dvts, best-of-n, majority or another of those below [default: beam]
    #[arg(
        long,
        value_parser = strategy_name(),
        value_name = "NAME",
        hide_possible_values = true,
        help_heading = "Search"
    )]
    pub strategy: Option<StrategyName>,
    /// N, the chains per problem [default: 16]
    #[arg(short = 'n', long = "n", value_name = "N", help_heading = "Search")]
    pub chains: Option<usize>,

    #[command(flatten)]
    pub settings: SettingFlags,

    /// Which scorer judges the steps: prm, orm, exact (bundled problems only), none [default: prm]
    #[arg(long, help_heading = "Models")]
    pub scorer: Option<ScorerKind>,

    /// Stop after the first K problems of the file
    #[arg(long, value_name = "K", help_heading = "Input and output")]
    pub limit: Option<usize>,
    /// Leave out problems that do not fit into a model's context, instead of refusing the file; they are counted and marked
    #[arg(long, help_heading = "Input and output")]
    pub skip_too_long: bool,
    /// Write a run file: a JSON line per problem, as soon as it is done
    #[arg(long, value_name = "FILE", help_heading = "Input and output")]
    pub out: Option<PathBuf>,
    /// Put every node of each search into the run file
    #[arg(long, help_heading = "Input and output")]
    pub tree: bool,
    /// Continue the run file: its finished problems are skipped
    #[arg(long, help_heading = "Input and output")]
    pub resume: bool,
    /// One JSON object per problem and a last one with the summary, for programs
    #[arg(long, help_heading = "Input and output")]
    pub json: bool,
    /// Print the summary only
    #[arg(short, long, help_heading = "Input and output")]
    pub quiet: bool,
    /// Show the settings as they act on stderr, where that is no terminal too
    #[arg(
        short,
        long,
        conflicts_with = "quiet",
        help_heading = "Input and output"
    )]
    pub verbose: bool,
    /// When to use colours: auto, always or never
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "Input and output"
    )]
    pub color: ColorChoice,
}

#[derive(Args, Debug)]
#[command(after_help = SHOW_EXAMPLES)]
pub struct ShowArgs {
    /// A run file of `beamgen solve --out`
    pub file: PathBuf,
    /// Show this problem: its steps, all answers with their votes, and its tree if the run had --tree
    #[arg(long)]
    pub id: Option<String>,
    /// When to use colours: auto, always or never
    #[arg(long, value_enum, default_value_t, hide_possible_values = true)]
    pub color: ColorChoice,
}

#[derive(Args, Debug)]
#[command(after_help = MODELS_EXAMPLES)]
pub struct ModelsArgs {
    /// What this generator will need, with --prm as a pair; nothing is loaded
    #[arg(long, value_name = "MODEL")]
    pub generator: Option<PathBuf>,
    /// One JSON object per model
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub models: ModelFlags,
}

#[derive(Args, Debug)]
#[command(after_help = SCORE_EXAMPLES)]
pub struct ScoreArgs {
    /// Chains, a JSON object each; `-` reads stdin
    pub file: PathBuf,
    /// How step scores become `score`: min, product, mean, last, max, soft-min, soft-min:T [default: min]
    #[arg(long)]
    pub aggregation: Option<Aggregation>,
    #[command(flatten)]
    pub prm: PrmFlags,
}

#[derive(Args, Debug)]
#[command(after_help = EVAL_PRM_EXAMPLES)]
pub struct EvalPrmArgs {
    /// Files of labelled chains; each has its row
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    pub data: Vec<PathBuf>,
    /// A score below it flags the step as wrong
    #[arg(
        long,
        value_name = "T",
        default_value_t = 0.5,
        allow_negative_numbers = true
    )]
    pub threshold: f32,
    /// Stop after the first K chains of each file
    #[arg(long, value_name = "K")]
    pub limit: Option<usize>,
    /// One JSON object per file
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub prm: PrmFlags,
}

/// Flags for commands that only read with a reward model; keys of the configuration file as well.
#[derive(Args, Debug)]
pub struct PrmFlags {
    /// Settings in TOML, as for `beamgen solve`; --set wins over it, other flags over both
    #[arg(long, value_name = "FILE", help_heading = "Models")]
    pub config: Option<PathBuf>,
    /// Set any key of the configuration, e.g. engine.max_rows=256; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Models")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub models: ModelFlags,
}

#[derive(Args, Debug)]
#[command(after_help = TRAIN_EXAMPLES)]
pub struct TrainArgs {
    /// Folder for the checkpoints {generator,prm,orm}, evaluation.json, and the state to resume from
    #[arg(long, value_name = "DIR", default_value = "abacus")]
    pub out: PathBuf,
    /// Go on with the run in this folder, with the same result as one never interrupted
    #[arg(long)]
    pub resume: bool,
    /// A small world and small models: the whole pipeline in about a minute
    #[arg(long, conflicts_with = "config")]
    pub quick: bool,
    /// Settings in TOML (see configs/models/abacus.toml)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The seed of everything [default: 0]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Held-out problems for the evaluation [default: 500]
    #[arg(long, value_name = "COUNT", alias = "gate-problems")]
    pub evaluation_problems: Option<usize>,
    /// Where to train: cpu, or cuda in a build with the feature train-cuda
    #[arg(long, value_enum, default_value_t = DeviceFlag::Cpu)]
    pub device: DeviceFlag,
}

/// Where to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DeviceFlag {
    Cpu,
    Cuda,
}

#[derive(Args, Debug)]
#[command(after_help = PROBLEMS_EXAMPLES)]
pub struct ProblemsArgs {
    /// How many
    #[arg(long, default_value_t = 100)]
    pub count: usize,
    /// Seed of the draw
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// test: held out from every training; train: what may be trained on
    #[arg(long, value_enum, default_value_t = SplitFlag::Test)]
    pub split: SplitFlag,
    /// Fewest people in a problem; each is one solution step
    #[arg(long, value_name = "P", default_value_t = 3)]
    pub min_people: usize,
    /// Most people in a problem
    #[arg(long, value_name = "P", default_value_t = 7)]
    pub max_people: usize,
    /// How many people back a fact may refer; the bundled models know 1
    #[arg(long, value_name = "R", default_value_t = 1, alias = "reach")]
    pub dependency_distance: usize,
    /// Write chains instead: solutions with mistakes and the label of the first wrong step, for `beamgen eval-prm`
    #[arg(long)]
    pub steps: bool,
}

/// A side of the world's train and test split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SplitFlag {
    Test,
    Train,
}

#[derive(Args, Debug)]
#[command(after_help = BENCH_EXAMPLES)]
pub struct BenchArgs {
    /// Problems with answers, a line each; `-` reads stdin [default: the bundled sample]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The same as FILE
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub problems: Option<PathBuf>,

    /// Strategies to compare, those of `beamgen solve --strategy` [default: single,majority,best-of-n,beam]
    #[arg(
        long,
        value_parser = strategy_name(),
        hide_possible_values = true,
        value_delimiter = ',',
        value_name = "LIST",
        help_heading = "Comparison"
    )]
    pub strategies: Vec<StrategyName>,
    /// Scorers for the strategies that use one [default: prm]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        help_heading = "Comparison"
    )]
    pub scorers: Vec<ScorerKind>,
    /// Numbers of chains to compare at [default: 16]
    #[arg(
        short = 'n',
        long = "n",
        value_delimiter = ',',
        value_name = "LIST",
        help_heading = "Comparison"
    )]
    pub chains: Vec<usize>,
    /// How many seeds to average over, --seed and those after it [default: 1]
    #[arg(long, value_name = "COUNT", help_heading = "Comparison")]
    pub seeds: Option<u64>,

    #[command(flatten)]
    pub settings: SettingFlags,

    /// Stop after the first K problems of each set
    #[arg(long, value_name = "K", help_heading = "Input and output")]
    pub limit: Option<usize>,
    /// Write a results folder: every raw row as soon as it is there, then tables and plots
    #[arg(long, value_name = "DIR", help_heading = "Input and output")]
    pub out: Option<PathBuf>,
    /// Go on with the results folder: what is in it is not run again
    #[arg(long, help_heading = "Input and output")]
    pub resume: bool,
    /// Check everything and say what would be run; nothing is
    #[arg(long, conflicts_with = "out", help_heading = "Input and output")]
    pub plan: bool,
    /// Write tables and plots of a finished results folder anew; nothing is run
    #[arg(
        long,
        value_name = "DIR",
        exclusive = true,
        help_heading = "Input and output"
    )]
    pub redraw: Option<PathBuf>,
    /// One JSON object per row of the table
    #[arg(long, help_heading = "Input and output")]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = BENCH_ENGINE_EXAMPLES)]
pub struct BenchEngineArgs {
    /// A folder, a GGUF file, ORG/NAME[@REVISION] of the hub, or bundled [default: bundled]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// Random bfloat16 weights in the shape that the folder's config.json says; nothing else of it is read
    #[arg(long, requires = "model")]
    pub random: bool,
    /// Sequences decoded together
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,4,16,64,256"
    )]
    pub batch: Vec<usize>,
    /// Tokens of the prompt that they share
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "128,1024"
    )]
    pub prefix: Vec<usize>,
    /// Tokens of each sequence after it
    #[arg(long, value_name = "TOKENS", default_value_t = 32)]
    pub new: usize,
    /// Runs of each; the median and the spread are shown
    #[arg(long, value_name = "RUNS", default_value_t = 5)]
    pub repeat: usize,
    /// Draw nothing: next tokens are given, and nobody looks at the logits
    #[arg(long)]
    pub no_sample: bool,
    /// What weights are kept in, as for `beamgen solve` [default: auto]
    #[arg(long, value_name = "TYPE")]
    pub dtype: Option<WeightType>,
    /// What computes, as for `beamgen solve` [default: auto]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DeviceChoice>,
    /// What keys and values are kept in, as for `beamgen solve` [default: auto]
    #[arg(long, value_name = "TYPE")]
    pub kv_dtype: Option<KvType>,
    /// Threads to compute with; 0 means one for each physical core
    #[arg(long)]
    pub threads: Option<usize>,
    /// Most memory for the cache, e.g. 2GiB or 512MB; auto is 4GiB, on a CUDA device all that is free [default: auto]
    #[arg(long, value_name = "SIZE", value_parser = beamgen::parse_size)]
    pub kv_memory: Option<usize>,
    /// Never ask the hub: take models from its cache only
    #[arg(long)]
    pub offline: bool,
    /// One JSON object per measurement
    #[arg(long)]
    pub json: bool,
}

/// Flags that are configuration keys, shared by all commands that search.
#[derive(Args, Debug)]
pub struct SettingFlags {
    /// Settings in TOML; --set wins over it, other flags over both (see configs/search/)
    #[arg(long, value_name = "FILE", help_heading = "Search")]
    pub config: Option<PathBuf>,
    /// M, the expansion factor: a beam keeps N/M chains and expands each M times [default: 4]
    #[arg(short, long, help_heading = "Search")]
    pub m: Option<usize>,
    /// How step scores become a chain's score: min, product, mean, last, max, soft-min, soft-min:T [default: min; orm: always last]
    #[arg(long, help_heading = "Search")]
    pub aggregation: Option<Aggregation>,
    /// How the answer is chosen among finished chains: best, majority, weighted [default: best]
    #[arg(long, help_heading = "Search")]
    pub choose: Option<Choose>,
    /// Steps after which a chain is given up
    #[arg(long, value_name = "STEPS", help_heading = "Search")]
    pub max_steps: Option<usize>,
    /// Most tokens to sample for one problem, those thrown away included; 0: no limit [default: 0]
    #[arg(long, value_name = "TOKENS", help_heading = "Search")]
    pub budget_tokens: Option<usize>,
    /// Withhold an answer whose chain scores less [default: 0]
    #[arg(
        long,
        value_name = "SCORE",
        allow_negative_numbers = true,
        help_heading = "Search"
    )]
    pub threshold: Option<f32>,
    /// Stop a majority vote as soon as the chains to come cannot change it
    #[arg(long, help_heading = "Search")]
    pub consensus: bool,
    /// Score steps after TAU tokens and reject the worst there; beam and dvts only [default: never]
    #[arg(long, value_name = "TAU", help_heading = "Search")]
    pub early_rejection: Option<usize>,
    /// Go on with finished chains while the last of a round are written; same results
    #[arg(long, help_heading = "Search")]
    pub speculate: bool,
    /// Set any key of the configuration, e.g. search.rebase.balance=paper; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Search")]
    pub set: Vec<String>,
    /// Problems worked on at once; changes the speed, never the results [default: 16]
    #[arg(long, value_name = "K", help_heading = "Search")]
    pub in_flight: Option<usize>,

    /// The seed of all random draws [default: 0]
    #[arg(long, help_heading = "Sampling")]
    pub seed: Option<u64>,
    /// Temperature; 0 takes the likeliest token [default: what the generator's checkpoint says, or 1.0]
    #[arg(
        long,
        value_name = "T",
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub temperature: Option<f32>,
    /// Sample among the K likeliest tokens; 0 among all
    #[arg(long, value_name = "K", help_heading = "Sampling")]
    pub top_k: Option<usize>,
    /// Sample among the likeliest tokens that make up this probability
    #[arg(
        long,
        value_name = "P",
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub top_p: Option<f32>,
    /// Sample among tokens at least this fraction as likely as the likeliest
    #[arg(
        long,
        value_name = "P",
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub min_p: Option<f32>,

    /// The generator: a folder, a GGUF file, or ORG/NAME[@REVISION] of the hub [default: bundled]
    #[arg(long, value_name = "MODEL", help_heading = "Models")]
    pub generator: Option<PathBuf>,
    #[command(flatten)]
    pub models: ModelFlags,
}

/// Which reward model, and how models are run.
#[derive(Args, Debug)]
pub struct ModelFlags {
    /// A generator and a reward model with the settings that suit them: a pair of `beamgen models`, or a
    /// TOML file; --config wins over it, --generator and --prm replace its halves
    #[arg(long, value_name = "NAME|FILE", help_heading = "Models")]
    pub pair: Option<String>,
    /// The reward model: a folder, a GGUF file, or ORG/NAME[@REVISION] of the hub [default: bundled]
    #[arg(long, value_name = "MODEL", help_heading = "Models")]
    pub prm: Option<PathBuf>,
    /// How the reward model is read: auto, a family (`beamgen models` lists them) or a TOML file [default: auto]
    #[arg(long, value_name = "NAME|FILE", help_heading = "Models")]
    pub prm_format: Option<String>,
    /// The model that an implicit reward model is compared with
    #[arg(long, value_name = "MODEL", help_heading = "Models")]
    pub prm_reference: Option<PathBuf>,
    /// What weights are kept in: auto (as the checkpoint has them, exactly), f32, bf16, f16, int8 (fastest, not exact) [default: auto]
    #[arg(long, value_name = "TYPE", help_heading = "Models")]
    pub dtype: Option<WeightType>,
    /// What computes: cpu, cuda (or cuda:N), auto (the cpu for the bundled models; for others CUDA device 0 if it passes a test and can have them, else the cpu) [default: auto]
    #[arg(long, value_name = "DEVICE", help_heading = "Models")]
    pub device: Option<DeviceChoice>,
    /// What keys and values are kept in: auto (f32 on the cpu, as the weights on a CUDA device), f32, bf16 (half the memory, fastest with AMX), f16 (half the memory) [default: auto]
    #[arg(long, value_name = "TYPE", help_heading = "Models")]
    pub kv_dtype: Option<KvType>,
    /// Most memory for the caches of both models together, e.g. 2GiB or 512MB; taken as it is needed, on a CUDA device at once; auto is 4GiB, there what all chains in flight can use [default: auto]
    #[arg(long, value_name = "SIZE", value_parser = beamgen::parse_size, help_heading = "Models")]
    pub kv_memory: Option<usize>,
    /// Never ask the hub: take models from its cache only
    #[arg(long, help_heading = "Models")]
    pub offline: bool,
    /// Threads to compute with; 0 means one for each physical core
    #[arg(long, help_heading = "Models")]
    pub threads: Option<usize>,
}

/// A strategy by its name in the table of strategies, or that of a preset.
fn strategy_name() -> impl TypedValueParser<Value = StrategyName> {
    let strategies = Strategies::builtin();
    let names = strategies
        .names()
        .map(|named| PossibleValue::new(named.name()).help(named.summary()));
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// Reads the command line. Help and version end the process; a mistake becomes one line.
pub fn parse() -> Result<Command, Failure> {
    match Cli::try_parse() {
        Ok(cli) => Ok(cli.command),
        // Help into a closed pipe is no failure.
        Err(help) if !help.use_stderr() => {
            let _ = help.print();
            std::process::exit(0)
        }
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = help.print();
            std::process::exit(2)
        }
        Err(error) => Err(Failure::Input(one_line(&error))),
    }
}

/// clap's message without its paragraphs: what is wrong, a similar name if there is one, and where
/// help is.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let parts =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let parts = parts.filter(|line| !line.starts_with("tip: to pass"));
    let message = parts.collect::<Vec<_>>().join(" ").replace(" tip: ", ", ");
    format!(
        "{}: see `beamgen --help`",
        message.trim_start_matches("error: ")
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
