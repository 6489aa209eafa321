//! The first stage of loading a decoder: its files are checked before its weights are read.

use std::sync::Arc;

use beamgen_engine::{Checkpoint, Sampler, Tokenizer, Weights};
use beamgen_generator::{ChainBook, Plans};
use beamgen_search::GeneratorConfig;

use crate::CandleGenerator;
use crate::config::Config;
use crate::error::Error;
use crate::fields::check_tokens;
use crate::weights::LazyWeights;

/// A decoder whose files were checked; no weight was read yet.
#[derive(Debug)]
pub struct CandleModel {
    name: String,
    config: Config,
    weights: LazyWeights,
    plans: Plans,
}

impl CandleModel {
    /// Reads and checks the files of a checkpoint, except the values of the weights.
    ///
    /// # Errors
    /// [`Error`] if the family is unknown, if `config.json` asks for something that candle does not
    /// implement, if a file is broken, or if a setting is invalid for this model.
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

    /// Returns the most tokens of prompt and chain together.
    pub fn context(&self) -> usize {
        self.config.context
    }

    /// Bytes of all weights in float32.
    ///
    /// # Errors
    /// An error of reading a tensor's shape; [`open`](Self::open) finds such errors first.
    pub fn weight_bytes(&self) -> Result<u64, Error> {
        Ok(self.weights.bytes()?)
    }

    /// Returns the settings of the generator in effect: open settings have the checkpoint's values.
    pub fn settings(&self) -> &GeneratorConfig {
        &self.plans.defaults.config
    }

    /// Reads the weights and returns the generator. Weights and the caches of all chains together
    /// take at most `memory` bytes in float32.
    ///
    /// # Errors
    /// [`Error`] if the weights do not fit the configuration, or need more than `memory`.
    pub fn load(self, memory: u64) -> Result<CandleGenerator, Error> {
        // Checked before the weights are read: a model that is too large must not fill the memory
        // first.
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
