//! The flags of `beamgen train`.

use std::path::PathBuf;

use beamgen::models::WeightType;
use clap::{Args, Subcommand};

use super::adapt::RefreshFlags;
use super::{DataFlags, PartFlags, RuleFlags, texts};

#[cfg(feature = "train")]
use beamgen_train::tune::Trained;
/// The type of --train in a build without the feature `train`, where no command reads the flag.
#[cfg(not(feature = "train"))]
type Trained = String;

#[derive(Args, Debug)]
#[command(after_long_help = texts::TRAIN)]
pub(crate) struct TrainArgs {
    #[command(subcommand)]
    pub command: Option<TrainCommand>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TrainCommand {
    /// Fine-tune a generator on problems with solutions
    Sft(Box<SftArgs>),
    /// Train a process reward model on labelled steps
    #[command(after_long_help = texts::PRM)]
    Prm(Box<RewardArgs>),
    /// Train an outcome reward model on chains with right and wrong answers
    #[command(after_long_help = texts::ORM)]
    Orm(Box<RewardArgs>),
    /// Fine-tune a generator by reinforcement learning on its own chains
    Rl(Box<RlArgs>),
    /// Train the bundled generator, PRM and ORM from scratch, and measure them
    Abacus(AbacusArgs),
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::SFT)]
pub(crate) struct SftArgs {
    /// Examples as JSON lines
    ///
    /// Each has `problem` (or `question`) and `solution` (or `answer`, as in GSM8K), or `messages`
    /// that end with the assistant's. The loss is on the solution and its end-of-text token.
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    #[command(flatten)]
    pub part: PartFlags,
    #[command(flatten)]
    pub tune: TuneFlags,
    /// System prompt of the chat, as `generator.system_prompt` of `beamgen solve`
    #[arg(long, value_name = "TEXT")]
    pub system_prompt: Option<String>,
    /// File with a Jinja chat template that replaces the checkpoint's
    ///
    /// The template is written with the trained model. If neither exists, a prompt is the problem's
    /// text.
    #[arg(long, value_name = "FILE")]
    pub chat_template: Option<PathBuf>,
    /// Compute the softmax over the tokens that occur in the data, not over the vocabulary
    ///
    /// Much faster if the vocabulary is large. Tokens that do not occur keep their logits, so use
    /// this flag with thousands of examples.
    #[arg(long)]
    pub restrict_vocabulary: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RewardArgs {
    /// Labelled chains, in any format that `beamgen labels` reads
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    #[command(flatten)]
    pub part: PartFlags,
    #[command(flatten)]
    pub tune: TuneFlags,
    /// Format of the trained model: a family of `beamgen models`, or a TOML file
    ///
    /// The format decides the head (one or two linear layers, a value head, two label tokens), how
    /// a chain is written and where its scores are read. prm.toml in the trained folder records it.
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "trl-token-classification"
    )]
    pub prm_format: String,
    /// Reference model of a log-ratio (implicit-prm); without it the checkpoint of --from
    ///
    /// `train orm` makes implicit rewards of steps from outcomes alone, as PRIME does: the log-ratio
    /// of the whole chain learns its outcome, and the log-ratio of a step is its reward.
    #[arg(long, value_name = "CHECKPOINT")]
    pub prm_reference: Option<PathBuf>,
    /// Read each alternative of a step as a chain of its own, too (PRM800K)
    #[arg(long)]
    pub alternatives: bool,
    /// Factor of the loss of wrong steps; above 1 if wrong steps are rare
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub wrong_weight: f32,
    /// Add this many beginnings of steps of each chain as examples, with the labels of their steps
    ///
    /// For a reward model that scores unfinished steps, as --early-rejection does.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub partial: usize,
    /// Share of all updates, at the start, that train only a new head
    #[arg(long, value_name = "PART", default_value_t = 0.1)]
    pub head_warmup: f64,
    /// Learning rate of the updates that train only a new head
    #[arg(long, value_name = "RATE", default_value_t = 1e-3)]
    pub head_learning_rate: f64,
    #[command(flatten)]
    pub rule: RuleFlags,
}

