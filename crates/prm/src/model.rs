use std::sync::Arc;

use beamgen_engine::{
    Checkpoint, Engine, EngineConfig, Model, ModelConfig, ThreadPool, Tokenizer, WeightType,
    Weights,
};
use beamgen_search::{ScoreError, ScoreItem, Scorer, StepRef};

use crate::chains::Chains;
use crate::error::Error;
use crate::head::Head;
use crate::prompt::Renderer;
use crate::spec::PrmSpec;
use crate::steps::StepTokens;

/// A process reward model over the engine's forkable cache.
#[derive(Debug)]
pub struct RewardModel {
    pub(crate) engine: Engine,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) head: Head,
    pub(crate) steps: StepTokens,
    pub(crate) chains: Chains,
    renderer: Renderer,
}

impl RewardModel {
    /// Loads a checkpoint with `prm.json` beside the usual files, to run on the threads of `pool`.
    ///
    /// # Errors
    /// A file is missing, broken or does not fit the others.
    pub fn load(
        checkpoint: impl Into<Checkpoint>,
        config: EngineConfig,
        pool: ThreadPool,
        tokenizer: Arc<Tokenizer>,
        renderer: Renderer,
    ) -> Result<Self, Error> {
        let checkpoint = checkpoint.into();
        let spec = PrmSpec::load(checkpoint.clone())?;
        let weights = Weights::load(checkpoint.clone())?;
        let model =
            Model::from_weights(ModelConfig::load(checkpoint)?, &weights, WeightType::Auto)?;
        let head = Head::load(&spec, &weights, model.config().hidden_size)?;
        let engine = Engine::with_pool(Arc::new(model), config, pool)?;
        Self::new(engine, tokenizer, &spec, head, renderer)
    }

    /// A reward model from its parts.
    ///
    /// # Errors
    /// The tokenizer or the head does not fit the model, or the step token is not one token.
    pub fn new(
        engine: Engine,
        tokenizer: Arc<Tokenizer>,
        spec: &PrmSpec,
        head: Head,
        renderer: Renderer,
    ) -> Result<Self, Error> {
        tokenizer.check(engine.model().config())?;
        let expected = engine.model().config().hidden_size;
        if head.width() != expected {
            let found = head.width();
            return Err(Error::HeadWidth { expected, found });
        }
        let step_token = match tokenizer.encode(&spec.step_token, false)?[..] {
            [token] => token,
            ref tokens => {
                return Err(Error::StepToken {
                    token: spec.step_token.clone(),
                    count: tokens.len(),
                });
            }
        };
        Ok(Self {
            engine,
            tokenizer,
            head,
            steps: StepTokens {
                step_token,
                shared: false,
            },
            chains: Chains::default(),
            renderer,
        })
    }

    /// Whether the generator's tokens mean the same to this model (see [`same_tokenizer`]): then
    /// they are read as they are instead of being made from text again.
    pub fn share_tokens(&mut self, shared: bool) {
        self.steps.shared = shared;
    }

    /// The engine, for its memory and model.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Probabilities of all steps of a chain, read at once. Steps are texts with or without their
    /// boundary; empty ones are no steps and get no score.
    ///
    /// # Errors
    /// The chain is too long or the model failed.
    pub fn whole_chain(&mut self, problem: &str, steps: &[&str]) -> Result<Vec<f32>, ScoreError> {
        let chain = (problem, steps);
        let mut scores = self.whole_chains(&[chain])?;
        scores.pop().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// [`whole_chain`](Self::whole_chain) for many chains in as few passes as memory allows.
    ///
    /// # Errors
    /// The inner error concerns one chain alone, the outer one the model itself.
    pub fn whole_chains(
        &mut self,
        chains: &[(&str, &[&str])],
    ) -> Result<Vec<Result<Vec<f32>, ScoreError>>, ScoreError> {
        let mut results: Vec<Result<Vec<f32>, ScoreError>> = Vec::with_capacity(chains.len());
        let mut items = Vec::new();
        let mut places = Vec::new();
        for &(problem, steps) in chains {
            let steps: Vec<StepRef<'_>> = steps
                .iter()
                .filter(|text| !text.trim().is_empty())
                .map(|&text| StepRef {
                    text,
                    tokens: &[],
                    finish: None,
                })
                .collect();
            let result = self.open_text(problem).map(|id| {
                places.push(results.len());
                items.push(ScoreItem { id, steps });
                Vec::new()
            });
            results.push(result);
        }
        let scored = self.score(&items);
        for item in &items {
            self.release(item.id);
        }
        for (place, scored) in places.into_iter().zip(scored?) {
            results[place] = scored.map(|scored| scored.probabilities);
        }
        Ok(results)
    }

    pub(crate) fn open_text(
        &mut self,
        problem: &str,
    ) -> Result<beamgen_search::ScoreId, ScoreError> {
        let text = self.renderer.render(problem).map_err(ScoreError::Prompt)?;
        let tokens = self
            .tokenizer
            .encode(&text, !self.renderer.special_tokens)
            .map_err(|error| ScoreError::Prompt(error.to_string()))?;
        self.check_length(tokens.len())?;
        Ok(self.chains.open(tokens, &mut self.engine))
    }

    pub(crate) fn check_length(&self, tokens: usize) -> Result<(), ScoreError> {
        let context = self.engine.model().config().max_position_embeddings;
        if tokens > context {
            return Err(ScoreError::TooLong { tokens, context });
        }
        Ok(())
    }
}

/// Whether two checkpoints have the same `tokenizer.json`, byte for byte.
///
/// # Errors
/// A file cannot be read.
pub fn same_tokenizer(a: impl Into<Checkpoint>, b: impl Into<Checkpoint>) -> Result<bool, Error> {
    let file = "tokenizer.json";
    Ok(a.into().required_text(file)? == b.into().required_text(file)?)
}
