//! Flags that several commands share. Most of them are keys of the configuration as well.

use std::path::PathBuf;

use beamgen::{Aggregation, Choose, Combine, DeviceChoice, KvType, ScoreAs, WeightType};
use clap::Args;

use super::{CheckerFlags, texts};

/// Flags that are configuration keys, shared by all commands that search.
#[derive(Args, Debug)]
#[command(next_help_heading = "Search")]
pub struct SettingFlags {
    /// Read settings from a TOML file
    ///
    /// Examples are in configs/search/. --set wins over the file, other flags win over both.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set any key of the configuration
    ///
    /// For example --set search.rebase.balance=paper. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// M, the expansion factor [default: 4]
    #[arg(short, long, long_help = texts::expansion())]
    pub m: Option<usize>,
    /// How step scores become a chain's score
    ///
    /// min, product, mean, last, max, soft-min[:T] or likely-min[:W] [default: min; with --scorer
    /// orm, and with --score-as median or lower, always last]
    #[arg(long, hide_short_help = true)]
    pub aggregation: Option<Aggregation>,
    /// How the answer is chosen among finished chains
    #[arg(long, hide_short_help = true, long_help = texts::choosing())]
    pub choose: Option<Choose>,
    /// Stop a chain after so many steps [default: 40]
    #[arg(long, value_name = "STEPS", hide_short_help = true)]
    pub max_steps: Option<usize>,
    /// Most tokens to sample for one problem
    ///
    /// Tokens of chains that are thrown away count too. 0 is no limit [default: 0]
    #[arg(long, value_name = "TOKENS")]
    pub budget_tokens: Option<usize>,
    /// Withhold answers whose chain scores less [default: 0]
    #[arg(
        long,
        value_name = "SCORE",
        allow_negative_numbers = true,
        hide_short_help = true
    )]
    pub threshold: Option<f32>,
    /// Draw as many chains as a problem needs for this probability of success
    ///
    /// At most N, for best-of-n: until a chain scores as a calibration says that it must, by the
    /// answers of runs with -n 1 (calibrate --runs); with --score-as calibrated, by probabilities
    /// [default: always N]
    #[arg(
        long,
        value_name = "C",
        allow_negative_numbers = true,
        hide_short_help = true
    )]
    pub confidence: Option<f32>,
    /// Stop a majority vote that is decided
    ///
    /// The vote stops as soon as the chains still to come cannot change its answer.
    #[arg(long, hide_short_help = true)]
    pub consensus: bool,
    /// Score steps after TAU tokens and reject the worst there
    ///
    /// For beam and dvts only [default: never]
    #[arg(long, value_name = "TAU", hide_short_help = true)]
    pub early_rejection: Option<usize>,
    /// Continue finished chains while a round's last ones are written
    ///
    /// Results stay the same.
    #[arg(long, hide_short_help = true)]
    pub speculate: bool,
    /// Problems worked on at once [default: 16]
    ///
    /// It changes the speed, never the results.
    #[arg(long, value_name = "K", hide_short_help = true)]
    pub in_flight: Option<usize>,

    /// The seed of all random numbers [default: 0]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Sampling temperature; 0 is greedy
    ///
    /// [default: what the generator's checkpoint says, or 1.0]
    #[arg(
        long,
        value_name = "T",
        allow_negative_numbers = true,
        help_heading = "Sampling",
        hide_short_help = true
    )]
    pub temperature: Option<f32>,
    /// Sample among the K likeliest tokens; 0 among all
    #[arg(
        long,
        value_name = "K",
        help_heading = "Sampling",
        hide_short_help = true
    )]
    pub top_k: Option<usize>,
    /// Sample among the likeliest tokens with total probability P
    #[arg(
        long,
        value_name = "P",
        allow_negative_numbers = true,
        help_heading = "Sampling",
        hide_short_help = true
    )]
    pub top_p: Option<f32>,
    /// Sample among tokens at least P times as likely as the likeliest
    #[arg(
        long,
        value_name = "P",
        allow_negative_numbers = true,
        help_heading = "Sampling",
        hide_short_help = true
    )]
    pub min_p: Option<f32>,

    /// The generator [default: bundled]
    ///
    /// A folder in Hugging Face layout, a GGUF file, ORG/NAME[@REVISION] of the hub, or bundled.
    #[arg(long, value_name = "MODEL", help_heading = "Models")]
    pub generator: Option<PathBuf>,
    /// Servers that run the generator, e.g. http://HOST:8000
    ///
    /// vLLM, SGLang or llama.cpp's server, or with --set models.generator_server.engine=openai any
    /// endpoint of that kind; several addresses with commas between them. --generator then names
    /// the model whose tokenizer and chat template are used [default: the one that the servers say
    /// they have]. A key comes from the environment variable BEAMGEN_GENERATOR_KEY.
    /// Other settings: --set models.generator_server.KEY=VALUE.
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        help_heading = "Models",
        hide_short_help = true
    )]
    pub generator_url: Vec<String>,
    /// Another judge of the steps, beside the scorer; may be repeated
    ///
    /// prm or orm (the bundled ones), exact (a checker that knows the bundled problems only), or a
    /// reward model as for --prm. What the judges say of a step is combined as --combine says; each
    /// one's scores are in the tree, and what it read in the ledger. Other settings of a judge:
    /// [[models.judges]] in a file.
    #[arg(
        long,
        value_name = "JUDGE",
        help_heading = "Models",
        hide_short_help = true
    )]
    pub judge: Vec<PathBuf>,
    /// How the scores of several judges become one
    ///
    /// min, product, mean-logits, veto[:T] (the scorer's, or 0 where a judge scores below T) or
    /// cascade[:LOW..HIGH] (the scorer's, and where that lies between the bounds the next judge's,
    /// which is asked there only) [default: min]
    #[arg(
        long,
        value_name = "RULE",
        help_heading = "Models",
        hide_short_help = true
    )]
    pub combine: Option<Combine>,
    /// The calibration of the reward model [default: the one beside it]
    ///
    /// Made by `beamgen calibrate`. With it steps are told sure or unsure.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Models",
        hide_short_help = true
    )]
    pub calibration: Option<PathBuf>,
    /// The score of a step: raw, calibrated, median or lower
    ///
    /// raw is what the reward model says, calibrated the probability of success that belongs to it
    /// (with the --aggregation of `beamgen calibrate`), median and lower (10 %) are quantiles of that
    /// probability, read of the hidden state [default: raw]
    #[arg(
        long,
        value_name = "WHAT",
        help_heading = "Models",
        hide_short_help = true
    )]
    pub score_as: Option<ScoreAs>,
    /// Withhold answers so that at most this share of the given ones is wrong
    ///
    /// By the threshold that the calibration has for it (`beamgen calibrate --runs`).
    #[arg(
        long,
        value_name = "SHARE",
        help_heading = "Models",
        hide_short_help = true
    )]
    pub max_error: Option<f32>,
    #[command(flatten)]
    pub checkers: CheckerFlags,
    #[command(flatten)]
    pub models: ModelFlags,
}

