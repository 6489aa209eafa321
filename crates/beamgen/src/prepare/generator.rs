//! The generator that the settings name.

use std::sync::Arc;

use beamgen_engine::Checkpoint;
use beamgen_generator::Prompts;

use super::Inputs;
use crate::candle::{self, CandleGenerator};
use crate::source::OpenedModel;
use crate::{Config, Error, bundled};

/// A generator that was found and checked. All fields are `None` if the caller's own generator is
/// used.
#[derive(Default)]
pub(super) struct FoundGenerator {
    /// A model of this process's engine.
    pub(super) opened: Option<OpenedModel>,
    /// A model of candle.
    pub(super) candle: Option<CandleGenerator>,
    pub(super) prompts: Option<Prompts>,
    /// The files with the generator's tokenizer, against which tokenizers of reward models are
    /// compared.
    pub(super) tokens_of: Option<Checkpoint>,
}

/// Finds the generator on servers, among the builder's own parts, or as a checkpoint.
pub(super) fn find_generator(inputs: &mut Inputs) -> Result<FoundGenerator, Error> {
    let Inputs {
        config,
        own,
        finder,
        served,
    } = inputs;
    if let Some((prompts, checkpoint)) = served.generator(config, own, finder)? {
        return Ok(FoundGenerator {
            prompts: Some(prompts),
            tokens_of: Some(checkpoint),
            ..FoundGenerator::default()
        });
    }
    if own.generator.is_some() {
        return Ok(FoundGenerator::default());
    }
    let models = &config.models;
    let (name, tokenizer) = (models.generator.as_deref(), models.tokenizer.as_deref());
    let source = finder.find(name, tokenizer, bundled::GENERATOR)?;
    let checkpoint = source.checkpoint();
    let Some(family) = candle::family(&checkpoint, &candle::GENERATORS) else {
        let opened = OpenedModel::open(&source)?;
        return Ok(FoundGenerator {
            prompts: Some(prompts_of(&opened, config)?),
            tokens_of: Some(checkpoint),
            opened: Some(opened),
            candle: None,
        });
    };
    let candle = CandleGenerator::open(&source, &checkpoint, family, config, &mut finder.notes)?;
    Ok(FoundGenerator {
        prompts: Some(candle.prompts()?),
        tokens_of: Some(checkpoint),
        opened: None,
        candle: Some(candle),
    })
}

/// Returns the generator's prompts. Fails if the model lacks a head for the vocabulary, or if its
/// template cannot be used.
fn prompts_of(generator: &OpenedModel, config: &Config) -> Result<Prompts, Error> {
    let write = || {
        if !generator.config.gives_logits(&generator.weights) {
            return Err(beamgen_generator::Error::NoHead);
        }
        let tokenizer = Arc::clone(&generator.tokenizer);
        let context = generator.config.max_position_embeddings;
        Prompts::new(tokenizer, context, &config.generator)
    };
    write().map_err(|error| generator.blame(error))
}
