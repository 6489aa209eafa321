//! Generators of families that only `candle-transformers` knows, with the feature `candle`.

use beamgen_engine::Checkpoint;
use beamgen_generator::Prompts;

use crate::own::OwnParts;
use crate::source::Source;
use crate::{Config, Error};

/// Their `model_type`s.
const FAMILIES: [&str; 15] = [
    "deepseek_v2",
    "gemma",
    "gemma2",
    "gemma3_text",
    "glm4",
    "helium",
    "mixtral",
    "olmo",
    "olmo2",
    "phi",
    "qwen2_moe",
    "qwen3_moe",
    "smollm3",
    "stablelm",
    "starcoder2",
];

/// Puts a generator of such a family in the place of the builder's own. Returns its prompts, and
/// where its tokenizer is; `None` if the model is of another family.
pub(crate) fn generator(
    source: &Source,
    config: &mut Config,
    own: &mut OwnParts,
    notes: &mut Vec<String>,
) -> Result<Option<(Prompts, Checkpoint)>, Error> {
    let checkpoint = source.checkpoint();
    // What is wrong with the file is said by whoever reads it whole.
    let text = checkpoint.text("config.json").ok().flatten();
    let json = text.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    let model_type = json.as_ref().and_then(|json| json["model_type"].as_str());
    match model_type.filter(|name| FAMILIES.contains(name)) {
        None => Ok(None),
        Some(family) => load(source, checkpoint, family, config, own, notes).map(Some),
    }
}

#[cfg(feature = "candle")]
fn load(
    source: &Source,
    checkpoint: Checkpoint,
    family: &str,
    config: &mut Config,
    own: &mut OwnParts,
    notes: &mut Vec<String>,
) -> Result<(Prompts, Checkpoint), Error> {
    use std::sync::Arc;

    use beamgen_candle_backend::CandleGenerator;
    use beamgen_engine::{DeviceChoice, Tokenizer};
    use serde_json::Map;

    let place = checkpoint.path().display().to_string();
    if let DeviceChoice::Cuda(_) = config.engine.device {
        return Err(Error::CandleOnCpu { place });
    }
    let tokenizer = Tokenizer::load(checkpoint.clone());
    let tokenizer = Arc::new(tokenizer.map_err(|error| Error::from(error).at(place.clone()))?);
    // The rest is for a reward model.
    let memory = crate::memory::available().map_or(u64::MAX, |free| free / 2);
    let settings = &config.generator;
    let generator = CandleGenerator::load(&checkpoint, Arc::clone(&tokenizer), settings, memory);
    let generator = generator.map_err(|error| Error::from(error).at(place.clone()))?;
    let prompts = Prompts::new(tokenizer, generator.context(), settings)?;
    config.generator = generator.config().clone();
    notes.push(format!(
        "{place}: {family} is computed by candle-transformers, chain by chain on the CPU in float32: much slower than the \
         families of beamgen's own engine"
    ));
    let mut identity = Map::new();
    identity.insert("backend".into(), "candle-transformers 0.11".into());
    identity.insert("model".into(), source.fingerprint()?.into());
    own.generator = Some((crate::own::Identity::Facts(identity), Box::new(generator)));
    Ok((prompts, checkpoint))
}

#[cfg(not(feature = "candle"))]
fn load(
    _: &Source,
    checkpoint: Checkpoint,
    family: &str,
    _: &mut Config,
    _: &mut OwnParts,
    _: &mut Vec<String>,
) -> Result<(Prompts, Checkpoint), Error> {
    Err(Error::NoCandle {
        place: checkpoint.path().display().to_string(),
        family: family.to_owned(),
    })
}

#[cfg(all(test, feature = "candle"))]
mod tests {
    use beamgen_engine::ModelConfig;

    use super::FAMILIES;

    #[test]
    fn these_are_the_families_of_candle_that_the_engine_does_not_have() {
        let mut names = beamgen_candle_backend::names();
        names.retain(|name| !ModelConfig::is_family(name));
        names.sort_unstable();
        assert_eq!(names, FAMILIES);
    }
}