/// Flags for commands that use a reward model without a search.
#[derive(Args, Debug)]
#[command(next_help_heading = "Models")]
pub struct PrmFlags {
    /// Read settings from a TOML file, as for `beamgen solve`
    ///
    /// --set wins over the file, other flags win over both.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set any key of the configuration
    ///
    /// For example --set engine.max_rows=256. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub models: ModelFlags,
}

/// Which reward model, and how models are run.
#[derive(Args, Debug)]
#[command(next_help_heading = "Models")]
pub struct ModelFlags {
    /// Published models by name, e.g. qwen2.5-math-1.5b
    ///
    /// A generator and a reward model with the settings that suit them: a pair of `beamgen models`,
    /// or a TOML file. --config wins over it; --generator and --prm replace its models.
    #[arg(long, value_name = "NAME|FILE")]
    pub pair: Option<String>,
    /// The process reward model [default: bundled]
    ///
    /// A folder in Hugging Face layout, a GGUF file, ORG/NAME[@REVISION] of the hub, bundled, or
    /// none, which is the same as --scorer none.
    #[arg(long, value_name = "MODEL")]
    pub prm: Option<PathBuf>,
    /// Servers that run the reward model, as --generator-url
    ///
    /// A key comes from the environment variable BEAMGEN_PRM_KEY.
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub prm_url: Vec<String>,
    /// How the reward model's input and scores are read
    ///
    /// auto, a family (`beamgen models` lists them) or a TOML file [default: auto]
    #[arg(long, value_name = "NAME|FILE", hide_short_help = true)]
    pub prm_format: Option<String>,
    /// The reference model of an implicit reward model
    #[arg(long, value_name = "MODEL", hide_short_help = true)]
    pub prm_reference: Option<PathBuf>,
    /// Weights as auto, f32, bf16, f16 or int8
    ///
    /// auto keeps the checkpoint's type, exactly; int8 is fastest and not exact [default: auto]
    #[arg(long, value_name = "TYPE")]
    pub dtype: Option<WeightType>,
    /// Compute on auto, cpu, cuda or cuda:N
    ///
    /// auto is the cpu for the bundled models. For others it is CUDA device 0 if the device passes
    /// a test and can have them, else the cpu. N counts from 0, the fastest card first; with
    /// CUDA_DEVICE_ORDER=PCI_BUS_ID in the environment it counts as nvidia-smi does [default: auto]
    #[arg(long, value_name = "DEVICE", hide_short_help = true)]
    pub device: Option<DeviceChoice>,
    /// Keys and values as auto, f32, bf16 or f16
    ///
    /// auto is f32 on the cpu and the weights' type on a CUDA device. bf16 and f16 take half the
    /// memory; bf16 is fastest on processors with AMX [default: auto]
    #[arg(long, value_name = "TYPE", hide_short_help = true)]
    pub kv_dtype: Option<KvType>,
    /// Most memory for KV caches, e.g. 2GiB [default: auto]
    ///
    /// For both models together. On the cpu it is taken when it is needed, on a CUDA device at
    /// once. auto is 4GiB on the cpu, and on a CUDA device what all chains in flight can use.
    #[arg(long, value_name = "SIZE", value_parser = beamgen::parse_size)]
    pub kv_memory: Option<usize>,
    /// Never ask the hub; take models from its cache
    #[arg(long, hide_short_help = true)]
    pub offline: bool,
    /// Threads to compute with
    ///
    /// At most 1024; 0 is one for each physical core [default: 0]
    #[arg(long, hide_short_help = true)]
    pub threads: Option<usize>,
}
