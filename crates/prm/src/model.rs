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

/// The computation of a step's score from the rows of its chain.
#[derive(Debug)]
pub(crate) enum Readout {
    /// A head on the hidden state of each step. The second is a copy of the head on the device that
    /// computes the hidden states, if there is such a device.
    Head(Head, Option<DeviceHead>),
    /// The log-ratio of a step's tokens in two models, times `beta`.
    LogRatio { beta: f64 },
}

impl RewardModel {
    /// Makes a reward model from its parts. For a log-ratio `head` is `None` and `reference` is
    /// needed.
    ///
    /// # Errors
    /// [`Error::Unfit`] with the first field of `spec` that does not fit the parts.
    pub fn new(
        engine: Engine,
        reference: Option<Engine>,
        tokenizer: Arc<Tokenizer>,
        spec: &PrmSpec,
        head: Option<Head>,
    ) -> Result<Self, Error> {
        // Only specs that were read by `from_toml` are checked already.
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
            // A reference model that is never read would take memory; probably the format is wrong.
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
                // Hidden states on a device are read by a head there: copying them to the host
                // would cost more.
                let on_device = engines.body.place_head(&head.layers());
                let on_device = on_device.map_err(|error| fault("head", error.to_string()))?;
                Readout::Head(head, on_device)
            }
        };
        Ok(Self {
            engines,
            writer: ChainWriter::fitted(spec, tokenizer)?,
            readout,
            normaliser: spec.normaliser.clone(),
            chains: Chains::default(),
            quantiles: Quantiles::default(),
        })
    }

    /// Sets whether the generator has the same tokenizer as this model (see [`same_tokenizer`]). If
    /// so, formats with `step.share_tokens` read the generator's tokens instead of tokenising the
    /// text again. Other formats are not affected.
    pub fn share_tokens(&mut self, same_tokenizer: bool) {
        self.writer.share_tokens(same_tokenizer);
    }

    /// Returns the most bytes of logits that a log-ratio over this vocabulary has in memory at
    /// once.
    #[must_use]
    pub fn logit_bytes(vocab: usize) -> usize {
        size_of::<f32>() * vocab * most_logits(vocab)
    }

    /// Lets this model use cache memory that a generator does not need, in addition to its own.
    /// [`Scorer::evict_borrowed`](beamgen_search::Scorer::evict_borrowed) returns borrowed memory
    /// by forgetting caches.
    ///
    /// If several models borrow, `page_bytes` has to be the sum of [`page_bytes`](Self::page_bytes)
    /// over all of them; then each gets the same number of pages.
    pub fn borrow_beside(&mut self, idle: &Arc<IdleKv>, page_bytes: usize) {
        let Engines { body, reference } = &mut self.engines;
        for engine in std::iter::once(body).chain(reference) {
            // In proportion to the size of an engine's pages, so that both engines can hold the
            // same sequences.
            let share = (engine.kv().page_bytes, page_bytes);
            engine.borrow(Arc::clone(idle), share);
        }
    }

    /// Bytes of a page of the cache, a reference model's included.
    pub fn page_bytes(&self) -> usize {
        let bytes = self.engines.all().map(|engine| engine.kv().page_bytes);
        bytes.sum()
    }

    /// Calls `reader` for each step that is scored from now on, and puts its results into
    /// [`Scored::quantiles`](beamgen_search::Scored::quantiles). Returns `false`, and never calls
    /// `reader`, if the score is a log-ratio or is read after a question: then no hidden state of a
    /// step is read.
    pub fn read_quantiles(&mut self, reader: QuantileReader) -> bool {
        let reads = matches!(self.readout, Readout::Head(..)) && self.writer.question().is_empty();
        self.quantiles.0 = Some(reader).filter(|_| reads);
        reads
    }

    /// Returns the engine of the reward model, which holds its model and cache.
    pub fn engine(&self) -> &Engine {
        &self.engines.body
    }

    /// Returns the engine of the reference model; `None` unless the score is a log-ratio.
    pub fn reference(&self) -> Option<&Engine> {
        self.engines.reference.as_ref()
    }

    /// Scores all steps of a chain at once and returns a probability for each. A step may lack its
    /// boundary. Blank texts are no steps and get no score.
    ///
    /// # Errors
    /// The chain is too long, or the model failed.
    pub fn whole_chain(&mut self, problem: &str, steps: &[&str]) -> Result<Vec<f32>, ScoreError> {
        let chain = (problem, steps);
        let mut scores = self.whole_chains(&[chain])?;
        scores.pop().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Scores many chains like [`whole_chain`](Self::whole_chain), in as few passes as memory
    /// allows.
    ///
    /// # Errors
    /// An inner error concerns a single chain, the outer one all chains.
    pub fn whole_chains(
        &mut self,
        chains: &[(&str, &[&str])],
    ) -> Result<Vec<Result<Vec<f32>, ScoreError>>, ScoreError> {
        score_chains(self, chains)
    }

    /// Returns a chain as tokens, for a comparison with the code that published the model.
    ///
    /// # Errors
    /// The problem or a step cannot be written.
    pub fn written(&self, problem: &str, steps: &[&str]) -> Result<Written, ScoreError> {
        self.writer.written(problem, steps)
    }

    /// Returns the number of tokens at the end of a chain that are not read into its cache. A
    /// log-ratio keeps back one token: its row predicts the first token of the next step, so it is
    /// read with that step.
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
/// A file is missing or cannot be read.
pub fn same_tokenizer(a: impl Into<Checkpoint>, b: impl Into<Checkpoint>) -> Result<bool, Error> {
    let file = "tokenizer.json";
    Ok(a.into().required_text(file)? == b.into().required_text(file)?)
}
