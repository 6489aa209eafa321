//! The policy in the inference engine: a copy of the trained weights, which samples chains.

use std::collections::BTreeMap;
use std::sync::Arc;

use beamgen_engine::{
    Engine, EngineConfig, Model, Tensor, ThreadPool, Tokenizer, WeightType, Weights,
};
use beamgen_generator::LmGenerator;
use beamgen_search::GeneratorConfig;

use crate::Result;
use crate::tune::{Decoder, export};

/// A generator whose weights are float32 copies of a decoder's.
pub(super) struct Policy {
    parts: Parts,
    model: Arc<Model>,
    generator: LmGenerator,
}

/// The parts that every model of the policy uses, whatever its trained weights.
struct Parts {
    tokenizer: Arc<Tokenizer>,
    writing: GeneratorConfig,
    /// The tensors of the checkpoint that the decoder does not train, by their names in the model family.
    untrained: BTreeMap<String, Tensor>,
    pool: ThreadPool,
}

impl Policy {
    /// Makes a generator with the current weights of `decoder`, and with the checkpoint's weights for all that
    /// `decoder` does not train.
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

    /// Copies the current weights of `decoder` into a new model. The caches of keys and values are dropped, since old
    /// weights computed them.
    ///
    /// # Errors
    /// The engine or the generator refuses the model.
    pub(super) fn follow(&mut self, decoder: &Decoder) -> Result<()> {
        (self.model, self.generator) = self.parts.generator(decoder)?;
        Ok(())
    }

    /// Makes an engine with the current weights and the same threads. A later [`follow`](Self::follow) does not
    /// change its weights.
    ///
    /// # Errors
    /// The engine refuses the model.
    pub(super) fn engine(&self) -> Result<Engine> {
        self.parts.engine(&self.model)
    }

    pub(super) fn generator(&mut self) -> &mut LmGenerator {
        &mut self.generator
    }
}

impl Parts {
    /// Builds a model with the current weights of `decoder`, and a generator that samples from it.
    fn generator(&self, decoder: &Decoder) -> Result<(Arc<Model>, LmGenerator)> {
        let mut tensors = self.untrained.clone();
        for (name, tensor) in decoder.tensors()? {
            let shape = tensor.dims().to_vec();
            let data = tensor.flatten_all()?.to_vec1()?;
            tensors.insert(name, Tensor { shape, data });
        }
        let weights = Weights::from_tensors(tensors)?;
        let config = decoder.config.clone();
        // All models share one pool, because each update builds a model and starting threads takes time.
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
