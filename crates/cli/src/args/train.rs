//! The flags of `beamgen train`.

use std::path::PathBuf;

use beamgen::WeightType;
use clap::{Args, Subcommand};

use super::{RuleFlags, texts};

#[cfg(feature = "train")]
use beamgen_train::tune::Trained;
/// A build without training parses no weights.
#[cfg(not(feature = "train"))]
type Trained = String;

#[derive(Args, Debug)]
#[command(after_long_help = texts::TRAIN)]
pub struct TrainArgs {
    #[command(subcommand)]
    pub command: Option<TrainCommand>,
}

#[derive(Subcommand, Debug)]
pub enum TrainCommand {
    /// Train a generator further on problems with solutions
    Sft(Box<SftArgs>),
    /// Train a process reward model on labelled steps
    #[command(after_long_help = texts::PRM)]
    Prm(Box<RewardArgs>),
    /// Train an outcome reward model on chains whose answers are right or wrong
    #[command(after_long_help = texts::ORM)]
    Orm(Box<RewardArgs>),
    /// Train the bundled generator, PRM and ORM from scratch, and measure them
    Abacus(AbacusArgs),
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::SFT)]
pub struct SftArgs {
    /// Examples as JSON lines
    ///
    /// Each has `problem` (or `question`) and `solution` (or `answer`), or `messages` of which the
    /// last is the assistant's. The loss is on the solution and the token that ends it.
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
pub struct RewardArgs {
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
pub struct TuneFlags {
    /// The checkpoint to start from: a folder in Hugging Face layout or a GGUF file
    #[arg(long, value_name = "CHECKPOINT")]
    pub from: PathBuf,
    /// Folder for the trained checkpoint; the state of the run is in its folder work
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Continue the run in this folder
    ///
    /// The result is the same as without the interruption.
    #[arg(long)]
    pub resume: bool,
    /// Which weights: all, top=L (the last L layers), lora=R (adapters of rank R), or top=L,lora=R
    ///
    /// With top=L the engine computes the layers below once and keeps their hidden states in
    /// OUT/work/features.bf16 (2 bytes for each token and unit of width), so an epoch costs the
    /// last layers, the final norm and the head only. A head that is tied to the embedding is then
    /// not trained. lora=R trains two thin matrices beside each matrix, which are merged into it at
    /// the end; lora=R,alpha=X scales them with X / R [alpha: 2 R].
    #[arg(long, value_name = "all|top=L|lora=R", default_value = "all")]
    pub train: Trained,
    /// Times that every example is seen
    #[arg(long, default_value_t = 1, value_parser = positive)]
    pub epochs: usize,
    /// Examples of one update
    #[arg(long, value_name = "EXAMPLES", default_value_t = 16, value_parser = positive)]
    pub batch: usize,
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
    /// AdamW's weight decay
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    pub weight_decay: f64,
    /// The seed of the order and of fresh weights
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
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
    #[arg(long, value_name = "TOKENS", default_value_t = 1024, value_parser = positive)]
    pub max_tokens: usize,
    /// How the engine keeps the weights of frozen layers: auto is exact, int8 faster
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub frozen_dtype: WeightType,
    /// Write float32, not bfloat16
    #[arg(long)]
    pub float32: bool,
    /// Leave after so many updates, to go on with --resume
    #[arg(long, value_name = "UPDATES", value_parser = positive)]
    pub stop_after: Option<usize>,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("must be a positive whole number".into()),
        Ok(number) => Ok(number),
    }
}

/// How the learning rate falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DecayFlag {
    Cosine,
    Linear,
    Constant,
}

#[derive(Args, Debug)]
#[command(after_long_help = texts::ABACUS)]
pub struct AbacusArgs {
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
    #[arg(long, value_name = "COUNT", alias = "gate-problems")]
    pub evaluation_problems: Option<usize>,
    /// Train on the cpu, or on cuda in a build with the feature train-cuda
    #[arg(long, value_enum, default_value_t = DeviceFlag::Cpu)]
    pub device: DeviceFlag,
}

/// Where to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DeviceFlag {
    Cpu,
    Cuda,
}
