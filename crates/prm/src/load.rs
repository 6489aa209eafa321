//! Loads a reward model from its files.

use std::sync::Arc;

use beamgen_engine::{
    Checkpoint, DeviceChoice, Engine, EngineConfig, Model, ModelConfig, ThreadPool, Tokenizer,
    WeightType, Weights,
};

use crate::engines::Engines;
use crate::error::Error;
use crate::head::{Head, NO_LOGITS};
use crate::model::RewardModel;
use crate::segments::ChainWriter;
use crate::spec::PrmSpec;
use crate::writer::{Fault, fault};

/// A checkpoint, and its model if it is loaded already. If the same model is also the generator,
/// its weights are in memory only once.
#[derive(Debug, Clone)]
pub struct Body {
    /// The files: configuration, tokenizer and weights.
    pub checkpoint: Checkpoint,
    /// The model that was loaded from them.
    pub model: Option<Arc<Model>>,
}

impl Body {
    /// Returns the loaded model, or else loads it on `device`.
    fn model(
        &self,
        config: ModelConfig,
        weights: &Weights,
        device: DeviceChoice,
        pool: &ThreadPool,
    ) -> Result<Arc<Model>, Error> {
        match &self.model {
            Some(model) => Ok(Arc::clone(model)),
            None => Ok(Arc::new(Model::on(
                &device.open()?,
                config,
                weights,
                WeightType::Auto,
                pool,
            )?)),
        }
    }
}

impl<C: Into<Checkpoint>> From<C> for Body {
    fn from(checkpoint: C) -> Self {
        Self {
            checkpoint: checkpoint.into(),
            model: None,
        }
    }
}

/// A checkpoint whose files are open and whose weights are not loaded.
#[derive(Debug, Clone, Copy)]
pub struct UnloadedModel<'a> {
    /// The files: configuration, tokenizer and weights.
    pub checkpoint: &'a Checkpoint,
    /// The contents of its `config.json`.
    pub config: &'a ModelConfig,
    /// The tokenizer of the checkpoint, with which chains are written.
    pub tokenizer: &'a Arc<Tokenizer>,
    /// The tensors of the checkpoint by name, not read yet.
    pub weights: &'a Weights,
}

impl PrmSpec {
    /// Finds the faults that [`RewardModel::load`] would find, before the decoder's weights are
    /// read. It checks the fields of the spec, the tensors of the head, the tokens that the spec
    /// names, and whether a small chain can be written.
    ///
    /// # Errors
    /// The errors of [`RewardModel::load`].
    pub fn check_fit(
        &self,
        model: UnloadedModel<'_>,
        reference: Option<UnloadedModel<'_>>,
    ) -> Result<(), Error> {
        self.check()?;
        model.tokenizer.check(model.config)?;
        self.check_parts(model, reference)
            .map_err(|fault| fault.unfit(self, model.checkpoint.path()))
    }

    fn check_parts(
        &self,
        model: UnloadedModel<'_>,
        reference: Option<UnloadedModel<'_>>,
    ) -> Result<(), Fault> {
        let tokenizer = model.tokenizer;
        let outputs = Head::check(&self.head, model.config, model.weights, tokenizer)?;
        if let Some(outputs) = outputs {
            self.normaliser.check(outputs)?;
        } else {
            let mut both = [Some(model), reference].into_iter().flatten();
            if !both.all(|model| model.config.gives_logits(model.weights)) {
                return Err(fault("head.log-ratio", NO_LOGITS));
            }
        }
        if let Some(reference) = reference {
            same_tokens(tokenizer, reference.tokenizer)?;
            other_decoder(model.weights, reference.weights)?;
        }
        ChainWriter::fitted(self, Arc::clone(tokenizer)).map(drop)
    }
}

impl RewardModel {
    /// Loads a reward model to run on the threads of `pool`.
    ///
    /// Without a `spec`, the format is found by the checkpoint ([`PrmSpec::of`]). `reference` is
    /// the second model of a log-ratio. The two models share `config.kv_budget()`, and a token that
    /// both read counts once in [`Scored`](beamgen_search::Scored).
    ///
    /// # Errors
    /// A file is missing or broken, or the spec does not fit the checkpoint.
    pub fn load(
        body: impl Into<Body>,
        spec: Option<PrmSpec>,
        reference: Option<Body>,
        config: EngineConfig,
        pool: ThreadPool,
    ) -> Result<Self, Error> {
        let body = body.into();
        let (own, weights) = ModelConfig::load_with_weights(body.checkpoint.clone())?;
        let spec = match spec {
            Some(spec) => spec,
            None => PrmSpec::of(&body.checkpoint, &weights)?,
        };
        spec.check()?;
        let unfit = |fault: Fault| fault.unfit(&spec, body.checkpoint.path());
        let tokenizer = Arc::new(Tokenizer::load(body.checkpoint.clone())?);
        let model = body.model(own, &weights, config.device, &pool)?;
        tokenizer.check(model.config())?;
        let head = Head::load(&spec.head, &weights, &model, &tokenizer).map_err(unfit)?;
        let second = match &reference {
            Some(reference) => {
                let other = Tokenizer::load(reference.checkpoint.clone())?;
                same_tokens(&tokenizer, &other).map_err(unfit)?;
                let checkpoint = reference.checkpoint.clone();
                let (own, its) = ModelConfig::load_with_weights(checkpoint)?;
                other_decoder(&weights, &its).map_err(unfit)?;
                let model = reference.model(own, &its, config.device, &pool)?;
                other.check(model.config())?;
                Some(model)
            }
            None => None,
        };
        let cached = |model: &Model| model.kv_bytes(config.kv_dtype);
        let total = cached(&model) + second.as_deref().map_or(0, cached);
        let budget = config.kv_budget();
        let engine = |model: Arc<Model>| {
            // Both engines get the same number of pages, since they hold the same sequences. In
            // u128: the product of two sizes in bytes can exceed 64 bits.
            let share = cached(&model) as u128 * budget as u128 / total as u128;
            let config = EngineConfig {
                // At least 1, since 0 would mean the default budget.
                kv_bytes: usize::try_from(share).unwrap_or(budget).max(1),
                ..config.clone()
            };
            Engine::with_pool(model, config, pool.clone())
        };
        let engines = Engines {
            body: engine(model)?,
            reference: second.map(engine).transpose()?,
        };
        Self::assemble(engines, tokenizer, &spec, head).map_err(unfit)
    }
}

/// Refuses a reference model with the weights of the reward model: every log-ratio would be 0.
fn other_decoder(own: &Weights, reference: &Weights) -> Result<(), Fault> {
    if !own.same_decoder(reference) {
        return Ok(());
    }
    let reason = "the reference model is the reward model itself, so every score would be the same: name \
        the model that the reward model was trained from";
    Err(fault("head.log-ratio", reason))
}

/// Refuses a reference model with another tokenizer: both models read the same token ids.
fn same_tokens(own: &Tokenizer, other: &Tokenizer) -> Result<(), Fault> {
    // Up to the larger vocabulary: an id that only one of the tokenizers has is a difference, too.
    let ids = 0..u32::try_from(own.len().max(other.len())).unwrap_or(u32::MAX);
    match ids.into_iter().find(|&id| own.token(id) != other.token(id)) {
        Some(id) => {
            let [own, other] =
                [own, other].map(|tokenizer| tokenizer.token(id).unwrap_or_default());
            let reason = format!(
                "the reference model has another tokenizer: token {id} is {own:?} and {other:?}"
            );
            Err(fault("head.log-ratio", reason))
        }
        None => Ok(()),
    }
}
