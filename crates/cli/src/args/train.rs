//! The flags of `beamgen train`.

use std::path::PathBuf;

use beamgen::models::WeightType;
use clap::{Args, Subcommand};

use super::{RuleFlags, texts};

#[cfg(feature = "train")]
use beamgen_train::tune::Trained;
/// A build without training parses no weights.
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
    /// Train a generator further on problems with solutions
    Sft(Box<SftArgs>),
    /// Train a process reward model on labelled steps
    #[command(after_long_help = texts::PRM)]
    Prm(Box<RewardArgs>),
    /// Train an outcome reward model on chains whose answers are right or wrong
    #[command(after_long_help = texts::ORM)]
    Orm(Box<RewardArgs>),
    /// Train a generator further by what its own chains earn: right answers, or a reward model
    Rl(Box<RlArgs>),
    /// Train the bundled generator, PRM and ORM from scratch, and measure them
    Abacus(AbacusArgs),
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::SFT)]
pub(crate) struct SftArgs {
    /// Examples as JSON lines
    ///
    /// Each has `problem` (or `question`) and `solution` (or `answer`, as in GSM8K), or `messages` of
    /// which the last is the assistant's. The loss is on the solution and the token that ends it.
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    #[command(flatten)]
    pub tune: TuneFlags,
    /// The system's turn of the chat, as in `beamgen solve`
    #[arg(long, value_name = "TEXT")]
    pub system_prompt: Option<String>,
    /// A Jinja chat template in place of the checkpoint's, written with the model
    ///
    /// Without one of either a prompt is the problem's text.
    #[arg(long, value_name = "FILE")]
    pub chat_template: Option<PathBuf>,
    /// The softmax goes over the tokens that occur in the data, not over the vocabulary
    ///
    /// Much less to compute where the vocabulary is large. Tokens that do not occur are then not
    /// trained down: use it on data that have thousands of examples.
    #[arg(long)]
    pub restrict_vocabulary: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RewardArgs {
    /// Labelled chains, in any format that `beamgen labels` reads
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    #[command(flatten)]
    pub tune: TuneFlags,
    /// How the model is read: a family's name, or a TOML file of your own
    ///
    /// It decides the head (one or two linear layers, a value head, two label tokens), how a chain
    /// is written and where its scores are read. The trained folder says it in its prm.toml.
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "trl-token-classification"
    )]
    pub prm_format: String,
    /// Make a chain of each alternative of a step too (PRM800K)
    #[arg(long)]
    pub alternatives: bool,
    /// What a wrong step's loss is multiplied with, where wrong steps are few
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub wrong_weight: f32,
    /// The part of all updates in which a fresh head is trained alone, before the rest
    #[arg(long, value_name = "PART", default_value_t = 0.1)]
    pub head_warmup: f64,
    /// The learning rate of those updates
    #[arg(long, value_name = "RATE", default_value_t = 1e-3)]
    pub head_learning_rate: f64,
    #[command(flatten)]
    pub rule: RuleFlags,
}

/// What every training from a checkpoint has.
#[derive(Args, Debug)]
pub(crate) struct RunFlags {
    /// The checkpoint to start from: a folder in Hugging Face layout, a GGUF file, or bundled (the
    /// bundled generator)
    #[arg(long, value_name = "CHECKPOINT")]
    pub from: PathBuf,
    /// Folder for the trained checkpoint; the state and the log of the run are in its folder work
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Continue the run in this folder
    ///
    /// The result is the same as without the interruption.
    #[arg(long)]
    pub resume: bool,
    /// Which weights: all, top=L (the last L layers), lora=R (adapters of rank R), or top=L,lora=R
    ///
    /// With top=L the engine computes the layers below once for given examples, and keeps their
    /// hidden states in OUT/work/features.bf16 (2 bytes for each token and unit of width), so an
    /// epoch costs the last layers, the final norm and the head only. A head that is tied to the embedding is then
    /// not trained. lora=R trains two thin matrices beside each matrix, which are merged into it at
    /// the end; lora=R,alpha=X scales them with X / R [alpha: 2 R].
    #[arg(long, value_name = "all|top=L|lora=R", default_value = "all")]
    pub train: Trained,
    /// Padded tokens computed at once; larger batches are cut, and their gradients add up
    ///
    /// Memory grows with it, the result stays but for rounding.
    #[arg(long, value_name = "TOKENS", default_value_t = 2048, value_parser = positive)]
    pub micro_tokens: usize,
    /// The highest learning rate
    #[arg(long, value_name = "RATE", default_value_t = 1e-4)]
    pub learning_rate: f64,
    /// The part of the updates in which the learning rate rises
    #[arg(long, value_name = "PART", default_value_t = 0.05)]
    pub warmup: f64,
    /// How the learning rate falls then
    #[arg(long, value_enum, default_value_t = DecayFlag::Cosine)]
    pub schedule: DecayFlag,
    /// `AdamW`'s weight decay
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    pub weight_decay: f64,
    /// The seed of the order, of all samples, and of fresh weights
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Write float32, not bfloat16
    #[arg(long)]
    pub float32: bool,
    /// Leave after so many updates, to go on with --resume
    #[arg(long, value_name = "UPDATES", value_parser = positive)]
    pub stop_after: Option<usize>,
}

