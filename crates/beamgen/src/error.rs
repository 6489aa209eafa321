use std::io;
use std::path::{Path, PathBuf};

use beamgen_search::{Cause, ConfigError, SearchError};

use crate::size::human_size;

/// The reason why a solver could not be built or a run stopped. Every message is a single line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A settings file cannot be read.
    #[error("{}: {}", path.display(), beamgen_files::reason(source))]
    Unreadable {
        /// The path of the settings file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A settings file is not TOML, or has an unknown key or an invalid value.
    #[error("{}:{line}: {reason}", path.display())]
    ConfigFile {
        /// The path of the settings file.
        path: PathBuf,
        /// The line of the fault, from 1.
        line: usize,
        /// The fault in words.
        reason: String,
    },
    /// Invalid settings, or settings that contradict each other.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// A key that does not exist, or that cannot have the given value.
    #[error("{key}: {reason}")]
    Key {
        /// The key as the caller wrote it.
        key: String,
        /// The fault in words.
        reason: String,
    },
    /// No pair has this name.
    #[error("unknown pair {name:?}{}", nearest.map(|near| format!("; the nearest is {near:?}")).unwrap_or_default())]
    UnknownPair {
        /// The name as the caller wrote it.
        name: String,
        /// The most similar name of a bundled pair, if any is similar.
        nearest: Option<&'static str>,
    },
    /// The model is not on this machine, and its name is not one of a hub, or there is no hub.
    #[error("{}: no such folder or file{}", name.display(), if *hub { ", and no hub was given" } else { ": a model of a hub is written ORG/NAME" })]
    NoModel {
        /// The name as the caller wrote it.
        name: PathBuf,
        /// Whether the name has the form of a hub's model.
        hub: bool,
    },
    /// The path of a file that is not a model.
    #[error("{}: neither a folder nor a GGUF file: give a folder, or a file whose name ends in .gguf", .0.display())]
    NotAModel(PathBuf),
    /// A model is not available from its hub.
    #[error(transparent)]
    Hub(#[from] beamgen_hub::HubError),
    /// An implicit reward model without its reference model.
    #[error(
        "{}: the format {format} needs a reference model: name the model that it was trained from as prm_reference",
        prm.display()
    )]
    NoReference {
        /// The path of the reward model.
        prm: PathBuf,
        /// The reward model's format.
        format: String,
    },
    /// A reference model for a reward model that uses none.
    #[error("{}: the format {format} uses no reference model: leave prm_reference out", reference.display())]
    UselessReference {
        /// The path of the reference model.
        reference: PathBuf,
        /// The reward model's format.
        format: String,
    },
    /// Weights and buffers do not fit into memory.
    #[error(
        "not enough memory on the {device}: the models need {} ({} for weights and buffers, the rest for one chain each), and {} of {} free \
         can be used: use smaller models, {}, or lower the KV memory (a full context counts up to that), n, in_flight or engine.max_rows",
        human_size(*needed), human_size(*fixed), human_size(*usable), human_size(*available),
        if device == "cpu" { "dtype int8 or kv_dtype bf16" } else { "dtype bf16 or device cpu" }
    )]
    Memory {
        /// Bytes of weights, buffers and one chain in each model.
        needed: u64,
        /// Bytes of weights and buffers only.
        fixed: u64,
        /// Bytes that may be used.
        usable: u64,
        /// Bytes that are free.
        available: u64,
        /// The device whose memory is short: `cpu`, or a CUDA device's name.
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
    /// An error about a model, with the model's path, which the inner message lacks.
    #[error("{place}: {error}")]
    At {
        /// The model's folder or file.
        place: String,
        /// The error about that model.
        error: Box<Error>,
    },
    /// The settings name the scorer `exact`, and the builder was given none.
    #[error("scorer \"exact\": the solver was built without it: use SolverBuilder::custom_scorer")]
    NoScorer,
    /// A problem file cannot be read.
    #[error(transparent)]
    Problems(#[from] beamgen_eval::ProblemsError),
    /// The models were prepared to score given chains only, so there is no generator to search with.
    #[error("no generator: only the reward model was prepared")]
    NoGenerator,
    /// The tokenizer of a server's model is not available.
    #[error(
        "the {role} server has the model {model:?}, whose tokenizer is neither on this machine nor on the hub: name a folder or a model of the hub that has it"
    )]
    NoTokenizer {
        /// The role of the server's model: `generator` or `prm`.
        role: &'static str,
        /// The model's name on the server.
        model: String,
    },
    /// Servers were named, and this build has no support for them.
    #[error(
        "this build has no support for servers of other engines: build it in with cargo build --release --features remote"
    )]
    NoRemote,
    /// A model of a family that this build does not support.
    #[error(
        "{place}: the family {family} needs candle-transformers, which this build lacks: build it in with cargo build --release --features candle"
    )]
    NoCandle {
        /// The model's folder.
        place: String,
        /// The `model_type` in the model's `config.json`.
        family: String,
    },
    /// A CUDA device was named for a model of candle-transformers, which runs on the CPU only.
    #[cfg(feature = "candle")]
    #[error(
        "{place}: candle-transformers runs on the CPU only: leave the device out, or set it to cpu"
    )]
    CandleOnCpu {
        /// The model's folder.
        place: String,
    },
    /// A format or a reference model was named for a sequence classifier.
    #[cfg(feature = "candle")]
    #[error("{place}: a sequence classifier has no format and no reference model: leave both out")]
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
        /// The path of the calibration file.
        path: PathBuf,
        /// The fault in words.
        reason: String,
    },
    /// A calibration without the answers of finished runs, from which thresholds are computed.
    #[error("{}: has no answers of {of}", path.display())]
    NoAnswers {
        /// The path of the calibration file.
        path: PathBuf,
        /// The searches that the calibration lacks, and their use.
        of: &'static str,
    },
    /// The settings want calibrated scores, and the reward model has no calibration.
    #[error(
        "calibrated scores need a calibration: fit one to labelled chains of the generator (beamgen calibrate), or name its file as models.calibration"
    )]
    NoCalibration,
    /// A search failed, because a model was lost.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// A problem was refused, by [`Solver::solve`](crate::Solver::solve) or
    /// [`Solver::validate`](crate::Solver::validate).
    #[error(transparent)]
    Refused(Box<dyn std::error::Error + Send + Sync>),
    /// A service did not take a request, or ended before its result.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl Error {
    /// Whether the caller's input is at fault (a setting, a file, a problem), and not the run.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Search(error) => matches!(error, SearchError::Config(_)),
            Self::Service(_) => false,
            // All others are found before a run begins, in what the caller named or set.
            _ => true,
        }
    }

    /// Converts an error of reading a file, for `map_err`.
    pub(crate) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Unreadable {
            path: path.to_owned(),
            source,
        }
    }

    /// Adds the model's path to an error, unless the message has it already.
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

/// Whether a message contains a model's path as a whole: `models/a` is not in `models/ab`.
fn names(message: &str, place: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "._-".contains(c);
    message.match_indices(place).any(|(at, _)| {
        let before = message[..at].chars().next_back();
        let after = message[at + place.len()..].chars().next();
        // With a slash before it, the name is the end of a longer path: another model's.
        !before.is_some_and(|c| inside(c) || c == '/') && !after.is_some_and(inside)
    })
}

/// The reason why a service did not take a request, or has no result for it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The queue is full: try again later.
    #[error("the queue is full: {waiting} requests wait")]
    Full {
        /// The number of waiting requests, which is the queue's length.
        waiting: usize,
    },
    /// The service was closed.
    #[error("the service is closed")]
    Closed,
    /// Invalid settings of a request.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// A model is lost, so the service ended.
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
