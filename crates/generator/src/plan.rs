//! How a problem's chains are written: its settings, resolved against the checkpoint.

use std::sync::Arc;

use beamgen_engine::{ModelConfig, SamplingParams, Tokenizer};
use beamgen_search::{GeneratorConfig, SamplingSettings};

use crate::cut::Cuts;
use crate::error::Error;
use crate::prompts::Prompts;
use crate::step::StopRules;

/// Settings as they act. All chains of a problem share them.
#[derive(Debug)]
pub(crate) struct WritingPlan {
    /// As they were given.
    pub given: GeneratorConfig,
    /// What was left open is as the checkpoint says.
    pub config: GeneratorConfig,
    pub sampling: SamplingParams,
    pub rules: StopRules,
    pub prompts: Prompts,
}

impl WritingPlan {
    /// # Errors
    /// A setting is out of range, the tokenizer does not fit the model or names no end-of-text
    /// token, or the chat template does not compile.
    pub fn new(
        given: &GeneratorConfig,
        tokenizer: &Arc<Tokenizer>,
        model: &ModelConfig,
    ) -> Result<Self, Error> {
        given.validate()?;
        let prompts = Prompts::new(Arc::clone(tokenizer), model, given)?;
        let mut config = given.clone();
        config.date = prompts.date();
        let sampling = from_search(config.sampling).or(tokenizer.generation().sampling);
        let sampling = sampling.params();
        config.sampling = sampling_settings(sampling);
        let bytes = |marks: &[String]| marks.iter().map(|m| m.clone().into_bytes()).collect();
        let rules = StopRules {
            cuts: Cuts {
                boundaries: bytes(&config.boundaries),
                starts: bytes(&config.starts),
            },
            answer_markers: config.answer_markers.clone(),
            max_step_tokens: config.max_step_tokens,
            step_tokens: config.step_tokens,
        };
        Ok(Self {
            given: given.clone(),
            config,
            sampling,
            rules,
            prompts,
        })
    }
}

/// What a checkpoint says of sampling has its own type in the engine, which knows nothing of
/// searches; `search` knows nothing of engines.
fn from_search(settings: SamplingSettings) -> beamgen_engine::SamplingSettings {
    beamgen_engine::SamplingSettings {
        temperature: settings.temperature,
        top_k: settings.top_k,
        top_p: settings.top_p,
        min_p: settings.min_p,
        repetition_penalty: settings.repetition_penalty,
    }
}

/// Settings in the engine's form; where they say nothing, the model's own distribution.
pub fn sampling_params(settings: SamplingSettings) -> SamplingParams {
    from_search(settings).params()
}

/// The engine's parameters as settings that leave nothing open.
pub fn sampling_settings(params: SamplingParams) -> SamplingSettings {
    SamplingSettings {
        temperature: Some(params.temperature),
        top_k: Some(params.top_k),
        top_p: Some(params.top_p),
        min_p: Some(params.min_p),
        repetition_penalty: Some(params.repetition_penalty),
    }
}
