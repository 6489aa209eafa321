//! The engine's copy of the weights that are trained: what chains are sampled with.

use std::collections::BTreeMap;
use std::sync::Arc;

use beamgen_engine::{
    Engine, EngineConfig, Model, Tensor, ThreadPool, Tokenizer, WeightType, Weights,
};
use beamgen_generator::LmGenerator;
use beamgen_search::GeneratorConfig;

use crate::Result;
use crate::tune::{Decoder, export};

/// A generator whose weights follow a decoder's, in float32 as these are.
pub(super) struct Policy {
    parts: Parts,
    model: Arc<Model>,
    generator: LmGenerator,
}

/// Parts of a policy that stay the same when the weights change.
struct Parts {
    tokenizer: Arc<Tokenizer>,
    writing: GeneratorConfig,
    /// Tensors that are not trained, under their names in the checkpoint's family.
    untrained: BTreeMap<String, Tensor>,
    pool: ThreadPool,
}

impl Policy {
    /// A generator with the weights that `decoder` has now, and beside them those of its
    /// checkpoint.
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
        for (name, own) in export::of_decoder(decoder, weights, true) {
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

    /// Takes over the decoder's weights. Cached keys and values go with the old ones.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(super) fn follow(&mut self, decoder: &Decoder) -> Result<()> {
        (self.model, self.generator) = self.parts.generator(decoder)?;
        Ok(())
    }

    /// An engine of the weights of now, on the same threads.
    ///
    /// # Errors
    /// What the engine says.
    pub(super) fn engine(&self) -> Result<Engine> {
        self.parts.engine(&self.model)
    }

    /// What samples.
    pub(super) fn generator(&mut self) -> &mut LmGenerator {
        &mut self.generator
    }
}

impl Parts {
    /// A model with the weights of `decoder`, and a generator of it.
    fn generator(&self, decoder: &Decoder) -> Result<(Arc<Model>, LmGenerator)> {
        let mut tensors = self.untrained.clone();
        for (name, tensor) in decoder.tensors()? {
            let shape = tensor.dims().to_vec();
            let data = tensor.flatten_all()?.to_vec1()?;
            tensors.insert(name, Tensor { shape, data });
        }
        let weights = Weights::from_tensors(tensors)?;
        let config = decoder.config.clone();
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
