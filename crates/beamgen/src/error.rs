use std::io;
use std::path::{Path, PathBuf};

use beamgen_search::{Cause, ConfigError, SearchError};

use crate::size::human_size;

/// Why a solver could not be built, or a run stopped. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A settings file cannot be read.
    #[error("{}: {}", path.display(), beamgen_files::reason(source))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A settings file is not TOML, or has a key or a value that is not known.
    #[error("{}:{line}: {reason}", path.display())]
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// Settings that cannot be run.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// A key that is not there, or that cannot have this value.
    #[error("{key}: {reason}")]
    Key {
        /// As it was given.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// No pair has this name.
    #[error("no pair is called {name:?}{}", nearest.map(|near| format!("; the nearest is {near:?}")).unwrap_or_default())]
    UnknownPair {
        /// What was given.
        name: String,
        /// The name most like it.
        nearest: Option<&'static str>,
    },
    /// There is no such model on this machine, nor could a hub have it.
    #[error("{}: no such folder or file{}", name.display(), if *hub { ", and no hub was given" } else { "; a model of a hub is written ORG/NAME" })]
    NoModel {
        /// What was given.
        name: PathBuf,
        /// Whether a hub might have it.
        hub: bool,
    },
    /// A file that is no model.
    #[error("{}: neither a folder nor a GGUF file (whose name ends in .gguf)", .0.display())]
    NotAModel(PathBuf),
    /// A model cannot be had from its hub.
    #[error(transparent)]
    Hub(#[from] beamgen_hub::HubError),
    /// An implicit reward model without the model that it is compared with.
    #[error(
        "{}: is read as {format}, which needs a second model: name the one it was trained from as prm_reference",
        prm.display()
    )]
    NoReference {
        /// The reward model.
        prm: PathBuf,
        /// How it is read.
        format: String,
    },
    /// A reference model that nobody reads.
    #[error("{}: the format {format} has no use for a reference model: leave it out", reference.display())]
    UselessReference {
        /// The reference model.
        reference: PathBuf,
        /// How the reward model is read.
        format: String,
    },
    /// Weights and buffers do not fit into memory.
    #[error(
        "the models need {} ({} for weights and buffers, the rest for one chain each), {} of the {} that are free on the {device} may be \
         used: take smaller models, {}, or lower the KV memory (a full context counts up to that), n, in_flight or engine.max_rows",
        human_size(*needed), human_size(*fixed), human_size(*usable), human_size(*available),
        if device == "cpu" { "dtype int8 or kv_dtype bf16" } else { "dtype bf16 or device cpu" }
    )]
    Memory {
        /// Bytes of weights, buffers and one chain in each model.
        needed: u64,
        /// Those of weights and buffers.
        fixed: u64,
        /// Bytes that may be used.
        usable: u64,
        /// Bytes that are free.
        available: u64,
        /// Whose memory it is.
        device: String,
    },
    /// A model cannot be loaded.
    #[error(transparent)]
    Engine(#[from] beamgen_engine::Error),
    /// A generator cannot be made of its checkpoint and settings.
    #[error(transparent)]
    Generator(#[from] beamgen_generator::Error),
    /// A reward model cannot be made of its checkpoint.
    #[error(transparent)]
    Prm(#[from] beamgen_prm::Error),
    /// One of these, from a model whose place the message did not name.
    #[error("{place}: {error}")]
    At {
        /// The model's folder or file.
        place: String,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// The settings name a scorer that is not a model, and none was given.
    #[error("scorer \"exact\": no checker was given to the solver")]
    NoScorer,
    /// A problem file cannot be read.
    #[error(transparent)]
    Problems(#[from] beamgen_eval::ProblemsError),
    /// There is no generator: the models were prepared to score given chains.
    #[error("there is no generator: only the reward model was prepared")]
    NoGenerator,
    /// A server's model whose tokenizer is not known here.
    #[error(
        "the {role} server has the model {model:?}, whose tokenizer is not on this machine and is on no hub: name a folder or a model of the hub that has it"
    )]
    NoTokenizer {
        /// `generator` or `prm`.
        role: &'static str,
        /// As the server calls it.
        model: String,
    },
    /// Servers were named, and this build has no code for them.
    #[error(
        "this build leaves servers of other engines out; build it in: cargo build --release --features remote"
    )]
    NoRemote,
    /// A generator of a family that this build has no code for.
    #[error(
        "{place}: candle-transformers knows the family {family}, and this build leaves it out; build it in: cargo build --release --features candle"
    )]
    NoCandle {
        /// The model's folder.
        place: String,
        /// Its `model_type`.
        family: String,
    },
    /// A device was asked for by name for a generator that the CPU computes.
    #[cfg(feature = "candle")]
    #[error("{place}: candle-transformers computes on the CPU alone: leave --device cuda out")]
    CandleOnCpu {
        /// The model's folder.
        place: String,
    },
    /// A format or a reference model was named for a sequence classifier.
    #[cfg(feature = "candle")]
    #[error(
        "{place}: a sequence classifier reads the problem and the steps as a pair of texts: leave the format and the reference model out"
    )]
    ClassifierFormat {
        /// The model's folder.
        place: String,
    },
    /// A model of `candle-transformers` cannot be used.
    #[cfg(feature = "candle")]
    #[error(transparent)]
    Candle(#[from] beamgen_candle_backend::Error),
    /// A server cannot be used.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Remote(#[from] beamgen_remote::Error),
    /// A calibration that cannot be used.
    #[error("{}: {reason}", path.display())]
    Calibration {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A calibration that was not told how often the answers of searches are wrong.
    #[error("{}: it has no answers of {of}", path.display())]
    NoAnswers {
        /// The file of the calibration.
        path: PathBuf,
        /// The searches that it lacks, and what they are needed for.
        of: &'static str,
    },
    /// Calibrated scores are asked for, and the reward model has no calibration.
    #[error(
        "there is no calibration for calibrated scores: fit one to labelled chains of the generator, or name its file as models.calibration"
    )]
    NoCalibration,
    /// The run broke.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// A problem was refused, by [`Solver::solve`](crate::Solver::solve) or
    /// [`Solver::validate`](crate::Solver::validate).
    #[error(transparent)]
    Refused(Box<dyn std::error::Error + Send + Sync>),
    /// The service ended.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl Error {
    /// Whether what was given is at fault (a setting, a file, a problem), and not the run.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Search(error) => matches!(error, SearchError::Config(_)),
            Self::Service(_) => false,
            _ => true,
        }
    }

    /// The error of a file that the system does not give.
    pub(crate) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Unreadable {
            path: path.to_owned(),
            source,
        }
    }

    /// Names the model that an error is about, unless the message does so already.
    pub(crate) fn at(self, place: String) -> Self {
        if names(&self.to_string(), &place) {
            self
        } else {
            Self::At {
                place,
                error: Box::new(self),
            }
        }
    }
}

/// Whether a message has the path of a model or of something in it, and not just its letters.
fn names(message: &str, place: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "._-".contains(c);
    message.match_indices(place).any(|(at, _)| {
        let before = message[..at].chars().next_back();
        let after = message[at + place.len()..].chars().next();
        !before.is_some_and(|c| inside(c) || c == '/') && !after.is_some_and(inside)
    })
}

/// Why a request was not taken, or has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The queue is full: try again later.
    #[error("the queue is full: {waiting} requests wait")]
    Full {
        /// Requests that wait.
        waiting: usize,
    },
    /// The service was closed.
    #[error("the service is closed")]
    Closed,
    /// Settings that cannot be run.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// A model is lost, and the service with it.
    #[error("the service ended: {0}")]
    Lost(Cause),
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_path_is_named_and_not_just_its_letters() {
        assert!(names("m/config.json: bad", "m"));
        assert!(names("format does not fit m: bad", "m"));
        assert!(names("/a/m: bad", "/a/m"));
        for message in ["tensor `model.norm` is bad", "field `m.x`", "a/m: bad", ""] {
            assert!(!names(message, "m"), "{message}");
        }
    }
}
