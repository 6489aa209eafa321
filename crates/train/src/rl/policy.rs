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
pub struct Policy {
    tokenizer: Arc<Tokenizer>,
    writing: GeneratorConfig,
    /// Tensors that are not trained, under their names in the checkpoint's family.
    untrained: BTreeMap<String, Tensor>,
    pool: ThreadPool,
    model: Arc<Model>,
    generator: LmGenerator,
}

impl Policy {
    /// A generator with the weights that `decoder` has now, and beside them those of its
    /// checkpoint.
    ///
    /// # Errors
    /// The engine or the generator refuses the checkpoint.
    pub fn new(
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
        let pool = ThreadPool::new(0);
        let model = Arc::new(pack(decoder, &untrained, &pool)?);
        let generator = generator(&model, &pool, &tokenizer, &writing)?;
        Ok(Self {
            tokenizer,
            writing,
            untrained,
            pool,
            model,
            generator,
        })
    }

    /// Takes over the decoder's weights. Cached keys and values go with the old ones.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn follow(&mut self, decoder: &Decoder) -> Result<()> {
        self.model = Arc::new(pack(decoder, &self.untrained, &self.pool)?);
        self.generator = generator(&self.model, &self.pool, &self.tokenizer, &self.writing)?;
        Ok(())
    }

    /// An engine of the weights of now, on the same threads.
    ///
    /// # Errors
    /// What the engine says.
    pub fn engine(&self) -> Result<Engine> {
        engine(&self.model, &self.pool)
    }

    /// What samples.
    pub fn generator(&mut self) -> &mut LmGenerator {
        &mut self.generator
    }
}

fn pack(
    decoder: &Decoder,
    untrained: &BTreeMap<String, Tensor>,
    pool: &ThreadPool,
) -> Result<Model> {
    let mut tensors = untrained.clone();
    for (name, tensor) in decoder.tensors()? {
        let shape = tensor.dims().to_vec();
        let data = tensor.flatten_all()?.to_vec1()?;
        tensors.insert(name, Tensor { shape, data });
    }
    let weights = Weights::from_tensors(tensors)?;
    let config = decoder.config.clone();
    Ok(Model::with_pool(config, &weights, WeightType::Auto, pool)?)
}

fn engine(model: &Arc<Model>, pool: &ThreadPool) -> Result<Engine> {
    let engine = Engine::with_pool(Arc::clone(model), EngineConfig::default(), pool.clone());
    Ok(engine?)
}

fn generator(
    model: &Arc<Model>,
    pool: &ThreadPool,
    tokenizer: &Arc<Tokenizer>,
    writing: &GeneratorConfig,
) -> Result<LmGenerator> {
    let engine = engine(model, pool)?;
    Ok(LmGenerator::new(
        engine,
        Arc::clone(tokenizer),
        writing.clone(),
    )?)
}
