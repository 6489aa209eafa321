//! Adapts the models of the crate `candle-backend` to the parts of a solver.

use std::sync::Arc;

use beamgen_candle_backend::{CandleClassifier as Classifier, CandleModel};
use beamgen_engine::{Checkpoint, DeviceChoice, Tokenizer};
use beamgen_generator::Prompts;
use beamgen_search::{Generator, Scorer};
use serde_json::{Map, Value};

use crate::config::ScorerKind;
use crate::memory::{MemoryPlan, available};
use crate::own::Identity;
use crate::size::human_size;
use crate::source::Source;
use crate::{Config, Error};

/// A checked generator whose weights are not read yet.
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
        let place = place_on_cpu(checkpoint, config)?;
        let at = |error: Error| error.at(place.clone());
        let tokenizer = Tokenizer::load(checkpoint.clone()).map_err(|error| at(error.into()))?;
        let tokenizer = Arc::new(tokenizer);
        let model = CandleModel::open(checkpoint, Arc::clone(&tokenizer), &config.generator);
        let model = model.map_err(|error| at(error.into()))?;
        let weights = model.weight_bytes().map_err(|error| at(error.into()))?;
        // The checkpoint completes these settings, and `Solver::config` returns the effective ones.
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

    /// Reads the weights. `plan` says how much memory the other models take.
    pub(crate) fn load(
        self,
        plan: &MemoryPlan,
    ) -> Result<(Identity, Box<dyn Generator + Send>), Error> {
        let memory = memory_beside(plan);
        let generator = self.model.load(memory);
        let generator = generator.map_err(|error| Error::from(error).at(self.place))?;
        let identity = Identity::Facts(computed_by_candle(self.fingerprint));
        Ok((identity, Box::new(generator)))
    }
}

/// A checked reward model whose weights are not read yet.
pub(crate) struct CandleClassifier {
    model: Classifier,
    kind: ScorerKind,
    place: String,
    fingerprint: String,
}

impl CandleClassifier {
    pub(crate) fn open(
        source: &Source,
        checkpoint: &Checkpoint,
        family: &str,
        config: &Config,
        notes: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let place = place_on_cpu(checkpoint, config)?;
        let models = &config.models;
        if models.prm_format.as_deref().is_some_and(|f| f != "auto")
            || models.prm_reference.is_some()
        {
            return Err(Error::ClassifierFormat { place });
        }
        let at = |error: beamgen_candle_backend::Error| Error::from(error).at(place.clone());
        let model = Classifier::open(checkpoint).map_err(at)?;
        let weights = model.weight_bytes().map_err(at)?;
        let read = if model.entails() {
            "the problem's context with the steps before, and the step (it abstains without context)"
        } else {
            "the problem and the steps so far"
        };
        notes.push(format!(
            "{place}: {family} is computed by candle-transformers, chain by chain on the CPU in float32 ({} of weights, a \
             context of {} tokens); a score is the probability of its label {:?} for {read}, which \
             are read anew for each step: much slower than a reward model of beamgen's own engine",
            human_size(weights),
            model.context(),
            model.label()
        ));
        Ok(Self {
            fingerprint: source.fingerprint()?,
            kind: models.scorer,
            model,
            place,
        })
    }

    /// Reads the weights. `plan` says how much memory the other models take.
    pub(crate) fn load(
        self,
        plan: &MemoryPlan,
    ) -> Result<(Identity, Box<dyn Scorer + Send>), Error> {
        let identity = self.identity();
        let scorer = self.model.load(memory_beside(plan));
        let scorer = scorer.map_err(|error| Error::from(error).at(self.place))?;
        Ok((Identity::Facts(identity), Box::new(scorer)))
    }

    /// Returns the facts that identify the model in run files.
    pub(crate) fn identity(&self) -> Map<String, Value> {
        let mut identity = Map::new();
        identity.insert("scorer".into(), self.kind.name().into());
        let model = computed_by_candle(self.fingerprint.clone());
        identity.insert("prm".into(), model.into());
        identity
    }
}

/// Returns the path of the checkpoint, for messages. Fails if the settings ask for a device other
/// than the CPU, because candle's models run on the CPU only.
fn place_on_cpu(checkpoint: &Checkpoint, config: &Config) -> Result<String, Error> {
    let place = checkpoint.path().display().to_string();
    match config.engine.device {
        DeviceChoice::Cuda(_) => Err(Error::CandleOnCpu { place }),
        _ => Ok(place),
    }
}

/// Returns half of the memory that the plan leaves free. Candle copies a cache to make it longer,
/// so for a moment both copies exist.
fn memory_beside(plan: &MemoryPlan) -> u64 {
    let others = plan.models.iter();
    let others: u64 = others
        .map(|model| model.weights + model.buffers + model.kv)
        .sum();
    available().map_or(u64::MAX, |free| free.saturating_sub(others) / 2)
}

fn computed_by_candle(fingerprint: String) -> Map<String, Value> {
    let mut identity = Map::new();
    identity.insert("backend".into(), "candle-transformers 0.11".into());
    identity.insert("model".into(), fingerprint.into());
    identity
}