/// Flags of every training that starts from a checkpoint.
#[derive(Args, Debug)]
pub(crate) struct RunFlags {
    /// Checkpoint to start from: a folder in Hugging Face layout, a GGUF file, or bundled (the
    /// bundled generator)
    #[arg(long, value_name = "CHECKPOINT")]
    pub from: PathBuf,
    /// Folder for the trained checkpoint; its folder work has the run's state and log
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Resume the run in the folder of --out
    ///
    /// The result is the same as without the interruption.
    #[arg(long)]
    pub resume: bool,
    /// Weights to train: all, top=L (last L layers), lora=R (adapters of rank R), or top=L,lora=R
    ///
    /// With top=L the engine computes the lower layers once for the given examples, and keeps their
    /// hidden states in OUT/work/features.bf16 (2 bytes for each token and unit of width). An epoch
    /// then costs the last layers, the final norm and the head only; a head that is tied to the
    /// embedding is not trained. lora=R trains two thin matrices for each matrix, and merges them
    /// into it at the end; lora=R,alpha=X scales them by X / R [alpha: 2 R].
    #[arg(long, value_name = "all|top=L|lora=R", default_value = "all")]
    pub train: Trained,
    /// Padded tokens computed at once; larger batches are split, and their gradients summed
    ///
    /// Memory grows with this number; the result stays the same, except for rounding.
    #[arg(long, value_name = "TOKENS", default_value_t = 2048, value_parser = positive)]
    pub micro_tokens: usize,
    /// Highest learning rate
    #[arg(long, value_name = "RATE", default_value_t = 1e-4)]
    pub learning_rate: f64,
    /// Share of the updates, at the start, in which the learning rate rises
    #[arg(long, value_name = "PART", default_value_t = 0.05)]
    pub warmup: f64,
    /// Schedule of the learning rate after the warm-up
    #[arg(long, value_enum, default_value_t = DecayFlag::Cosine)]
    pub schedule: DecayFlag,
    /// Weight decay of AdamW
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    pub weight_decay: f64,
    /// Seed of the examples' order, of all samples, and of new weights
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Write the trained weights as float32 instead of bfloat16
    #[arg(long)]
    pub float32: bool,
    /// Exit after this many updates; --resume continues the run
    #[arg(long, value_name = "UPDATES", value_parser = positive)]
    pub stop_after: Option<usize>,
}

