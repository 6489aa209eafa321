//! In place of `served.rs` where the feature `remote` is left out.

use beamgen_engine::Checkpoint;
use beamgen_generator::Prompts;

use crate::own::{IdentifiedScorer, OwnParts};
use crate::source::Finder;
use crate::{Config, Error};

/// No servers.
#[derive(Default)]
pub(crate) struct Served;

impl Served {
    pub(crate) fn open(config: &Config) -> Result<Self, Error> {
        match config.models.names_servers() {
            true => Err(Error::NoRemote),
            false => Ok(Self),
        }
    }

    pub(crate) fn generator(
        &mut self,
        _: &mut Config,
        _: &mut OwnParts,
        _: &mut Finder,
    ) -> Result<Option<(Prompts, Checkpoint)>, Error> {
        Ok(None)
    }

    pub(crate) fn scorer(
        &mut self,
        _: &'static str,
        _: &Config,
        _: Option<&Checkpoint>,
        _: &OwnParts,
        _: &mut Finder,
    ) -> Result<Option<IdentifiedScorer>, Error> {
        Ok(None)
    }
}