/// Flags of every training on given examples.
#[derive(Args, Debug)]
pub(crate) struct TuneFlags {
    #[command(flatten)]
    pub run: RunFlags,
    /// Times that every example is seen
    #[arg(long, default_value_t = 1, value_parser = positive)]
    pub epochs: usize,
    /// Examples of one update
    #[arg(long, value_name = "EXAMPLES", default_value_t = 16, value_parser = positive)]
    pub batch: usize,
    /// The part of the problems that is only measured
    #[arg(long, value_name = "PART", default_value_t = 0.02)]
    pub held_out: f64,
    /// Updates between two measurements of the held-out problems [default: an eighth of the run]
    #[arg(long, value_name = "UPDATES", value_parser = positive)]
    pub evaluate_every: Option<usize>,
    /// Read the first COUNT examples only
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<usize>,
    /// Leave out longer examples
    #[arg(long = "max-example-tokens", value_name = "TOKENS", default_value_t = 1024, value_parser = positive)]
    pub max_tokens: usize,
    /// How the engine keeps the weights of frozen layers: auto is exact, int8 faster
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
    /// What a chain earns: outcome, prm or both
    ///
    /// outcome: 1 if its answer is right by exact comparison. prm: the scores of its steps, as
    /// --credit says. both: the outcome, shaped by the scores; these never turn it, and speak alone
    /// where all chains of a problem are right or all are wrong. A chain that a limit cut is not
    /// finished: its answer is wrong and its steps score 0.
    #[arg(long, value_name = "REWARD", default_value = "outcome", value_parser = ["outcome", "prm", "both"])]
    pub reward: String,
    /// grpo, dr-grpo, rloo or dapo
    ///
    /// grpo: reward less the mean of the problem's chains, divided by their deviation; mean loss of
    /// each chain. dr-grpo: without the deviation, all tokens weigh the same. rloo: less the mean of
    /// the other chains, tokens of a chain summed. dapo: as grpo, with ratios clipped higher, the
    /// mean over all tokens, problems all right or all wrong replaced by others, and a penalty of
    /// chains near the length limit.
    #[arg(long, value_name = "NAME", default_value = "grpo", value_parser = ["grpo", "dr-grpo", "rloo", "dapo"])]
    pub algorithm: String,
    /// How step scores become rewards: min, differences or sum
    ///
    /// min: a chain earns about its worst score, at that step. differences: a step earns its score
    /// less that of the next one, so that from each step on a chain earns that step's score. sum:
    /// each step earns its score, which pays chains for being long, and is here to show what comes
    /// of it.
    #[arg(long, value_name = "FORM", default_value = "min", value_parser = ["min", "differences", "sum"])]
    pub credit: String,
    /// The reward model: a folder, a GGUF file, a name of the hub, or bundled [default: bundled]
    #[arg(long, value_name = "MODEL")]
    pub prm: Option<PathBuf>,
    /// How the reward model is read: auto, a family or a TOML file [default: auto]
    #[arg(long, value_name = "NAME|FILE")]
    pub prm_format: Option<String>,
    /// What the reward model's advantages are multiplied with under --reward both
    #[arg(long, value_name = "FACTOR", default_value_t = 0.25)]
    pub prm_weight: f64,
    /// Chains of a problem; they are compared with each other
    #[arg(long, value_name = "CHAINS", default_value_t = 8, value_parser = positive)]
    pub group: usize,
    /// Problems of an update
    #[arg(long, value_name = "PROBLEMS", default_value_t = 32, value_parser = positive)]
    pub groups: usize,
    /// Updates: each samples chains and learns from them
    #[arg(long, default_value_t = 100, value_parser = positive)]
    pub updates: usize,
    /// Times that an update's chains are gone through
    #[arg(long, default_value_t = 1, value_parser = positive)]
    pub epochs: usize,
    /// Chains of an optimiser step [default: all of the update]
    ///
    /// With several steps an update, importance ratios are clipped; they compare the trainer's
    /// probabilities before the first step with those of now.
    #[arg(long, value_name = "CHAINS", value_parser = positive)]
    pub batch: Option<usize>,
    /// Times the divergence from the starting policy (k3), in the loss
    #[arg(long, value_name = "FACTOR", default_value_t = 0.0)]
    pub kl: f64,
    /// Cut a chain after so many tokens
    #[arg(long, value_name = "TOKENS", default_value_t = 512, value_parser = positive)]
    pub max_chain_tokens: usize,
    /// Cut a chain when a step has so many tokens
    #[arg(long, value_name = "TOKENS", default_value_t = 256, value_parser = positive)]
    pub max_step_tokens: usize,
    /// Cut a chain after so many steps
    #[arg(long, value_name = "STEPS", default_value_t = 64, value_parser = positive)]
    pub max_steps: usize,
    /// What ends a step [default: a line break]
    #[arg(long, value_name = "TEXT")]
    pub boundary: Option<String>,
    /// The system's turn of the chat, as in `beamgen solve`
    #[arg(long, value_name = "TEXT")]
    pub system_prompt: Option<String>,
    /// Take a chain's last number for its answer where nothing is marked as one
    #[arg(long)]
    pub guesses: bool,
    /// Stop with an error when engine and trainer differ by more in the log-probability of a step
    #[arg(long, value_name = "NATS", default_value_t = 0.05)]
    pub max_mismatch: f64,
    /// The part of the problems that is only measured
    #[arg(
        long,
        value_name = "PART",
        default_value_t = 0.1,
        conflicts_with = "held_out_problems"
    )]
    pub held_out: f64,
    /// Measure on these problems, and learn from all of --problems
    #[arg(long, value_name = "FILE")]
    pub held_out_problems: Option<PathBuf>,
    /// Updates between two measurements of the held-out problems
    #[arg(long, value_name = "UPDATES", default_value_t = 10, value_parser = positive)]
    pub evaluate_every: usize,
    /// Chains sampled for each held-out problem
    #[arg(long, value_name = "CHAINS", default_value_t = 4, value_parser = positive)]
    pub samples: usize,
    /// Stop after so many measurements in a row with more reward and less accuracy; 0: never
    ///
    /// Less is: below the best by more than its standard error. More is: above the reward when the
    /// accuracy was best. The folder gets the checkpoint with the best accuracy in any case.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub patience: usize,
    /// Read the first COUNT problems only
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<usize>,
}