/// Flags of every training on given examples.
#[derive(Args, Debug)]
pub(crate) struct TuneFlags {
    #[command(flatten)]
    pub run: RunFlags,
    /// Passes over all examples
    #[arg(long, default_value_t = 1, value_parser = positive)]
    pub epochs: usize,
    /// Examples per update
    #[arg(long, value_name = "EXAMPLES", default_value_t = 16, value_parser = positive)]
    pub batch: usize,
    /// Share of the problems that is held out and only measured
    #[arg(long, value_name = "PART", default_value_t = 0.02)]
    pub held_out: f64,
    /// Updates between two measurements of the held-out problems [default: an eighth of the run]
    #[arg(long, value_name = "UPDATES", value_parser = positive)]
    pub evaluate_every: Option<usize>,
    /// Read the first COUNT examples only
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<usize>,
    /// Skip examples that are longer, in tokens
    #[arg(long = "max-example-tokens", value_name = "TOKENS", default_value_t = 1024, value_parser = positive)]
    pub max_tokens: usize,
    /// Number type of frozen layers' weights in the engine: auto (exact), ..., int8 (faster)
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub frozen_dtype: WeightType,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::RL)]
#[command(mut_arg("learning_rate", |arg| arg.default_value("0.00001").long_help(RL_RATE)))]
#[command(mut_arg("warmup", |arg| arg.default_value("0")))]
#[command(mut_arg("schedule", |arg| arg.default_value("constant")))]
pub(crate) struct RlArgs {
    #[command(flatten)]
    pub run: RunFlags,
    /// Problems with their answers, as for `beamgen solve`
    #[arg(long, value_name = "FILE")]
    pub problems: PathBuf,
    #[command(flatten)]
    pub data: DataFlags,
    /// Reward of a chain: outcome, prm, both or rollouts
    ///
    /// outcome: 1 if its answer is right by exact comparison, else 0. prm: the scores of its steps,
    /// by --credit. both: the outcome, shaped by the scores. The scores never reverse the outcome;
    /// if all chains of a problem are right, or all are wrong, only the scores count. A chain that a
    /// limit cut is unfinished: its answer is wrong, and its steps score 0. rollouts: the outcome; a
    /// step earns V after it minus V before it, where V is the share of right answers among
    /// --rollouts completions (arXiv 2410.01679).
    #[arg(long, value_name = "REWARD", default_value = "outcome", value_parser = ["outcome", "prm", "both", "rollouts"])]
    pub reward: String,
    /// Completions of each step with --reward rollouts
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = positive)]
    pub rollouts: usize,
    /// Algorithm: grpo, dr-grpo, rloo or dapo
    ///
    /// grpo: the advantage is the reward minus the mean of the problem's chains, divided by their
    /// standard deviation; the loss is averaged within each chain. dr-grpo: no division, and all
    /// tokens weigh the same. rloo: the reward minus the mean of the other chains; the loss is
    /// summed within a chain. dapo: as grpo, but ratios are clipped at a higher bound, the loss is
    /// averaged over all tokens, problems whose chains are all right or all wrong are replaced, and
    /// chains near the length limit are penalised.
    #[arg(long, value_name = "NAME", default_value = "grpo", value_parser = ["grpo", "dr-grpo", "rloo", "dapo"])]
    pub algorithm: String,
    /// Rule that turns step scores into rewards: min, differences or sum
    ///
    /// min: the step with the lowest score gets about that score as its reward. differences: a
    /// step's reward is its score minus the next step's, so that the rewards from a step on add up
    /// to its score. sum: a step's reward is its score; this rewards long chains, and exists to show
    /// that effect.
    #[arg(long, value_name = "FORM", default_value = "min", value_parser = ["min", "differences", "sum"])]
    pub credit: String,
    /// Reward model: a folder, a GGUF file, ORG/NAME on the hub, or bundled [default: bundled]
    #[arg(long, value_name = "MODEL")]
    pub prm: Option<PathBuf>,
    /// Format of the reward model: auto, a family or a TOML file [default: auto]
    #[arg(long, value_name = "NAME|FILE")]
    pub prm_format: Option<String>,
    /// Reference model of a log-ratio (implicit-prm): a folder, a GGUF file or bundled
    #[arg(long, value_name = "MODEL")]
    pub prm_reference: Option<PathBuf>,
    /// Train the reward model further after every EVERY updates, on chains of the policy; 0: never
    ///
    /// The chains of --refresh-problems problems are labelled as by `beamgen adapt`. The reward model
    /// learns from them, from those of earlier refreshments and from --replay. It must be a folder. A
    /// log-ratio (--prm-reference) learns from the outcomes of the chains alone, as in PRIME.
    #[arg(long, value_name = "EVERY", default_value_t = 0)]
    pub refresh_prm: usize,
    /// Problems whose chains are labelled at a refreshment
    #[arg(long, value_name = "PROBLEMS", default_value_t = 64, value_parser = positive)]
    pub refresh_problems: usize,
    #[command(flatten)]
    pub refresh: RefreshFlags,
    /// Factor of the reward model's advantages with --reward both
    #[arg(long, value_name = "FACTOR", default_value_t = 0.25)]
    pub prm_weight: f64,
    /// Chains per problem, whose rewards are compared with each other
    #[arg(long, value_name = "CHAINS", default_value_t = 8, value_parser = positive)]
    pub group: usize,
    /// Problems per update
    #[arg(long, value_name = "PROBLEMS", default_value_t = 32, value_parser = positive)]
    pub groups: usize,
    /// Number of updates; each samples chains and learns from them
    #[arg(long, default_value_t = 100, value_parser = positive)]
    pub updates: usize,
    /// Passes over the chains of an update
    #[arg(long, default_value_t = 1, value_parser = positive)]
    pub epochs: usize,
    /// Chains per optimiser step [default: all chains of the update]
    ///
    /// With several optimiser steps per update, importance ratios are clipped. A ratio compares the
    /// trainer's present probability with that before the first step.
    #[arg(long, value_name = "CHAINS", value_parser = positive)]
    pub batch: Option<usize>,
    /// Factor of the KL divergence from the starting policy (the k3 estimate) in the loss
    #[arg(long, value_name = "FACTOR", default_value_t = 0.0)]
    pub kl: f64,
    /// Most tokens of a chain; longer chains are cut
    #[arg(long, value_name = "TOKENS", default_value_t = 512, value_parser = positive)]
    pub max_chain_tokens: usize,
    /// Most tokens of a step; a chain with a longer step is cut
    #[arg(long, value_name = "TOKENS", default_value_t = 256, value_parser = positive)]
    pub max_step_tokens: usize,
    /// Most steps of a chain; longer chains are cut
    #[arg(long, value_name = "STEPS", default_value_t = 64, value_parser = positive)]
    pub max_steps: usize,
    /// Text that ends a step [default: a line break]
    #[arg(long, value_name = "TEXT")]
    pub boundary: Option<String>,
    /// System prompt of the chat, as `generator.system_prompt` of `beamgen solve`
    #[arg(long, value_name = "TEXT")]
    pub system_prompt: Option<String>,
    /// Take a chain's last number as its answer if no answer is marked
    #[arg(long)]
    pub guesses: bool,
    /// Most nats by which engine and trainer may differ in a step's log-probability
    ///
    /// A greater difference stops the run with an error.
    #[arg(long, value_name = "NATS", default_value_t = 0.05)]
    pub max_mismatch: f64,
    /// Share of the problems that is held out and only measured
    #[arg(
        long,
        value_name = "PART",
        default_value_t = 0.1,
        conflicts_with = "held_out_problems"
    )]
    pub held_out: f64,
    /// Measure on these problems instead, and learn from all of --problems
    #[arg(long, value_name = "FILE")]
    pub held_out_problems: Option<PathBuf>,
    /// Updates between two measurements of the held-out problems
    #[arg(long, value_name = "UPDATES", default_value_t = 10, value_parser = positive)]
    pub evaluate_every: usize,
    /// Chains sampled for each held-out problem
    #[arg(long, value_name = "CHAINS", default_value_t = 4, value_parser = positive)]
    pub samples: usize,
    /// Stop after COUNT measurements in a row with more reward but less accuracy; 0 never stops
    ///
    /// Less accuracy means below the best by more than its standard error; more reward means above
    /// the reward at the best accuracy. The folder gets the checkpoint with the best accuracy in any
    /// case.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub patience: usize,
    /// Read the first COUNT problems only
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<usize>,
}

