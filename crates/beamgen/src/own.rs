//! Parts that are not models of this process, and what stands for parts in run files.

use beamgen_launcher::Launcher;
use beamgen_prm::PrmSpec;
use beamgen_search::{Answers, Generator, Scorer};
use serde_json::{Map, Value};

use crate::fingerprint;

/// What stands for a part in run files.
pub(crate) enum Identity {
    /// The name that the builder was given.
    Named(String),
    /// What servers are and how they are asked, or what computes a model and its files.
    #[cfg_attr(
        not(any(feature = "remote", feature = "candle")),
        expect(dead_code, reason = "there are none")
    )]
    Facts(Map<String, Value>),
}

/// A scorer, with what stands for it in run files.
pub(crate) type IdentifiedScorer = (Identity, Box<dyn Scorer + Send>);

/// What the builder was given in place of models, each with what stands for it in run files.
#[derive(Default)]
pub(crate) struct OwnParts {
    pub generator: Option<(Identity, Box<dyn Generator + Send>)>,
    pub scorer: Option<IdentifiedScorer>,
    /// The key of the generator's servers, where it comes from the caller.
    #[cfg(feature = "remote")]
    pub generator_key: Option<beamgen_remote::ApiKey>,
    /// The key of the reward model's servers, likewise.
    #[cfg(feature = "remote")]
    pub prm_key: Option<beamgen_remote::ApiKey>,
    /// The certificates by which servers are trusted.
    #[cfg(feature = "remote")]
    pub certificates: beamgen_hub::Certificates,
    /// Judges beside the scorer.
    pub judges: Vec<OwnJudge>,
    /// None: those of mathematics.
    pub answers: Option<Box<dyn Answers + Send>>,
    /// Starts the programs of checkers.
    pub launcher: Launcher,
    /// Whether the scorer is wanted even if the default settings never ask it.
    pub load_scorer: bool,
}

/// A judge that the builder was given.
pub(crate) struct OwnJudge {
    pub(crate) name: String,
    pub(crate) scorer: Box<dyn Scorer + Send>,
    pub(crate) veto: bool,
}

/// How a reward model is read, whatever file or name that came from.
pub(crate) fn format_identity(spec: &PrmSpec, models: &mut Map<String, Value>) {
    let spec = PrmSpec {
        name: String::new(),
        ..spec.clone()
    };
    let spec = serde_json::to_vec(&spec).unwrap_or_default();
    let spec = fingerprint::of_files([("spec", spec.as_slice())]);
    models.insert("prm_format".into(), spec.into());
}
