//! How a problem's chains are written: its settings, resolved against the checkpoint.

use std::collections::VecDeque;
use std::sync::Arc;

use beamgen_engine::{SamplingParams, Tokenizer};
use beamgen_search::{GenError, GeneratorConfig, Problem, SamplingSettings};

use crate::cut::Cuts;
use crate::error::Error;
use crate::prompts::Prompts;

/// Settings that are kept resolved; of more than these, some are resolved again.
const MOST_PLANS: usize = 16;

/// The settings that a generator's problems come with, each resolved once.
#[derive(Debug)]
pub struct Plans {
    /// The tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// Tokens that the model holds.
    pub context: usize,
    /// The settings that the generator was made with.
    pub defaults: Arc<WritingPlan>,
    /// Other settings that problems came with lately, the newest last.
    recent: VecDeque<Arc<WritingPlan>>,
}

impl Plans {
    /// Plans of a generator with this tokenizer, whose model holds `context` tokens.
    ///
    /// # Errors
    /// As [`WritingPlan::new`].
    pub fn new(
        defaults: &GeneratorConfig,
        tokenizer: Arc<Tokenizer>,
        context: usize,
    ) -> Result<Self, Error> {
        Ok(Self {
            defaults: Arc::new(WritingPlan::new(defaults, &tokenizer, context)?),
            tokenizer,
            context,
            recent: VecDeque::new(),
        })
    }

    /// Returns other settings as they act, or as they are if they cannot be followed.
    pub fn resolve(&self, config: &GeneratorConfig) -> GeneratorConfig {
        let plan = WritingPlan::new(config, &self.tokenizer, self.context);
        plan.map_or_else(|_| config.clone(), |plan| plan.config)
    }

    /// Whether a problem has a prompt by the generator's own settings.
    ///
    /// # Errors
    /// The errors of [`Prompts::prompt`].
    pub fn check(&self, problem: &Problem) -> Result<(), GenError> {
        self.defaults.prompts.prompt(problem).map(drop)
    }

    /// How problems with these settings are written; made once for all of them.
    ///
    /// # Errors
    /// As [`WritingPlan::new`].
    pub fn get(&mut self, config: &GeneratorConfig) -> Result<Arc<WritingPlan>, Error> {
        if self.defaults.given == *config || self.defaults.config == *config {
            return Ok(Arc::clone(&self.defaults));
        }
        let known = self.recent.iter().find(|plan| plan.given == *config);
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        let plan = Arc::new(WritingPlan::new(config, &self.tokenizer, self.context)?);
        if self.recent.len() == MOST_PLANS {
            self.recent.pop_front();
        }
        self.recent.push_back(Arc::clone(&plan));
        Ok(plan)
    }
}

/// Settings as they act. All chains of a problem share them.
#[derive(Debug)]
pub struct WritingPlan {
    /// As they were given.
    pub given: GeneratorConfig,
    /// What was left open is as the checkpoint says.
    pub config: GeneratorConfig,
    /// How tokens are sampled.
    pub sampling: SamplingParams,
    /// Where the text of a step ends.
    pub cuts: Cuts,
    /// How a problem becomes a prompt.
    pub prompts: Prompts,
}

impl WritingPlan {
    /// Settings resolved against a checkpoint whose model holds `context` tokens.
    ///
    /// # Errors
    /// A setting is out of range, the tokenizer names no end-of-text token, or the chat template
    /// does not compile.
    pub fn new(
        given: &GeneratorConfig,
        tokenizer: &Arc<Tokenizer>,
        context: usize,
    ) -> Result<Self, Error> {
        given.validate()?;
        let prompts = Prompts::new(Arc::clone(tokenizer), context, given)?;
        let mut config = given.clone();
        config.date = prompts.date();
        let sampling = from_search(config.sampling).or(tokenizer.generation().sampling);
        let sampling = sampling.params();
        config.sampling = sampling_settings(sampling);
        let cuts = Cuts::of(&config);
        Ok(Self {
            given: given.clone(),
            config,
            sampling,
            cuts,
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