const RL_RATE: &str = "\
Highest learning rate

1e-6 is usual for billions of weights, 1e-3 for a million. Adapters take ten to a hundred times the rate of \
training all weights.";

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("not a whole number above 0".into()),
        Ok(number) => Ok(number),
    }
}

/// The schedule of the learning rate after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DecayFlag {
    Cosine,
    Linear,
    Constant,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::ABACUS)]
pub(crate) struct AbacusArgs {
    /// Folder for the checkpoints and the state of the run
    ///
    /// The checkpoints are in generator, prm and orm, the measurements in evaluation.json.
    #[arg(long, value_name = "DIR", default_value = "abacus")]
    pub out: PathBuf,
    /// Resume the run in the folder of --out
    ///
    /// The result is the same as without the interruption.
    #[arg(long)]
    pub resume: bool,
    /// Run the whole pipeline on a small scale, in about a minute
    #[arg(long, conflicts_with = "config")]
    pub quick: bool,
    /// Read settings from a TOML file, such as configs/models/abacus.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Seed of all random numbers [default: 0]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Held-out problems for each measurement [default: 500]
    #[arg(long, value_name = "COUNT")]
    pub evaluation_problems: Option<usize>,
    /// Device to train on; cuda requires a build with the feature train-cuda
    #[arg(long, value_enum, default_value_t = DeviceFlag::Cpu)]
    pub device: DeviceFlag,
}

/// Where to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DeviceFlag {
    Cpu,
    Cuda,
}
