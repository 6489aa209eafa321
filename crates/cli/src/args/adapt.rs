//! The flags of `beamgen adapt`.

use std::path::PathBuf;

#[cfg(feature = "train")]
use beamgen::result::VerifierConfig;
use clap::Args;

use super::{DataFlags, texts};

#[derive(Args, Debug)]
#[command(after_long_help = texts::ADAPT)]
pub(crate) struct AdaptArgs {
    /// Generator that the reward model has to judge: a folder, a GGUF file, or bundled
    #[arg(long, value_name = "MODEL")]
    pub generator: PathBuf,
    /// Reward model to adapt: a folder in Hugging Face layout
    #[arg(long, value_name = "DIR")]
    pub prm: PathBuf,
    /// Format of the reward model: a family or a TOML file [default: DIR/prm.toml]
    #[arg(long, value_name = "NAME|FILE")]
    pub prm_format: Option<String>,
    /// Reference model of a log-ratio (implicit-prm), which learns from outcomes alone
    #[arg(long, value_name = "MODEL")]
    pub prm_reference: Option<PathBuf>,
    /// Problems with their answers, as for `beamgen solve`
    #[arg(long, value_name = "FILE")]
    pub problems: PathBuf,
    #[command(flatten)]
    pub data: DataFlags,
    /// Folder for the adapted reward model; its folder work has all files on the way
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Continue an interrupted run in the folder of --out
    #[arg(long)]
    pub resume: bool,
    #[command(flatten)]
    pub labels: RefreshFlags,
    /// Share of the problems that is held out and only measured
    #[arg(long, value_name = "PART", default_value_t = 0.25)]
    pub held_out: f64,
    /// Area under the ROC curve of the held-out steps at which the reward model is good enough
    #[arg(long, value_name = "AREA", default_value_t = 0.97)]
    pub area: f64,
    /// Problems whose chains are labelled first; doubled until the area is reached
    #[arg(long, value_name = "COUNT", default_value_t = 128)]
    pub first: usize,
    /// Chains of a search on the held-out problems, before and after; 0 searches nothing
    #[arg(short, value_name = "N", default_value_t = 16)]
    pub n: usize,
}

/// The flags that say how chains of a new policy are labelled and learnt from.
#[derive(Args, Debug, Clone)]
pub(crate) struct RefreshFlags {
    /// Chains to label for each problem
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub chains: usize,
    /// Label steps by this number of completions each
    #[arg(long = "label-rollouts", value_name = "N", default_value_t = 8)]
    pub completions: u32,
    /// Label steps by a built-in checker instead: exact (bundled problems only) or arithmetic
    #[arg(long, value_name = "NAME")]
    pub checker: Option<String>,
    /// Labelled chains of earlier policies to learn from again, in any format of `beamgen labels`
    #[arg(long, value_name = "FILE")]
    pub replay: Vec<PathBuf>,
    /// Highest learning rate of the reward model
    #[arg(
        long = "prm-learning-rate",
        value_name = "RATE",
        default_value_t = 1e-4
    )]
    pub rate: f64,
    #[command(flatten)]
    pub verifier: VerifierFlags,
}

/// The flags that name the verifier of outcomes in commands of training.
#[derive(Args, Debug, Clone)]
pub(crate) struct VerifierFlags {
    /// Judge whole chains by a command that reads and writes JSON lines, as in `beamgen solve` [default: math]
    #[arg(long = "verifier", value_name = "math|lean|CMD")]
    pub run: Option<String>,
    /// Keep the reference answer and the tests from the verifier
    #[arg(long = "verifier-open", requires = "run")]
    pub open: bool,
    /// Address of the Kimina server that the verifier lean asks [default: port 8000 here]
    #[arg(long, value_name = "URL")]
    pub lean_url: Option<String>,
    /// Seconds after which a verifier command that does not answer is killed [default: 10]
    #[arg(long = "verifier-timeout", value_name = "SECONDS", requires = "run")]
    pub timeout: Option<f64>,
}

#[cfg(feature = "train")]
impl VerifierFlags {
    /// Returns the flags for a command that this command runs.
    pub(crate) fn typed(&self) -> Vec<String> {
        let mut typed = Vec::new();
        if let Some(run) = &self.run {
            typed.extend(["--verifier".to_owned(), run.clone()]);
        }
        if self.open {
            typed.push("--verifier-open".to_owned());
        }
        if let Some(url) = &self.lean_url {
            typed.extend(["--lean-url".to_owned(), url.clone()]);
        }
        if let Some(timeout) = self.timeout {
            typed.extend(["--verifier-timeout".to_owned(), timeout.to_string()]);
        }
        typed
    }

    /// Returns the settings of the verifier.
    pub(crate) fn config(&self) -> VerifierConfig {
        let usual = VerifierConfig::default();
        VerifierConfig {
            run: self.run.clone().unwrap_or(usual.run),
            open: self.open,
            lean_url: self.lean_url.clone(),
            timeout: self.timeout.unwrap_or(usual.timeout),
            ..usual
        }
    }
}