const RL_RATE: &str = "\
The highest learning rate

1e-6 is usual for billions of weights; a model of a million takes 1e-3, and adapters ten to a hundred times \
what all weights take.";

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("must be a positive whole number".into()),
        Ok(number) => Ok(number),
    }
}

/// How the learning rate falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DecayFlag {
    Cosine,
    Linear,
    Constant,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::ABACUS)]
pub(crate) struct AbacusArgs {
    /// Folder for the checkpoints and the state to resume from
    ///
    /// The checkpoints are in generator, prm and orm, the measurements in evaluation.json.
    #[arg(long, value_name = "DIR", default_value = "abacus")]
    pub out: PathBuf,
    /// Continue the run in this folder
    ///
    /// The result is the same as without the interruption.
    #[arg(long)]
    pub resume: bool,
    /// A small world and small models, in about a minute
    #[arg(long, conflicts_with = "config")]
    pub quick: bool,
    /// Read settings from a TOML file, such as configs/models/abacus.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The seed of all random numbers [default: 0]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Held-out problems for each measurement [default: 500]
    #[arg(long, value_name = "COUNT")]
    pub evaluation_problems: Option<usize>,
    /// Train on the cpu, or on cuda in a build with the feature train-cuda
    #[arg(long, value_enum, default_value_t = DeviceFlag::Cpu)]
    pub device: DeviceFlag,
}

/// Where to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DeviceFlag {
    Cpu,
    Cuda,
}
