//! What the crate `candle-backend` does for a solver.

use std::sync::Arc;

use beamgen_candle_backend::CandleModel;
use beamgen_engine::{Checkpoint, DeviceChoice, Tokenizer};
use beamgen_generator::Prompts;
use beamgen_search::Generator;
use serde_json::Map;

use crate::memory::{MemoryPlan, available};
use crate::own::Identity;
use crate::size::human_size;
use crate::source::Source;
use crate::{Config, Error};

/// A generator that fits, whose weights are not read yet.
pub(crate) struct CandleGenerator {
    model: CandleModel,
    tokenizer: Arc<Tokenizer>,
    place: String,
    fingerprint: String,
}

impl CandleGenerator {
    pub(crate) fn open(
        source: &Source,
        checkpoint: &Checkpoint,
        family: &str,
        config: &mut Config,
        notes: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let place = checkpoint.path().display().to_string();
        if let DeviceChoice::Cuda(_) = config.engine.device {
            return Err(Error::CandleOnCpu { place });
        }
        let at = |error: Error| error.at(place.clone());
        let tokenizer = Tokenizer::load(checkpoint.clone()).map_err(|error| at(error.into()))?;
        let tokenizer = Arc::new(tokenizer);
        let model = CandleModel::open(checkpoint, Arc::clone(&tokenizer), &config.generator);
        let model = model.map_err(|error| at(error.into()))?;
        let weights = model.weight_bytes().map_err(|error| at(error.into()))?;
        config.generator.clone_from(model.settings());
        notes.push(format!(
            "{place}: {family} is computed by candle-transformers, chain by chain on the CPU in float32 ({} of weights, a \
             context of {} tokens): much slower than the families of beamgen's own engine",
            human_size(weights),
            model.context()
        ));
        Ok(Self {
            fingerprint: source.fingerprint()?,
            model,
            tokenizer,
            place,
        })
    }

    pub(crate) fn prompts(&self) -> Result<Prompts, Error> {
        let tokenizer = Arc::clone(&self.tokenizer);
        let prompts = Prompts::new(tokenizer, self.model.context(), self.model.settings());
        prompts.map_err(|error| Error::from(error).at(self.place.clone()))
    }

    /// Reads the weights; `plan` is of the other models.
    pub(crate) fn load(
        self,
        plan: &MemoryPlan,
    ) -> Result<(Identity, Box<dyn Generator + Send>), Error> {
        let others = plan.models.iter();
        let others: u64 = others
            .map(|model| model.weights + model.buffers + model.kv)
            .sum();
        // Half of what they leave: candle copies a cache to make it longer.
        let memory = available().map_or(u64::MAX, |free| free.saturating_sub(others) / 2);
        let generator = self.model.load(memory);
        let generator = generator.map_err(|error| Error::from(error).at(self.place))?;
        let mut identity = Map::new();
        identity.insert("backend".into(), "candle-transformers 0.11".into());
        identity.insert("model".into(), self.fingerprint.into());
        Ok((Identity::Facts(identity), Box::new(generator)))
    }
}
