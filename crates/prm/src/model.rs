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

/// The way from a chain's rows to scores.
#[derive(Debug)]
pub(crate) enum Readout {
    /// A head on the hidden state of each step, and its copy on the device that computes the hidden
    /// states, if there is one.
    Head(Head, Option<DeviceHead>),
    /// The ratio of two models' probabilities of each step's tokens.
    LogRatio { beta: f64 },
}

impl RewardModel {
    /// Builds a reward model from its parts. `head` is `None` for a log-ratio, which has a
    /// `reference`.
    ///
    /// # Errors
    /// [`Error::Unfit`] with the field of `spec` that does not fit the parts.
    pub fn new(
        engine: Engine,
        reference: Option<Engine>,
        tokenizer: Arc<Tokenizer>,
        spec: &PrmSpec,
        head: Option<Head>,
    ) -> Result<Self, Error> {
        // A spec made in code has not been checked by `from_toml`.
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
            // A reference that nothing reads would take memory; more likely the format is wrong.
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
                // Hidden states that are on a device are read there; copying them would cost more.
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

    /// Sets whether the generator has the same tokenizer as this model (see [`same_tokenizer`]). If
    /// so, formats that allow it (`step.share_tokens`) read the generator's tokens as they are
    /// instead of tokenising the text again. Other formats are not affected.
    pub fn share_tokens(&mut self, same_tokenizer: bool) {
        self.writer.share_tokens(same_tokenizer);
    }

    /// The most bytes of logits that a log-ratio over this vocabulary holds at once.
    #[must_use]
    pub fn logit_bytes(vocab: usize) -> usize {
        size_of::<f32>() * vocab * most_logits(vocab)
    }

    /// Lets this model use cache memory that a generator does not need, in addition to its own.
    /// Borrowed memory is returned on request
    /// ([`Scorer::evict_borrowed`](beamgen_search::Scorer::evict_borrowed)), by forgetting caches.
    ///
    /// Several models that borrow get the same number of pages each, if `page_bytes` is the sum of
    /// [`page_bytes`](Self::page_bytes) over all of them.
    pub fn borrow_beside(&mut self, idle: &Arc<IdleKv>, page_bytes: usize) {
        let Engines { body, reference } = &mut self.engines;
        for engine in std::iter::once(body).chain(reference) {
            // In proportion to the size of a page, so that both engines can hold the same
            // sequences.
            let share = (engine.kv().page_bytes, page_bytes);
            engine.borrow(Arc::clone(idle), share);
        }
    }

    /// Bytes of a page of the cache, a reference model's included.
    pub fn page_bytes(&self) -> usize {
        let bytes = self.engines.all().map(|engine| engine.kv().page_bytes);
        bytes.sum()
    }

    /// Calls `reader` with the reading of each step from now on; its results are in
    /// [`Scored::quantiles`](beamgen_search::Scored::quantiles). Returns `false`, and never calls
    /// `reader`, if no hidden state is read because the score is a log-ratio.
    pub fn read_quantiles(&mut self, reader: QuantileReader) -> bool {
        let reads = matches!(self.readout, Readout::Head(..));
        self.quantiles.0 = Some(reader).filter(|_| reads);
        reads
    }

    /// The engine of the reward model.
    pub fn engine(&self) -> &Engine {
        &self.engines.body
    }

    /// The engine of a log-ratio's reference model.
    pub fn reference(&self) -> Option<&Engine> {
        self.engines.reference.as_ref()
    }

    /// Scores all steps of a chain at once; returns a probability for each. Steps are texts with or
    /// without their boundary; empty texts do not count as steps and get no score.
    ///
    /// # Errors
    /// If the chain is too long or the model failed.
    pub fn whole_chain(&mut self, problem: &str, steps: &[&str]) -> Result<Vec<f32>, ScoreError> {
        let chain = (problem, steps);
        let mut scores = self.whole_chains(&[chain])?;
        scores.pop().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// [`whole_chain`](Self::whole_chain) for many chains in as few passes as memory allows.
    ///
    /// # Errors
    /// The inner error concerns only one chain, the outer one the model itself.
    pub fn whole_chains(
        &mut self,
        chains: &[(&str, &[&str])],
    ) -> Result<Vec<Result<Vec<f32>, ScoreError>>, ScoreError> {
        score_chains(self, chains)
    }

    /// Returns a chain as tokens, to compare with the code that a model was published with.
    ///
    /// # Errors
    /// If the problem or a step cannot be written.
    pub fn written(&self, problem: &str, steps: &[&str]) -> Result<Written, ScoreError> {
        self.writer.written(problem, steps)
    }

    /// The number of tokens at a chain's end that are not in its cache. A log-ratio holds the last
    /// token back: its row predicts the next step's first token and has to be computed with that
    /// step.
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
/// If a file is missing or cannot be read.
pub fn same_tokenizer(a: impl Into<Checkpoint>, b: impl Into<Checkpoint>) -> Result<bool, Error> {
    let file = "tokenizer.json";
    Ok(a.into().required_text(file)? == b.into().required_text(file)?)
}
