//! Parts of a solver that the caller or servers supply, and the identities of such parts in run
//! files.

use beamgen_launcher::Launcher;
use beamgen_prm::PrmSpec;
use beamgen_search::{Answers, Generator, Scorer, Verifier};
use serde_json::{Map, Value};

use crate::fingerprint;

/// The identity of a part in run files. A run can be resumed only with parts of the same identity.
pub(crate) enum Identity {
    /// The name that the caller gave the part.
    Named(String),
    /// Facts about servers and their requests, or about a model's files and the backend that runs
    /// it.
    #[cfg_attr(
        not(any(feature = "remote", feature = "candle")),
        expect(dead_code, reason = "there are none")
    )]
    Facts(Map<String, Value>),
}

/// A scorer, with its identity in run files.
pub(crate) type IdentifiedScorer = (Identity, Box<dyn Scorer + Send>);

/// The parts that the caller gave the builder, besides settings.
#[derive(Default)]
pub(crate) struct OwnParts {
    pub generator: Option<(Identity, Box<dyn Generator + Send>)>,
    pub scorer: Option<IdentifiedScorer>,
    /// The API key for the servers of the generator, if set by the caller.
    #[cfg(feature = "remote")]
    pub generator_key: Option<beamgen_remote::ApiKey>,
    /// The API key for the servers of the reward model, if set by the caller.
    #[cfg(feature = "remote")]
    pub prm_key: Option<beamgen_remote::ApiKey>,
    /// Certificates to trust for servers, besides Mozilla's and the system's.
    #[cfg(feature = "remote")]
    pub certificates: beamgen_hub::Certificates,
    /// Judges that score steps in addition to the scorer.
    pub judges: Vec<OwnJudge>,
    /// The rules that find and compare answers; `None` for the rules of mathematics.
    pub answers: Option<Box<dyn Answers + Send>>,
    /// A verifier with its name, which judges problems that name no other.
    pub verifier: Option<(String, Box<dyn Verifier + Send>)>,
    /// The launcher that starts programs of checkers and verifiers.
    pub launcher: Launcher,
    /// Whether to load the scorer even if the default settings need no scores.
    pub load_scorer: bool,
}

/// A judge that the builder was given.
pub(crate) struct OwnJudge {
    pub(crate) name: String,
    pub(crate) scorer: Box<dyn Scorer + Send>,
    pub(crate) veto: bool,
}

/// Adds a reward model's format to its identity. The format's name is left out, so only its content
/// counts.
pub(crate) fn format_identity(spec: &PrmSpec, models: &mut Map<String, Value>) {
    let spec = PrmSpec {
        name: String::new(),
        ..spec.clone()
    };
    let spec = serde_json::to_vec(&spec).unwrap_or_default();
    let spec = fingerprint::of_files([("spec", spec.as_slice())]);
    models.insert("prm_format".into(), spec.into());
}
