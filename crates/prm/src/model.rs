use std::path::Path;
use std::sync::Arc;

use beamgen_engine::{Checkpoint, DeviceHead, Engine, IdleKv, Tokenizer};
use beamgen_search::{ScoreError, score_chains};

use crate::chains::Chains;
use crate::engines::{Engines, most_logits};
use crate::error::Error;
use crate::head::{Head, NO_LOGITS};
use crate::quantiles::{QuantileReader, Quantiles};
use crate::segments::ChainWriter;
use crate::spec::{HeadSpec, Normaliser, PrmSpec};
use crate::writer::{Fault, fault};
use crate::written::Written;

/// A process reward model over the engine's forkable cache.
#[derive(Debug)]
pub struct RewardModel {
    pub(crate) engines: Engines,
    pub(crate) writer: ChainWriter,
    pub(crate) readout: Readout,
    pub(crate) normaliser: Normaliser,
    pub(crate) chains: Chains,
    pub(crate) quantiles: Quantiles,
}

/// What is read of a chain.
#[derive(Debug)]
pub(crate) enum Readout {
    /// A hidden state for each step, and the head once more where these are, if that is a device.
    Head(Head, Option<DeviceHead>),
    /// The log-probabilities of each step's tokens.
    LogRatio { beta: f64 },
}

impl RewardModel {
    /// A reward model from its parts. `head` is `None` for a log-ratio, which has a `reference`.
    ///
    /// # Errors
    /// What does not fit: [`Error::Unfit`] with the field of `spec`.
    pub fn new(
        engine: Engine,
        reference: Option<Engine>,
        tokenizer: Arc<Tokenizer>,
        spec: &PrmSpec,
        head: Option<Head>,
    ) -> Result<Self, Error> {
        spec.check()?;
        tokenizer.check(engine.model().config())?;
        let engines = Engines {
            body: engine,
            reference,
        };
        Self::assemble(engines, tokenizer, spec, head)
            .map_err(|fault| fault.unfit(spec, Path::new("the model")))
    }

    pub(crate) fn assemble(
        engines: Engines,
        tokenizer: Arc<Tokenizer>,
        spec: &PrmSpec,
        head: Option<Head>,
    ) -> Result<Self, Fault> {
        let readout = match (&spec.head, head) {
            (HeadSpec::LogRatio(ratio), None) => {
                let Some(reference) = &engines.reference else {
                    let reason = "needs the reference model that the reward model was trained \
                        against, and none was given";
                    return Err(fault("head.log-ratio", reason));
                };
                for engine in [&engines.body, reference] {
                    if !engine.model().has_head() {
                        return Err(fault("head.log-ratio", NO_LOGITS));
                    }
                }
                Readout::LogRatio { beta: ratio.beta }
            }
            (HeadSpec::LogRatio(_), Some(_)) => {
                return Err(fault("head.log-ratio", "reads no head"));
            }
            (_, None) => return Err(fault("head", "was not given")),
            (_, Some(_)) if engines.reference.is_some() => {
                let reason = "uses no reference model, but one was given";
                return Err(fault("head", reason));
            }
            (_, Some(head)) => {
                let width = engines.body.model().config().hidden_size;
                if head.inputs() != width {
                    let reason = format!(
                        "has {} weights a row, the model's hidden states {width} values",
                        head.inputs()
                    );
                    return Err(fault("head", reason));
                }
                spec.normaliser.check(head.outputs())?;
                let on_device = engines.body.place_head(&head.layers());
                let on_device = on_device.map_err(|error| fault("head", error.to_string()))?;
                Readout::Head(head, on_device)
            }
        };
        Ok(Self {
            engines,
            writer: ChainWriter::fitted(spec, tokenizer)?,
            readout,
            normaliser: spec.normaliser,
            chains: Chains::default(),
            quantiles: Quantiles::default(),
        })
    }

    /// Whether the generator's tokens mean the same to this model (see [`same_tokenizer`]): then
    /// formats that allow it (`step.share_tokens`) read them as they are instead of tokenising the
    /// text again. For all others this changes nothing.
    pub fn share_tokens(&mut self, same_tokenizer: bool) {
        self.writer.share_tokens(same_tokenizer);
    }

    /// Most bytes of logits that a log-ratio over this vocabulary is read from at a time.
    #[must_use]
    pub fn logit_bytes(vocab: usize) -> usize {
        size_of::<f32>() * vocab * most_logits(vocab)
    }

    /// Lets this model use the cache memory that a generator has no use for, beside its own. What
    /// it borrowed it gives back when asked to
    /// ([`Scorer::evict_borrowed`](beamgen_search::Scorer::evict_borrowed)), by forgetting caches.
    ///
    /// Several models that borrow get as many pages each, if `page_bytes` is the sum of
    /// [`page_bytes`](Self::page_bytes) over all of them.
    pub fn borrow_beside(&mut self, idle: &Arc<IdleKv>, page_bytes: usize) {
        let Engines { body, reference } = &mut self.engines;
        for engine in std::iter::once(body).chain(reference) {
            let share = (engine.kv().page_bytes, page_bytes);
            engine.borrow(Arc::clone(idle), share);
        }
    }

    /// Bytes of a page of the cache, a reference model's included.
    pub fn page_bytes(&self) -> usize {
        let bytes = |engine: &Engine| engine.kv().page_bytes;
        bytes(&self.engines.body) + self.engines.reference.as_ref().map_or(0, bytes)
    }

    /// Has `reader` called with the reading of each step; what it gives is in
    /// [`Scored::quantiles`](beamgen_search::Scored::quantiles). Returns `false`, and calls nobody,
    /// if no hidden state is read: the score is a log-ratio.
    pub fn read_quantiles(&mut self, reader: QuantileReader) -> bool {
        let reads = matches!(self.readout, Readout::Head(..));
        self.quantiles.0 = Some(reader).filter(|_| reads);
        reads
    }

    /// The engine, for its memory and model.
    pub fn engine(&self) -> &Engine {
        &self.engines.body
    }

    /// The reference model's engine.
    pub fn reference(&self) -> Option<&Engine> {
        self.engines.reference.as_ref()
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
        score_chains(self, chains)
    }

    /// A chain as tokens, to be held against the code that a model was published with.
    ///
    /// # Errors
    /// The problem or a step cannot be written.
    pub fn written(&self, problem: &str, steps: &[&str]) -> Result<Written, ScoreError> {
        self.writer.written(problem, steps)
    }

    /// Tokens at a chain's end that are not read yet. What predicts a step's first token is read
    /// with the step, so that its row is at hand however the chain was cached.
    pub(crate) fn held(&self) -> usize {
        usize::from(matches!(self.readout, Readout::LogRatio { .. }))
    }

    pub(crate) fn check_length(&self, tokens: usize) -> Result<(), ScoreError> {
        let context = self.engines.context();
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
