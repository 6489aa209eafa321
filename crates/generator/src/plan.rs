//! Plans: the settings of problems, with open settings filled in from the checkpoint.

use std::collections::VecDeque;
use std::sync::Arc;

use beamgen_engine::{SamplingParams, Tokenizer};
use beamgen_search::{GenError, GeneratorConfig, Problem, SamplingSettings};

use crate::cut::Cuts;
use crate::error::Error;
use crate::prompts::Prompts;
use crate::stops::Stops;
use crate::structured::{Constraint, Vocabulary};
use crate::thinking::{PARAGRAPH, ThinkingPlan};

/// The most plans that are kept; others are made again when their settings come back.
const MOST_PLANS: usize = 16;

/// The plans of a generator, one for all problems with the same settings.
#[derive(Debug)]
pub struct Plans {
    /// The tokenizer of the model.
    pub tokenizer: Arc<Tokenizer>,
    /// The most tokens of prompt and chain together.
    pub context: usize,
    /// The settings that the generator was made with.
    pub defaults: Arc<WritingPlan>,
    /// Plans of other settings that problems had lately, the newest last.
    recent: VecDeque<Arc<WritingPlan>>,
    /// The tokens in the form that grammars need; `None` before the first grammar.
    vocabulary: Option<Vocabulary>,
}

impl Plans {
    /// Makes the plans of a generator with this tokenizer, whose model has a context of `context`
    /// tokens.
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

    /// Returns the settings in effect; invalid settings are returned unchanged.
    pub fn resolve(&self, config: &GeneratorConfig) -> GeneratorConfig {
        let plan = WritingPlan::new(config, &self.tokenizer, self.context);
        plan.map_or_else(|_| config.clone(), |plan| plan.config)
    }

    /// Refuses a problem that has no valid prompt under the generator's own settings.
    ///
    /// # Errors
    /// The errors of [`Prompts::prompt`].
    pub fn check(&self, problem: &Problem) -> Result<(), GenError> {
        self.defaults.prompts.prompt(problem).map(drop)
    }

    /// Returns the plan for these settings, the same for all problems that have them.
    ///
    /// # Errors
    /// The errors of [`WritingPlan::new`].
    pub fn get(&mut self, config: &GeneratorConfig) -> Result<Arc<WritingPlan>, Error> {
        // A search may pass the settings as they were given or as they were resolved: both are
        // known.
        if self.defaults.given == *config || self.defaults.config == *config {
            return Ok(Arc::clone(&self.defaults));
        }
        // A new plan compiles a chat template, so plans of other settings are kept, too.
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
    /// The settings as they were given, some of them open.
    pub given: GeneratorConfig,
    /// The settings in effect: open settings have the checkpoint's values.
    pub config: GeneratorConfig,
    /// The sampling parameters in the engine's type.
    pub sampling: SamplingParams,
    /// The marks that end steps.
    pub cuts: Cuts,
    /// The texts at which a chain stops, and whether they are part of its text.
    pub stops: Stops,
    /// The tags, limits and steps of thoughts.
    pub thinking: Arc<ThinkingPlan>,
    /// The marks that end steps of thoughts by paragraphs.
    pub(crate) paragraphs: Cuts,
    /// No marks.
    pub(crate) no_cuts: Cuts,
    /// The writer of prompts under these settings.
    pub prompts: Prompts,
    /// The numbers to add to logits, by token id.
    pub(crate) bias: Vec<(u32, f32)>,
    /// The state of the grammar before any text; `None` without a grammar.
    pub(crate) grammar: Option<Constraint>,
}

impl WritingPlan {
    /// Fills in open settings from a checkpoint whose model has a context of `context` tokens.
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
        config.thinking = prompts.thinking_config().clone();
        // Settings of the user take precedence over those of the checkpoint.
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
            thinking: Arc::clone(prompts.thinking()),
            paragraphs: Cuts {
                boundaries: vec![PARAGRAPH.into()],
                starts: Vec::new(),
            },
            no_cuts: Cuts {
                boundaries: Vec::new(),
                starts: Vec::new(),
            },
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

/// Converts settings to the engine's type. The engine does not depend on `search`, nor `search` on
/// the engine, so each has its own type.
fn from_search(settings: SamplingSettings) -> beamgen_engine::SamplingSettings {
    beamgen_engine::SamplingSettings {
        temperature: settings.temperature,
        top_k: settings.top_k,
        top_p: settings.top_p,
        min_p: settings.min_p,
        repetition_penalty: settings.repetition_penalty,
    }
}

/// Converts settings to the engine's parameters. Open settings leave the model's distribution
/// unchanged.
pub fn sampling_params(settings: SamplingSettings) -> SamplingParams {
    from_search(settings).params()
}

/// Converts the engine's parameters to settings, none of which is open.
pub fn sampling_settings(params: SamplingParams) -> SamplingSettings {
    SamplingSettings {
        temperature: Some(params.temperature),
        top_k: Some(params.top_k),
        top_p: Some(params.top_p),
        min_p: Some(params.min_p),
        repetition_penalty: Some(params.repetition_penalty),
    }
}
