//! Replaces `served.rs` in a build without the feature `remote`: settings with servers are an
//! error.

use beamgen_engine::Checkpoint;
use beamgen_generator::Prompts;

use crate::own::{IdentifiedScorer, OwnParts};
use crate::source::Finder;
use crate::{Config, Error};

/// The set of servers, which is always empty in this build.
#[derive(Default)]
pub(crate) struct Served;

#[expect(
    clippy::unused_self,
    reason = "the shape of the servers that a build with them has"
)]
impl Served {
    pub(crate) fn open(config: &Config) -> Result<Self, Error> {
        if config.models.names_servers() {
            Err(Error::NoRemote)
        } else {
            Ok(Self)
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
