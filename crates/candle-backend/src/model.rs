//! A checkpoint whose files fit each other, before a weight is read.

use std::sync::Arc;

use beamgen_engine::{Checkpoint, Sampler, Tokenizer, Weights};
use beamgen_generator::{ChainBook, Plans};
use beamgen_search::GeneratorConfig;

use crate::CandleGenerator;
use crate::config::Config;
use crate::error::Error;
use crate::fields::check_tokens;
use crate::weights::LazyWeights;

/// A model that can be loaded.
#[derive(Debug)]
pub struct CandleModel {
    name: String,
    config: Config,
    weights: LazyWeights,
    plans: Plans,
}

impl CandleModel {
    /// Looks at a checkpoint's files.
    ///
    /// # Errors
    /// The family is not known, `config.json` asks for something that `candle-transformers` does
    /// not do, a file is broken, or a setting cannot be followed.
    pub fn open(
        checkpoint: &Checkpoint,
        tokenizer: Arc<Tokenizer>,
        settings: &GeneratorConfig,
    ) -> Result<Self, Error> {
        let config = Config::load(checkpoint)?;
        check_tokens(checkpoint, config.vocab_size, &tokenizer)?;
        Ok(Self {
            name: checkpoint.path().display().to_string(),
            weights: LazyWeights::new(Weights::load(checkpoint.clone())?),
            plans: Plans::new(settings, tokenizer, config.context)?,
            config,
        })
    }

    /// Tokens of a prompt and what follows it.
    pub fn context(&self) -> usize {
        self.config.context
    }

    /// Bytes of all weights in float32.
    ///
    /// # Errors
    /// None that [`open`](Self::open) did not find.
    pub fn weight_bytes(&self) -> Result<u64, Error> {
        Ok(self.weights.bytes()?)
    }

    /// The settings, as they act.
    pub fn settings(&self) -> &GeneratorConfig {
        &self.plans.defaults.config
    }

    /// Reads the weights. In float32, with the caches of all chains, they take at most `memory`
    /// bytes.
    ///
    /// # Errors
    /// The weights do not fit the configuration or the memory.
    pub fn load(self, memory: u64) -> Result<CandleGenerator, Error> {
        let left = self.weights.fit(&self.name, memory)?;
        let model = self.config.decoder(&self.name, self.weights)?;
        let bytes_per_token = self.config.bytes_per_token;
        Ok(CandleGenerator {
            model,
            name: self.name,
            book: ChainBook::new(self.plans),
            sampler: Sampler::new(),
            bytes_per_token,
            capacity_tokens: usize::try_from(left / bytes_per_token.max(1)).unwrap_or(usize::MAX),
        })
    }
}
