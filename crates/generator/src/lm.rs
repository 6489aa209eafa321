//! The generator: its chains and sampling. [`room`] has their memory, [`calls`] implements the trait
//! `Generator`.

use std::collections::BTreeMap;
use std::sync::Arc;

use beamgen_engine::{
    Append, Engine, IdleKv, Logits, SampleRow, Sampled, Sampler, SeqId, Tokenizer,
};
use beamgen_search::{Cause, ChainId, GenError, GeneratorConfig, Problem, StepOutput};

use crate::book::{ChainBook, State};
use crate::branch_point::{BranchId, BranchPoints};
use crate::error::Error;
use crate::plan::Plans;

mod calls;
mod room;

/// Samples steps from a language model, with the engine's cache shared between forked chains.
#[derive(Debug)]
pub struct LmGenerator {
    engine: Engine,
    tokenizer: Arc<Tokenizer>,
    book: ChainBook<Cache>,
    sampler: Sampler,
    /// Chains that sample their next token now, each with its row in the logits.
    sampling: Vec<(ChainId, usize)>,
    /// The tokens that were sampled for `sampling`, in the same order.
    sampled: Vec<Sampled>,
    /// A row of logits and its likeliest tokens. Both are kept to use their memory again.
    row: Vec<f32>,
    likeliest: Vec<(u32, f32)>,
    /// The rows of a forward pass and their items. Empty between passes, but kept to use their
    /// memory again.
    rows: Vec<Row>,
    items: Vec<Append<'static>>,
    branches: BranchPoints,
    /// Pages that are reserved for active chains and not in use yet.
    reserved: usize,
    /// The number of times that a chain ended its step, or was released: then memory may be free.
    freed: u64,
    /// Whether a running chain waits for memory.
    waits: bool,
}

type Chain = crate::book::Chain<Cache>;

/// The tokens of a chain, and where their keys and values are.
#[derive(Debug, Clone)]
struct Cache {
    /// The tokens of the prompt and all tokens since.
    history: Vec<u32>,
    place: Place,
    /// The number of tokens of `history` that the chain has memory for, reserved or in use.
    granted: usize,
    /// The value of [`LmGenerator::freed`] when the chain's memory was taken away; `None` if the
    /// chain has it.
    evicted: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// At a branch point, shared with other chains that continue from there. A chain is there
    /// between steps, and until its next step has sampled its first token from the branch point's
    /// logits.
    Branch(BranchId),
    /// In a sequence of its own. The last tokens are not read yet: usually the newest one.
    Own(SeqId),
}

/// A row of a forward pass.
#[derive(Debug)]
enum Row {
    BranchPoint(BranchId),
    Chain(ChainId),
}

impl LmGenerator {
    /// Makes a generator; `config` has the settings of problems that bring none of their own.
    ///
    /// # Errors
    /// A setting is out of range, the model gives no logits, the tokenizer does not fit the model
    /// or names no end-of-text token, or the chat template does not compile.
    pub fn new(
        engine: Engine,
        tokenizer: Arc<Tokenizer>,
        config: GeneratorConfig,
    ) -> Result<Self, Error> {
        if !engine.model().has_head() {
            return Err(Error::NoHead);
        }
        let model = engine.model().config();
        tokenizer.check(model)?;
        let context = model.max_position_embeddings;
        Ok(Self {
            book: ChainBook::new(Plans::new(&config, Arc::clone(&tokenizer), context)?),
            engine,
            tokenizer,
            sampler: Sampler::new(),
            sampling: Vec::new(),
            sampled: Vec::new(),
            row: Vec::new(),
            likeliest: Vec::new(),
            rows: Vec::new(),
            items: Vec::new(),
            branches: BranchPoints::default(),
            reserved: 0,
            freed: 0,
            waits: false,
        })
    }

    /// Returns the settings of [`new`](Self::new) in effect: open settings have the checkpoint's
    /// values.
    pub fn config(&self) -> &GeneratorConfig {
        &self.book.plans().defaults.config
    }

    /// Returns a line for each setting in the checkpoint's `generation_config.json` that has no
    /// effect.
    pub fn notes(&self) -> &[String] {
        &self.tokenizer.generation().notes
    }

    /// Returns the engine, which holds the model and the cache.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Lets a scorer use the cache memory that is neither in use nor reserved. The generator can
    /// take it back at any time.
    pub fn lend(&mut self, idle: Arc<IdleKv>) {
        self.engine.lend(idle);
    }

    /// Limits the memory for logits that are kept where chains may branch again; 64 MiB by default.
    /// Logits beyond the limit are computed again when they are needed, with the same results.
    pub fn limit_kept_logits(&mut self, bytes: usize) {
        self.branches.limit = bytes;
    }

    /// Returns the number of tokens that the model has read so far. A prompt is read once, and a
    /// sampled token once if its chain continues. If a cache was forgotten, its tokens are read
    /// again; if logits were forgotten, the last token before them is. Full pages of tokens that
    /// another chain or problem began with are not read again.
    pub fn tokens_read(&self) -> u64 {
        self.engine.computed().tokens
    }

