//! Plans: settings of a problem's chains, resolved against the checkpoint.

use std::collections::VecDeque;
use std::sync::Arc;

use beamgen_engine::{SamplingParams, Tokenizer};
use beamgen_search::{GenError, GeneratorConfig, Problem, SamplingSettings};

use crate::cut::Cuts;
use crate::error::Error;
use crate::prompts::Prompts;
use crate::stops::Stops;
use crate::structured::{Constraint, Vocabulary};

/// The most settings that are kept resolved; others are resolved again when they come back.
const MOST_PLANS: usize = 16;

/// The settings of a generator's problems, each resolved once.
#[derive(Debug)]
pub struct Plans {
    /// The tokenizer of prompts and steps.
    pub tokenizer: Arc<Tokenizer>,
    /// The most tokens that the model holds.
    pub context: usize,
    /// The settings that the generator was made with.
    pub defaults: Arc<WritingPlan>,
    /// Other settings that problems had lately, the newest last.
    recent: VecDeque<Arc<WritingPlan>>,
    /// The tokens in the form in which grammars need them; `None` before the first grammar.
    vocabulary: Option<Vocabulary>,
}

impl Plans {
    /// Creates the plans of a generator with this tokenizer, whose model holds `context` tokens.
    ///
    /// # Errors
    /// The errors of [`WritingPlan::new`].
    pub fn new(
        defaults: &GeneratorConfig,
        tokenizer: Arc<Tokenizer>,
        context: usize,
    ) -> Result<Self, Error> {
        let mut vocabulary = None;
        let mut plan = WritingPlan::new(defaults, &tokenizer, context)?;
        plan.compile_grammar(&mut vocabulary, &tokenizer)?;
        Ok(Self {
            defaults: Arc::new(plan),
            tokenizer,
            context,
            recent: VecDeque::new(),
            vocabulary,
        })
    }

    /// Returns settings as they act; settings that cannot be followed are returned unchanged.
    pub fn resolve(&self, config: &GeneratorConfig) -> GeneratorConfig {
        let plan = WritingPlan::new(config, &self.tokenizer, self.context);
        plan.map_or_else(|_| config.clone(), |plan| plan.config)
    }

    /// Refuses a problem that has no prompt with the generator's own settings.
    ///
    /// # Errors
    /// The errors of [`Prompts::prompt`].
    pub fn check(&self, problem: &Problem) -> Result<(), GenError> {
        self.defaults.prompts.prompt(problem).map(drop)
    }

    /// Returns the plan of problems with these settings, made once for all of them.
    ///
    /// # Errors
    /// The errors of [`WritingPlan::new`].
    pub fn get(&mut self, config: &GeneratorConfig) -> Result<Arc<WritingPlan>, Error> {
        // Either form: a search may pass the settings as given or as resolved.
        if self.defaults.given == *config || self.defaults.config == *config {
            return Ok(Arc::clone(&self.defaults));
        }
        // Resolving means compiling a chat template, which few problems should pay for.
        let known = self.recent.iter().find(|plan| plan.given == *config);
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        let mut plan = WritingPlan::new(config, &self.tokenizer, self.context)?;
        plan.compile_grammar(&mut self.vocabulary, &self.tokenizer)?;
        let plan = Arc::new(plan);
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
    /// The settings as they were given.
    pub given: GeneratorConfig,
    /// The settings as they act: those left open come from the checkpoint.
    pub config: GeneratorConfig,
    /// The parameters with which tokens are sampled.
    pub sampling: SamplingParams,
    /// The marks that end the text of a step.
    pub cuts: Cuts,
    /// The texts at which a chain stops.
    pub stops: Stops,
    /// The writer of prompts.
    pub prompts: Prompts,
    /// Numbers that are added to the logits of tokens.
    pub(crate) bias: Vec<(u32, f32)>,
    /// The beginning of a text in the grammar of the settings.
    pub(crate) grammar: Option<Constraint>,
}

impl WritingPlan {
    /// Resolves settings against a checkpoint whose model holds `context` tokens.
    ///
    /// # Errors
    /// If a setting is out of range, the tokenizer names no end-of-text token, or the chat template
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
        // Settings given by the user come first, then the checkpoint's own.
        let sampling = from_search(config.sampling).or(tokenizer.generation().sampling);
        let sampling = sampling.params();
        config.sampling = sampling_settings(sampling);
        let cuts = Cuts::of(&config);
        let tokens = tokenizer.len();
        if let Some((&token, _)) = config.logit_bias.range(tokens as u32..).next() {
            return Err(Error::NoSuchToken { token, tokens });
        }
        let stops = Stops::of(&config);
        Ok(Self {
            bias: config
                .logit_bias
                .iter()
                .map(|(&id, &bias)| (id, bias))
                .collect(),
            grammar: None,
            given: given.clone(),
            config,
            sampling,
            cuts,
            stops,
            prompts,
        })
    }

    fn compile_grammar(
        &mut self,
        vocabulary: &mut Option<Vocabulary>,
        tokenizer: &Tokenizer,
    ) -> Result<(), Error> {
        let Some(grammar) = &self.config.grammar else {
            return Ok(());
        };
        let vocabulary = match vocabulary {
            Some(vocabulary) => vocabulary,
            None => vocabulary.insert(Vocabulary::new(tokenizer)?),
        };
        self.grammar = Some(vocabulary.compile(grammar)?);
        Ok(())
    }
}

/// Converts to the engine's type. There are two types because the engine knows nothing of searches,
/// and `search` nothing of engines.
fn from_search(settings: SamplingSettings) -> beamgen_engine::SamplingSettings {
    beamgen_engine::SamplingSettings {
        temperature: settings.temperature,
        top_k: settings.top_k,
        top_p: settings.top_p,
        min_p: settings.min_p,
        repetition_penalty: settings.repetition_penalty,
    }
}

/// Converts settings to the engine's parameters; a setting left open is that of the model's own
/// distribution.
pub fn sampling_params(settings: SamplingSettings) -> SamplingParams {
    from_search(settings).params()
}

/// Converts the engine's parameters to settings that leave nothing open.
pub fn sampling_settings(params: SamplingParams) -> SamplingSettings {
    SamplingSettings {
        temperature: Some(params.temperature),
        top_k: Some(params.top_k),
        top_p: Some(params.top_p),
        min_p: Some(params.min_p),
        repetition_penalty: Some(params.repetition_penalty),
    }
}
