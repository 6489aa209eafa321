//! Parts of a solver that are not models of this process, and the identities of parts in run files.

use beamgen_launcher::Launcher;
use beamgen_prm::PrmSpec;
use beamgen_search::{Answers, Generator, Scorer};
use serde_json::{Map, Value};

use crate::fingerprint;

/// The identity of a part in run files, which a resumed run must have, too.
pub(crate) enum Identity {
    /// The name that the caller gave to the builder.
    Named(String),
    /// The facts about servers and requests to them, or about a model's files and its backend.
    #[cfg_attr(
        not(any(feature = "remote", feature = "candle")),
        expect(dead_code, reason = "there are none")
    )]
    Facts(Map<String, Value>),
}

/// A scorer with its identity in run files.
pub(crate) type IdentifiedScorer = (Identity, Box<dyn Scorer + Send>);

/// The parts that the caller gave to the builder in place of models.
#[derive(Default)]
pub(crate) struct OwnParts {
    pub generator: Option<(Identity, Box<dyn Generator + Send>)>,
    pub scorer: Option<IdentifiedScorer>,
    /// The API key of the generator's servers, if the caller gave it.
    #[cfg(feature = "remote")]
    pub generator_key: Option<beamgen_remote::ApiKey>,
    /// The API key of the reward model's servers, if the caller gave it.
    #[cfg(feature = "remote")]
    pub prm_key: Option<beamgen_remote::ApiKey>,
    /// Certificates that are trusted for servers, in addition to Mozilla's and the system's.
    #[cfg(feature = "remote")]
    pub certificates: beamgen_hub::Certificates,
    /// Judges that are asked in addition to the scorer.
    pub judges: Vec<OwnJudge>,
    /// How answers are found and compared; `None` for mathematics.
    pub answers: Option<Box<dyn Answers + Send>>,
    /// The launcher that starts checkers' commands.
    pub launcher: Launcher,
    /// Whether the scorer is loaded even if the default settings need no scores.
    pub load_scorer: bool,
}

/// A judge that the builder was given.
pub(crate) struct OwnJudge {
    pub(crate) name: String,
    pub(crate) scorer: Box<dyn Scorer + Send>,
    pub(crate) veto: bool,
}

/// Adds the format of a reward model to its identity: the content, whatever file or name it is from.
pub(crate) fn format_identity(spec: &PrmSpec, models: &mut Map<String, Value>) {
    let spec = PrmSpec {
        name: String::new(),
        ..spec.clone()
    };
    let spec = serde_json::to_vec(&spec).unwrap_or_default();
    let spec = fingerprint::of_files([("spec", spec.as_slice())]);
    models.insert("prm_format".into(), spec.into());
}
