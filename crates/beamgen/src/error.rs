use std::io;
use std::path::{Path, PathBuf};

use beamgen_search::{Cause, ConfigError, SearchError};

use crate::size::human_size;

/// The reason why a solver could not be built, or why a run stopped. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A settings file cannot be read.
    #[error("{}: {}", path.display(), beamgen_files::reason(source))]
    Unreadable {
        /// The settings file that could not be read.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A settings file is not valid TOML, or has an unknown key or an invalid value.
    #[error("{}:{line}: {reason}", path.display())]
    ConfigFile {
        /// The settings file with the fault.
        path: PathBuf,
        /// The line of the fault, counted from 1.
        line: usize,
        /// A description of the fault.
        reason: String,
    },
    /// A setting is invalid, or two settings contradict each other.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// A key does not exist, or cannot have the given value.
    #[error("{key}: {reason}")]
    Key {
        /// The key, as the caller wrote it.
        key: String,
        /// A description of the fault.
        reason: String,
    },
    /// No pair has this name.
    #[error("unknown pair {name:?}{}", nearest.map(|near| format!("; the nearest is {near:?}")).unwrap_or_default())]
    UnknownPair {
        /// The name, as the caller wrote it.
        name: String,
        /// The most similar name of a bundled pair; `None` if no pair is bundled.
        nearest: Option<&'static str>,
    },
    /// No folder or file has the model's name, and the name cannot be looked up on a hub.
    #[error("{}: no such folder or file{}", name.display(), if *hub { ", and no hub was given" } else { ": a model of a hub is written ORG/NAME" })]
    NoModel {
        /// The name, as the caller wrote it.
        name: PathBuf,
        /// Whether the name has the form `ORG/NAME`, so that only a hub was missing.
        hub: bool,
    },
    /// A tokenizer is named for a bundled model, which has its own. The field is the tokenizer.
    #[error("{}: a bundled model has its own tokenizer: name a model that uses this one, or leave the tokenizer out", .0.display())]
    TokenizerOfBundled(PathBuf),
    /// The file exists but is not a model. The field is the file's path.
    #[error("{}: neither a folder nor a GGUF file: give a folder, or a file whose name ends in .gguf", .0.display())]
    NotAModel(PathBuf),
    /// Neither a file nor a data set on the hub has the name.
    #[error("{name}: no such file, and as a data set: {error}")]
    NoData {
        /// The name as it was given.
        name: String,
        /// The answer of the hub.
        error: beamgen_hub::HubError,
    },
    /// A subset or a split of a file was named.
    #[error("{}: a file has no subsets and splits: leave them out, or name a data set ORG/NAME", .0.display())]
    PartOfFile(PathBuf),
    /// A hub did not provide the model.
    #[error(transparent)]
    Hub(#[from] beamgen_hub::HubError),
    /// An implicit reward model needs a reference model, which was not named.
    #[error(
        "{}: the format {format} needs a reference model: name the model that it was trained from as prm_reference",
        prm.display()
    )]
    NoReference {
        /// The path or name of the reward model.
        prm: PathBuf,
        /// The name of the reward model's format.
        format: String,
    },
    /// A reference model was named for a reward model that needs none.
    #[error("{}: the format {format} uses no reference model: leave prm_reference out", reference.display())]
    UselessReference {
        /// The path or name of the superfluous reference model.
        reference: PathBuf,
        /// The name of the reward model's format.
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
        /// The part of `needed` for weights and buffers.
        fixed: u64,
        /// Bytes that may be used.
        usable: u64,
        /// Bytes that are free.
        available: u64,
        /// The device that lacks memory: `cpu`, or the name of a CUDA device.
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
    /// An error about a model. The model's path is added to the message of the inner error.
    #[error("{place}: {error}")]
    At {
        /// The model's folder or file.
        place: String,
        /// The inner error, whose message does not name the model.
        error: Box<Error>,
    },
    /// The settings name the scorer `exact`, but the builder got no such scorer.
    #[error("scorer \"exact\": the solver was built without it: use SolverBuilder::custom_scorer")]
    NoScorer,
    /// A problem file cannot be read.
    #[error(transparent)]
    Problems(#[from] beamgen_eval::ProblemsError),
    /// Only the reward model was prepared, so there is no generator for a search.
    #[error("no generator: only the reward model was prepared")]
    NoGenerator,
    /// The tokenizer of a model on a server is neither on this machine nor on the hub.
    #[error(
        "the {role} server has the model {model:?}, whose tokenizer is neither on this machine nor on the hub: name a folder or a model of the hub that has it"
    )]
    NoTokenizer {
        /// The server's role: `generator` or `prm`.
        role: &'static str,
        /// The name by which the server knows its model.
        model: String,
    },
    /// The settings name servers, but this build has no support for them.
    #[error(
        "this build has no support for servers of other engines: build it in with cargo build --release --features remote"
    )]
    NoRemote,
    /// The model's family needs candle-transformers, which this build lacks.
    #[error(
        "{place}: the family {family} needs candle-transformers, which this build lacks: build it in with cargo build --release --features candle"
    )]
    NoCandle {
        /// The model's folder.
        place: String,
        /// The model's `model_type` in `config.json`.
        family: String,
    },
    /// The settings name a CUDA device, but candle-transformers runs this model on the CPU only.
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
        /// The calibration file with the fault.
        path: PathBuf,
        /// A description of the fault.
        reason: String,
    },
    /// The calibration has no answers of finished runs, from which thresholds could be computed.
    #[error("{}: has no answers of {of}", path.display())]
    NoAnswers {
        /// The calibration file that lacks the answers.
        path: PathBuf,
        /// The kind of searches whose answers are missing, and the setting that needs them.
        of: &'static str,
    },
    /// The settings ask for calibrated scores, but the reward model has no calibration.
    #[error(
        "calibrated scores need a calibration: fit one to labelled chains of the generator (beamgen calibrate), or name its file as models.calibration"
    )]
    NoCalibration,
    /// A search failed because a model was lost.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// A problem was refused, by [`Solver::solve`](crate::Solver::solve) or
    /// [`Solver::validate`](crate::Solver::validate).
    #[error(transparent)]
    Refused(Box<dyn std::error::Error + Send + Sync>),
    /// A service refused a request, or ended before the request's result.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl Error {
    /// Whether the fault is in the caller's input (a setting, a file, a problem), not in the run.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Search(error) => matches!(error, SearchError::Config(_)),
            Self::Service(_) => false,
            // All other errors are found in the input, before a run begins.
            _ => true,
        }
    }

    /// Returns a converter for errors of reading the file at `path`, to pass to `map_err`.
    pub(crate) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Unreadable {
            path: path.to_owned(),
            source,
        }
    }

    /// Adds the model's path to an error, unless the message contains the path already.
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

/// Whether a message contains a model's path as a whole: `models/a` is not part of `models/ab`.
fn names(message: &str, place: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "._-".contains(c);
    message.match_indices(place).any(|(at, _)| {
        let before = message[..at].chars().next_back();
        let after = message[at + place.len()..].chars().next();
        // After a slash, `place` is only the end of a longer path, which belongs to another model.
        !before.is_some_and(|c| inside(c) || c == '/') && !after.is_some_and(inside)
    })
}

/// The reason why a service refused a request, or has no result for it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The queue is full: try again later.
    #[error("the queue is full: {waiting} requests wait")]
    Full {
        /// The number of waiting requests, which is the maximum length of the queue.
        waiting: usize,
    },
    /// The service was closed.
    #[error("the service is closed")]
    Closed,
    /// The request has an invalid setting.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// The service ended because a model was lost.
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
