//! Replaces `backend.rs` in a build without the feature `candle`: opening a model is an error.

use beamgen_engine::Checkpoint;
use beamgen_generator::Prompts;
use beamgen_search::{Generator, Scorer};
use serde_json::{Map, Value};

use crate::memory::MemoryPlan;
use crate::own::Identity;
use crate::source::Source;
use crate::{Config, Error};

/// An empty type, because no such model can exist in this build.
pub(crate) enum CandleGenerator {}

impl CandleGenerator {
    pub(crate) fn open(
        _: &Source,
        checkpoint: &Checkpoint,
        family: &str,
        _: &mut Config,
        _: &mut Vec<String>,
    ) -> Result<Self, Error> {
        Err(no_candle(checkpoint, family))
    }

    pub(crate) fn prompts(&self) -> Result<Prompts, Error> {
        match *self {}
    }

    pub(crate) fn load(
        self,
        _: &MemoryPlan,
    ) -> Result<(Identity, Box<dyn Generator + Send>), Error> {
        match self {}
    }
}

/// An empty type, because no such model can exist in this build.
pub(crate) enum CandleClassifier {}

impl CandleClassifier {
    pub(crate) fn open(
        _: &Source,
        checkpoint: &Checkpoint,
        family: &str,
        _: &Config,
        _: &mut Vec<String>,
    ) -> Result<Self, Error> {
        Err(no_candle(checkpoint, family))
    }

    pub(crate) fn load(self, _: &MemoryPlan) -> Result<(Identity, Box<dyn Scorer + Send>), Error> {
        match self {}
    }

    pub(crate) fn identity(&self) -> Map<String, Value> {
        match *self {}
    }
}

fn no_candle(checkpoint: &Checkpoint, family: &str) -> Error {
    Error::NoCandle {
        place: checkpoint.path().display().to_string(),
        family: family.to_owned(),
    }
}
