//! The generator: its chains, what they may take, and what becomes of a token. [`calls`] is what a
//! search asks of it.

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

/// Steps from a language model over the engine's forkable cache.
#[derive(Debug)]
pub struct LmGenerator {
    engine: Engine,
    tokenizer: Arc<Tokenizer>,
    book: ChainBook<Cache>,
    sampler: Sampler,
    /// Chains whose next token comes from the logits at hand, and from which row of them.
    drawing: Vec<(ChainId, usize)>,
    drawn: Vec<Sampled>,
    /// The memory of a pass's rows, and of what they append: empty between passes.
    rows: Vec<Row>,
    items: Vec<Append<'static>>,
    branches: BranchPoints,
    /// Pages reserved to active chains and not taken yet.
    reserved: usize,
    tokens_read: u64,
}

type Chain = crate::book::Chain<Cache>;

/// The tokens of a chain, and where their keys and values are.
#[derive(Debug, Clone)]
struct Cache {
    /// The prompt's and the sampled tokens.
    history: Vec<u32>,
    place: Place,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// With the other chains that go on from there: between steps, and until the first token of a
    /// step is sampled from the branch point's logits.
    Branch(BranchId),
    /// In a sequence of its own; the step's last token is the next to be read.
    Own(SeqId),
}

/// A row of a forward pass.
#[derive(Debug)]
enum Row {
    BranchPoint(BranchId),
    Chain(ChainId),
}

impl LmGenerator {
    /// A generator over `engine`'s model.
    ///
    /// # Errors
    /// A setting is out of range, the model gives no logits, the tokenizer does not fit it or names
    /// no end-of-text token, or the chat template does not compile.
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
            drawing: Vec::new(),
            drawn: Vec::new(),
            rows: Vec::new(),
            items: Vec::new(),
            branches: BranchPoints::default(),
            reserved: 0,
            tokens_read: 0,
        })
    }

    /// The settings it was made with, as they act: those that were not set are what the checkpoint
    /// says.
    pub fn config(&self) -> &GeneratorConfig {
        &self.book.plans().defaults.config
    }

    /// Lines on the settings of the checkpoint's `generation_config.json` that are not followed.
    pub fn notes(&self) -> &[String] {
        &self.tokenizer.generation().notes
    }

    /// The engine, for its memory and model.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Lets a scorer use the cache memory that is neither in use nor reserved. Whatever the scorer
    /// takes, this generator can hold as much.
    pub fn lend(&mut self, idle: Arc<IdleKv>) {
        self.engine.lend(idle);
    }

    /// Bounds the memory for rows of logits that are kept where chains may branch again: 64 MiB
    /// unless set. Beyond it they are computed again; results are the same.
    pub fn limit_kept_logits(&mut self, bytes: usize) {
        self.branches.limit = bytes;
    }

    /// Tokens that went through the model so far. A prompt is read once, a sampled token once if
    /// its chain goes on and never otherwise; both again if they were forgotten, and the last one
    /// before a branch if its logits were.
    pub fn tokens_read(&self) -> u64 {
        self.tokens_read
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// The prompt of a problem in tokens.
    ///
    /// # Errors
    /// The template refuses it, or it leaves no room in the context.
    pub fn prompt(&self, problem: impl Into<Problem>) -> Result<Vec<u32>, GenError> {
        let prompt = self.book.plans().defaults.prompts.prompt(&problem.into())?;
        Ok(prompt.tokens)
    }

    /// Tokens of its next step that a chain may have to read: all but the one that closes it.
    fn longest_read(chain: &Chain) -> usize {
        let longest = chain.plan.config.longest_step();
        longest.min(chain.room()).max(1) - 1
    }

    /// Pages that the rest of a step may still take.
    fn pages_for_rest(&self, chain: &Chain, seq: SeqId) -> usize {
        let longest = chain.plan.config.longest_step();
        let step_left = longest.saturating_sub(chain.unfinished());
        // The newest token is still to be read, the last one never.
        self.engine.pages_needed(seq, step_left.min(chain.room()))
    }

    /// Pages to reserve for the next step of a chain at `branch`.
    fn pages_for_step(&self, chain: &Chain, branch: BranchId) -> usize {
        let branch = self.branches.get(branch);
        let unread = branch.unread.len();
        let shared = self.engine.pages_needed(branch.seq, unread);
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

    /// What active chains may still take. All of them are decoding: none waits after a pass.
    fn count_reserved(&self) -> usize {
        let chains = self.book.active().iter().map(|&id| self.book.chain(id));
        chains
            .map(|chain| match chain.cache.place {
                Place::Own(seq) => self.pages_for_rest(chain, seq),
                Place::Branch(_) => 0,
            })
            .sum()
    }

    /// Draws the next token of each chain in `drawing`, all at once.
    fn draw(&mut self, logits: &Logits) -> Result<(), GenError> {
        let (book, drawing) = (&self.book, &self.drawing);
        let choice = |i: usize| {
            let (id, row) = drawing[i];
            choice(book.chain(id), row)
        };
        // A model may have more rows than there are tokens: those ids stand for nothing.
        let tokens = self.tokenizer.len();
        let (count, sampler) = (drawing.len(), &mut self.sampler);
        let drawn = self
            .engine
            .sample(logits, tokens, sampler, count, choice, &mut self.drawn);
        drawn.map_err(|error| {
            let model = self.tokenizer.checkpoint().display();
            GenError::Lost(format!("{model}: {error}").into())
        })
    }

    /// As [`draw`](Self::draw), all from a row that was kept.
    fn draw_kept(&mut self, logits: &[f32]) {
        let (book, drawing) = (&self.book, &self.drawing);
        let logits = &logits[..self.tokenizer.len()];
        let request = |i: usize| {
            let (id, row) = drawing[i];
            choice(book.chain(id), row).of(logits)
        };
        let pool = self.engine.pool();
        self.sampler
            .sample_batch(pool, drawing.len(), request, &mut self.drawn);
    }

    /// Gives the `i`-th chain that has drawn its token. Returns its step if it is closed by it.
    fn advance(&mut self, i: usize) -> Option<StepOutput> {
        let ((id, _), sampled) = (self.drawing[i], self.drawn[i]);
        let (cache, closed) = self.book.push(id, sampled);
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

    /// The chains that were started and have no token yet, by where they start.
    fn waiting(&self) -> BTreeMap<BranchId, Vec<ChainId>> {
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

/// What a chain draws next, from row `row`.
fn choice(chain: &Chain, row: usize) -> SampleRow<'_> {
    let (params, draw) = chain.sampling();
    SampleRow {
        row,
        history: if params.repetition_penalty == 1.0 {
            &[]
        } else {
            &chain.cache.history
        },
        params,
        draw,
    }
}

fn failed(error: beamgen_engine::Error) -> GenError {
    GenError::Lost(Cause::new(error))
}
