//! The generator: its chains, the memory they may take, and sampling. [`calls`] has the calls of a
//! search.

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

/// Samples steps from a language model over the engine's forkable cache.
#[derive(Debug)]
pub struct LmGenerator {
    engine: Engine,
    tokenizer: Arc<Tokenizer>,
    book: ChainBook<Cache>,
    sampler: Sampler,
    /// Chains that sample their next token from the logits at hand, each with its row.
    sampling: Vec<(ChainId, usize)>,
    /// The tokens sampled for `sampling`, in the same order.
    sampled: Vec<Sampled>,
    /// A row of logits and its likeliest tokens, kept for their memory.
    row: Vec<f32>,
    likeliest: Vec<(u32, f32)>,
    /// Rows of a forward pass and their items: empty between passes, kept for their memory.
    rows: Vec<Row>,
    items: Vec<Append<'static>>,
    branches: BranchPoints,
    /// Pages reserved for active chains and not in use yet.
    reserved: usize,
    tokens_read: u64,
}

type Chain = crate::book::Chain<Cache>;

/// The tokens of a chain, and where their keys and values are.
#[derive(Debug, Clone)]
struct Cache {
    /// Tokens of the prompt and all sampled tokens.
    history: Vec<u32>,
    place: Place,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// With the other chains that continue from the same branch point. Between steps, and until a
    /// step has sampled its first token from the branch point's logits.
    Branch(BranchId),
    /// In a sequence of its own; the last token of the step is the next to be read.
    Own(SeqId),
}

/// A row of a forward pass.
#[derive(Debug)]
enum Row {
    BranchPoint(BranchId),
    Chain(ChainId),
}

impl LmGenerator {
    /// Creates a generator over `engine`'s model.
    ///
    /// # Errors
    /// If a setting is out of range, the model gives no logits, the tokenizer does not fit it or
    /// names no end-of-text token, or the chat template does not compile.
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
            tokens_read: 0,
        })
    }

    /// The settings of [`new`](Self::new) as they act: settings left open come from the checkpoint.
    pub fn config(&self) -> &GeneratorConfig {
        &self.book.plans().defaults.config
    }

    /// One line for each setting of the checkpoint's `generation_config.json` that is not followed.
    pub fn notes(&self) -> &[String] {
        &self.tokenizer.generation().notes
    }

    /// The engine that holds the model and the cache.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Lets a scorer use the cache memory that is neither in use nor reserved. The generator can
    /// take all of it back.
    pub fn lend(&mut self, idle: Arc<IdleKv>) {
        self.engine.lend(idle);
    }

    /// Limits the memory for rows of logits that are kept where chains may branch again: 64 MiB by
    /// default. Rows beyond the limit are computed again, with the same results.
    pub fn limit_kept_logits(&mut self, bytes: usize) {
        self.branches.limit = bytes;
    }

    /// The number of tokens read by the model so far. A prompt is read once, and a sampled token
    /// once if its chain continues. Tokens whose cache was forgotten are read again, and so is the
    /// last token before a branch if its logits were forgotten.
    pub fn tokens_read(&self) -> u64 {
        self.tokens_read
    }

    /// The tokenizer of prompts and steps.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Returns the prompt of a problem in tokens.
    ///
    /// # Errors
    /// If the template refuses the problem, or the prompt leaves no room in the context.
    pub fn prompt(&self, problem: impl Into<Problem>) -> Result<Vec<u32>, GenError> {
        let prompt = self.book.plans().defaults.prompts.prompt(&problem.into())?;
        Ok(prompt.tokens)
    }

    /// The most tokens of its next step that a chain has to read: all but the one that closes the
    /// step.
    fn longest_read(chain: &Chain) -> usize {
        let longest = chain.plan.config.longest_step();
        longest.min(chain.room()).max(1) - 1
    }

    /// The most pages that the rest of a step may still take.
    fn pages_for_rest(&self, chain: &Chain, seq: SeqId) -> usize {
        let longest = chain.plan.config.longest_step();
        let step_left = longest.saturating_sub(chain.unfinished());
        // The newest token is not read yet, and the last one never is: as many reads as tokens
        // left.
        self.engine.pages_needed(seq, step_left.min(chain.room()))
    }

    /// Pages to reserve for the next step of a chain at `branch`.
    fn pages_for_step(&self, chain: &Chain, branch: BranchId) -> usize {
        let branch = self.branches.get(branch);
        let unread = branch.unread.len();
        let shared = self.engine.pages_needed(branch.seq, unread);
        // Only the first chain that starts here pays for reading the branch point.
        let reading = if branch.reserved { 0 } else { shared };
        let all = unread + Self::longest_read(chain);
        let all = self.engine.pages_needed(branch.seq, all);
        // New pages, and the chain's copy of the last page that it shares.
        reading + all.saturating_sub(shared) + 1
    }

    fn reserve(&mut self, pages: usize) {
        self.reserved = pages;
        self.engine.reserve(pages);
    }

    /// Pages that active chains may still take. All of them are decoding: none waits after a pass.
    fn count_reserved(&self) -> usize {
        let chains = self.book.active().iter().map(|&id| self.book.chain(id));
        chains
            .map(|chain| match chain.cache.place {
                Place::Own(seq) => self.pages_for_rest(chain, seq),
                Place::Branch(_) => 0,
            })
            .sum()
    }

    /// Samples the next token of each chain in `sampling`, all in one call.
    fn sample(&mut self, logits: &Logits) -> Result<(), GenError> {
        let (book, sampling) = (&self.book, &self.sampling);
        // A model may have more rows than the tokenizer has tokens: the ids beyond stand for
        // nothing.
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

    /// Samples like [`sample`](Self::sample), for chains that all start from one kept row.
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

    /// Keeps the log-probabilities of the sampled tokens, for the chains that ask for them.
    fn keep_logprobs(&mut self, logits: &Logits) -> Result<(), GenError> {
        let mut copied = None;
        for i in 0..self.sampling.len() {
            let (id, row) = self.sampling[i];
            if self.book.chain(id).plan.config.logprobs.is_none() {
                continue;
            }
            // On a device the row is elsewhere, and only chains that ask pay for fetching it.
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

    /// Keeps the log-probabilities of token `i` of `sampled`, which was sampled from `row`.
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
        let (cache, closed) = self.book.push(id, sampled);
        // Also the token that closes a step: its children read it, not this chain.
        cache.history.push(sampled.token);
        let seq = match cache.place {
            Place::Branch(branch) => self.branches.detach(branch, &mut self.engine),
            Place::Own(seq) => seq,
        };
        cache.place = match &closed {
            Some(step) if !step.paused => {
                Place::Branch(self.branches.insert(seq, vec![sampled.token]))
            }
            _ => Place::Own(seq),
        };
        closed
    }

    /// The started chains without a sampled token, by their branch point.
    fn waiting(&self) -> BTreeMap<BranchId, Vec<ChainId>> {
        // Ordered, so that the rows of a pass do not depend on hashing.
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

/// The request to sample a chain's next token from row `row`.
fn choice(chain: &Chain, row: usize) -> SampleRow<'_> {
    let (params, draw) = chain.sampling();
    SampleRow {
        row,
        // A penalty of 1 changes nothing: the sampler need not look at any token.
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