    /// Returns the tokenizer with which prompts are written and steps read.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Returns the prompt of a problem as tokens, with the given steps.
    ///
    /// # Errors
    /// The template refuses the problem, or the prompt leaves no room in the context.
    pub fn prompt(&self, problem: impl Into<Problem>) -> Result<Vec<u32>, GenError> {
        let prompt = self.book.plans().defaults.prompts.prompt(&problem.into())?;
        Ok(prompt.tokens)
    }

    /// Samples the next token of each chain in `sampling`, in one call.
    fn sample(&mut self, logits: &Logits) -> Result<(), GenError> {
        let (book, sampling) = (&self.book, &self.sampling);
        // A model may have more logits than the tokenizer has tokens; ids beyond are not sampled.
        let tokens = self.tokenizer.len();
        let (count, sampler) = (sampling.len(), &mut self.sampler);
        let outcome = self.engine.sample(
            logits,
            tokens,
            sampler,
            count,
            |i| {
                let (id, row) = sampling[i];
                choice(book.chain(id), row)
            },
            &mut self.sampled,
        );
        outcome.map_err(|error| {
            let model = self.tokenizer.checkpoint().display();
            GenError::Lost(format!("{model}: {error}").into())
        })
    }

    /// Samples like [`sample`](Self::sample), but all chains use the same kept row of logits.
    fn sample_kept(&mut self, logits: &[f32]) {
        let (book, sampling) = (&self.book, &self.sampling);
        let logits = &logits[..self.tokenizer.len()];
        self.sampler.sample_batch(
            self.engine.pool(),
            sampling.len(),
            |i| {
                let (id, row) = sampling[i];
                choice(book.chain(id), row).of(logits)
            },
            &mut self.sampled,
        );
    }

    /// Stores log-probabilities of the sampled tokens, for chains whose settings ask for them.
    fn keep_logprobs(&mut self, logits: &Logits) -> Result<(), GenError> {
        let mut copied = None;
        for i in 0..self.sampling.len() {
            let (id, row) = self.sampling[i];
            if self.book.chain(id).plan.config.logprobs.is_none() {
                continue;
            }
            // A row may be in a device's memory; it is copied only for chains that need it.
            if copied != Some(row) {
                self.engine
                    .copy_logits(logits, row, &mut self.row)
                    .map_err(failed)?;
                copied = Some(row);
            }
            let row = std::mem::take(&mut self.row);
            self.keep_logprobs_of(i, &row);
            self.row = row;
        }
        Ok(())
    }

    /// Stores log-probabilities of token `i` of `sampled`, which was sampled from `row`.
    fn keep_logprobs_of(&mut self, i: usize, row: &[f32]) {
        let ((id, _), sampled) = (self.sampling[i], self.sampled[i]);
        let Some(count) = self.book.chain(id).plan.config.logprobs else {
            return;
        };
        let row = &row[..self.tokenizer.len()];
        self.sampler.top_log_probs(row, count, &mut self.likeliest);
        self.book.keep_logprobs(id, sampled, &self.likeliest);
    }

    /// Appends the sampled token to chain `i` of `sampling`. Returns the step if the token closed
    /// or paused it.
    fn advance(&mut self, i: usize) -> Option<StepOutput> {
        let ((id, _), sampled) = (self.sampling[i], self.sampled[i]);
        let (cache, added) = self.book.push(id, sampled);
        // The token that closes a step is in the history, too, but this chain does not read it: its
        // children do.
        cache.history.extend(added.tokens(sampled));
        let seq = match cache.place {
            Place::Branch(branch) => self.branches.detach(branch, &mut self.engine),
            Place::Own(seq) => seq,
        };
        cache.place = match &added.step {
            Some(step) if !step.paused => {
                self.freed += 1;
                let unread = cache.history[self.engine.len(seq)..].to_vec();
                Place::Branch(self.branches.insert(seq, unread))
            }
            _ => Place::Own(seq),
        };
        added.step
    }

    /// Returns the started chains that have not sampled a token yet, by their branch point.
    fn waiting(&self) -> BTreeMap<BranchId, Vec<ChainId>> {
        // A map with an order, so that the rows of a pass do not depend on hashing.
        let mut waiting: BTreeMap<BranchId, Vec<ChainId>> = BTreeMap::new();
        for &id in self.book.active() {
            let chain = self.book.chain(id);
            if let (State::Running(_), Place::Branch(branch)) = (&chain.state, chain.cache.place) {
                waiting.entry(branch).or_default().push(id);
            }
        }
        waiting
    }
}

/// Returns what the sampler needs for a chain's next token, whose logits are in row `row`.
fn choice(chain: &Chain, row: usize) -> SampleRow<'_> {
    let (params, draw) = chain.sampling();
    SampleRow {
        row,
        // A penalty of 1 changes nothing, so the sampler need not look at the history.
        history: if params.repetition_penalty == 1.0 {
            &[]
        } else {
            &chain.cache.history
        },
        params,
        edits: chain.edits(),
        draw,
    }
}

fn failed(error: beamgen_engine::Error) -> GenError {
    GenError::Lost(Cause::new(error))
}
