//! The policy: the engine's copy of the trained weights, with which chains are sampled.

use std::collections::BTreeMap;
use std::sync::Arc;

use beamgen_engine::{
    Engine, EngineConfig, Model, Tensor, ThreadPool, Tokenizer, WeightType, Weights,
};
use beamgen_generator::LmGenerator;
use beamgen_search::GeneratorConfig;

use crate::Result;
use crate::tune::{Decoder, export};

/// A generator whose weights follow a decoder's, in float32 like the decoder.
pub(super) struct Policy {
    parts: Parts,
    model: Arc<Model>,
    generator: LmGenerator,
}

/// The parts of a policy that stay the same when the weights change.
struct Parts {
    tokenizer: Arc<Tokenizer>,
    writing: GeneratorConfig,
    /// The tensors that are not trained, under their names in the model family.
    untrained: BTreeMap<String, Tensor>,
    pool: ThreadPool,
}

impl Policy {
    /// Makes a generator of the weights that `decoder` has now, and of the checkpoint's weights
    /// that are not trained.
    ///
    /// # Errors
    /// The engine or the generator refuses the checkpoint.
    pub(super) fn new(
        decoder: &Decoder,
        weights: &Weights,
        tokenizer: Arc<Tokenizer>,
        writing: GeneratorConfig,
    ) -> Result<Self> {
        let trained = decoder.tensors()?;
        let mut untrained = BTreeMap::new();
        for (name, own) in export::decoder_tensors(decoder, weights, true) {
            if !trained.contains_key(&name) {
                untrained.insert(name, weights.tensor(own)?);
            }
        }
        let parts = Parts {
            tokenizer,
            writing,
            untrained,
            pool: ThreadPool::new(0),
        };
        let (model, generator) = parts.generator(decoder)?;
        Ok(Self {
            parts,
            model,
            generator,
        })
    }

    /// Replaces the weights by the decoder's. Cached keys and values are dropped: they belong to
    /// the old weights.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub(super) fn follow(&mut self, decoder: &Decoder) -> Result<()> {
        (self.model, self.generator) = self.parts.generator(decoder)?;
        Ok(())
    }

    /// Makes another engine of the current weights, on the same threads. Later calls of
    /// [`follow`](Self::follow) do not change it.
    ///
    /// # Errors
    /// The engine refuses the model.
    pub(super) fn engine(&self) -> Result<Engine> {
        self.parts.engine(&self.model)
    }

    /// The generator that samples chains.
    pub(super) fn generator(&mut self) -> &mut LmGenerator {
        &mut self.generator
    }
}

impl Parts {
    /// Builds a model with the weights of `decoder`, and a generator on top.
    fn generator(&self, decoder: &Decoder) -> Result<(Arc<Model>, LmGenerator)> {
        let mut tensors = self.untrained.clone();
        for (name, tensor) in decoder.tensors()? {
            let shape = tensor.dims().to_vec();
            let data = tensor.flatten_all()?.to_vec1()?;
            tensors.insert(name, Tensor { shape, data });
        }
        let weights = Weights::from_tensors(tensors)?;
        let config = decoder.config.clone();
        // All models share a pool: starting threads for each update would cost time.
        let model = Model::with_pool(config, &weights, WeightType::Auto, &self.pool)?;
        let model = Arc::new(model);
        let (tokenizer, writing) = (Arc::clone(&self.tokenizer), self.writing.clone());
        let generator = LmGenerator::new(self.engine(&model)?, tokenizer, writing)?;
        Ok((model, generator))
    }

    fn engine(&self, model: &Arc<Model>) -> Result<Engine> {
        let (model, pool) = (Arc::clone(model), self.pool.clone());
        Ok(Engine::with_pool(model, EngineConfig::default(), pool)?)
    }
}
