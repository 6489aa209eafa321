//! The generator: its chains, what they may take, and what becomes of a token. [`calls`] is what a
//! search asks of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use beamgen_engine::{
    Append, Engine, IdleKv, Logits, SampleRequest, SampleRow, Sampled, Sampler, SeqId, Tokenizer,
};
use beamgen_search::{Cause, ChainId, GenError, GeneratorConfig, StepOutput};

use crate::branch_point::{BranchId, BranchPoints};
use crate::error::Error;
use crate::memory::branch_pages;
use crate::plan::{Plans, WritingPlan};
use crate::step::{Closing, Step, Verdict};

mod calls;

/// Steps from a language model over the engine's forkable cache.
#[derive(Debug)]
pub struct LmGenerator {
    engine: Engine,
    tokenizer: Arc<Tokenizer>,
    plans: Plans,
    sampler: Sampler,
    /// Chains whose next token comes from the logits at hand, and from which row of them.
    drawing: Vec<(ChainId, usize)>,
    drawn: Vec<Sampled>,
    /// The memory of a pass's rows, and of what they append: empty between passes.
    rows: Vec<Row>,
    items: Vec<Append<'static>>,
    chains: BTreeMap<ChainId, Chain>,
    branches: BranchPoints,
    /// Chains in the middle of a step, in the order they were started: siblings are adjacent.
    active: Vec<ChainId>,
    next_chain: u64,
    /// Pages reserved to active chains and not taken yet.
    reserved: usize,
    tokens_read: u64,
}

#[derive(Debug, Clone)]
struct Chain {
    plan: Arc<WritingPlan>,
    problem: u64,
    prompt_tokens: usize,
    /// Tokens sampled in all steps so far.
    sampled: usize,
    /// The prompt's and the sampled tokens.
    history: Vec<u32>,
    /// What the last token stands for behind the end of the last step.
    leftover: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// Between steps.
    Idle(BranchId),
    /// Started, with a step that was carried here whole.
    Leftover(BranchId, Step, Closing),
    /// Started; the first token comes from the branch point's logits.
    Waiting(BranchId, Step),
    /// The step's last token is the next to be read.
    Decoding(SeqId, Step),
    /// As decoding, but held up.
    Paused(SeqId, Step),
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
            plans: Plans::new(&config, Arc::clone(&tokenizer), context)?,
            engine,
            tokenizer,
            sampler: Sampler::new(),
            drawing: Vec::new(),
            drawn: Vec::new(),
            rows: Vec::new(),
            items: Vec::new(),
            chains: BTreeMap::new(),
            branches: BranchPoints::default(),
            active: Vec::new(),
            next_chain: 0,
            reserved: 0,
            tokens_read: 0,
        })
    }

    /// The settings it was made with, as they act: those that were not set are what the checkpoint
    /// says.
    pub fn config(&self) -> &GeneratorConfig {
        &self.plans.defaults().config
    }

    /// What the checkpoint's generation_config.json asks for and does not get, a line each.
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
    pub fn prompt(&self, problem: &str) -> Result<Vec<u32>, GenError> {
        let prompt = self.plans.defaults().prompts.prompt(problem)?;
        Ok(prompt.tokens)
    }

    fn context(&self) -> usize {
        self.plans.context()
    }

    /// # Panics
    /// If the chain was released or is another generator's: a mistake of the caller.
    fn chain(&self, id: ChainId) -> &Chain {
        self.chains.get(&id).expect("no such chain")
    }

    fn insert(&mut self, chain: Chain) -> ChainId {
        let id = ChainId(self.next_chain);
        self.next_chain += 1;
        self.chains.insert(id, chain);
        id
    }

    fn room(&self, chain: &Chain) -> usize {
        let context = self.context();
        chain.plan.room(context, chain.prompt_tokens, chain.sampled)
    }

    /// Tokens of its next step that a chain may have to read: all but the one that closes it.
    fn longest_read(&self, chain: &Chain) -> usize {
        chain
            .plan
            .config
            .longest_step()
            .min(self.room(chain))
            .max(1)
            - 1
    }

    /// Pages that the rest of a step may still take.
    fn pages_for_rest(&self, chain: &Chain, seq: SeqId, step: &Step) -> usize {
        let step_left = chain
            .plan
            .config
            .longest_step()
            .saturating_sub(step.tokens.len());
        // The newest token is still to be read, the last one never.
        let reads = step_left.min(self.room(chain));
        self.engine.pages_needed(seq, reads)
    }

    /// Pages to reserve for the next step of a chain at `branch`.
    fn pages_for_step(&self, chain: &Chain, branch: BranchId) -> usize {
        let branch = self.branches.get(branch);
        let unread = branch.unread.len();
        let reading = match branch.reserved {
            true => 0,
            false => self.engine.pages_needed(branch.seq, unread),
        };
        reading + branch_pages(&self.engine, branch.seq, unread, self.longest_read(chain))
    }

    fn reserve(&mut self, pages: usize) {
        self.reserved = pages;
        self.engine.reserve(pages);
    }

    /// What active chains may still take. All of them are decoding: none waits after a pass.
    fn count_reserved(&self) -> usize {
        self.active
            .iter()
            .map(|&id| {
                let chain = self.chain(id);
                let State::Decoding(seq, step) = &chain.state else {
                    return 0;
                };
                self.pages_for_rest(self.chain(id), *seq, step)
            })
            .sum()
    }

    /// Draws the next token of each chain in `drawing`, all at once.
    fn draw(&mut self, logits: &Logits) -> Result<(), GenError> {
        let (chains, drawing) = (&self.chains, &self.drawing);
        let choice = |i: usize| {
            let (id, row) = drawing[i];
            choice(&chains[&id], row)
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
        let (chains, drawing) = (&self.chains, &self.drawing);
        let logits = &logits[..self.tokenizer.len()];
        let request = |i: usize| {
            let (id, row) = drawing[i];
            let SampleRow {
                history,
                params,
                draw,
                ..
            } = choice(&chains[&id], row);
            SampleRequest {
                logits,
                history,
                params,
                draw,
            }
        };
        let pool = self.engine.pool();
        self.sampler
            .sample_batch(pool, drawing.len(), request, &mut self.drawn);
    }

    /// Gives the `i`-th chain that has drawn its token. Returns its step if it is closed by it.
    fn advance(&mut self, i: usize) -> Option<StepOutput> {
        let ((id, _), sampled) = (self.drawing[i], self.drawn[i]);
        let context = self.context();
        let chain = self.chains.get_mut(&id).expect("active chains exist");
        chain.sampled += 1;
        chain.history.push(sampled.token);
        let plan = Arc::clone(&chain.plan);
        let room = plan.room(context, chain.prompt_tokens, chain.sampled);
        let (State::Waiting(_, step) | State::Decoding(_, step)) = &mut chain.state else {
            unreachable!("chains in other states sample nothing")
        };
        let verdict = step.push(sampled, room, &self.tokenizer, &plan.rules);
        if verdict == Verdict::GoesOn && matches!(chain.state, State::Decoding(..)) {
            // Most tokens end here, and take no memory.
            return None;
        }
        let mut chain = self.chains.remove(&id).expect("just looked at");
        let (seq, step) = match chain.state {
            State::Waiting(branch, step) => (self.branches.detach(branch, &mut self.engine), step),
            State::Decoding(seq, step) => (seq, step),
            State::Idle(_) | State::Leftover(..) | State::Paused(..) => {
                unreachable!("these chains sample nothing")
            }
        };
        let mut closed = None;
        chain.state = match verdict {
            Verdict::GoesOn => State::Decoding(seq, step),
            Verdict::Paused => {
                closed = Some(step.paused(id));
                State::Paused(seq, step)
            }
            Verdict::Closed(closing) => {
                let step = step.closed(id, closing);
                chain.leftover.clone_from(&step.leftover);
                closed = Some(step);
                State::Idle(self.branches.insert(seq, vec![sampled.token]))
            }
        };
        self.chains.insert(id, chain);
        closed
    }

    /// The chains that were started and have no token yet, by where they start.
    fn waiting(&self) -> BTreeMap<BranchId, Vec<ChainId>> {
        let mut waiting: BTreeMap<BranchId, Vec<ChainId>> = BTreeMap::new();
        for &id in &self.active {
            if let State::Waiting(branch, _) = self.chain(id).state {
                waiting.entry(branch).or_default().push(id);
            }
        }
        waiting
    }

    /// Closes the steps that need no token.
    fn close_leftover(&mut self) -> Vec<StepOutput> {
        let mut closed = Vec::new();
        for &id in &self.active {
            let chain = self.chains.get_mut(&id).expect("active chains exist");
            if let State::Leftover(branch, step, closing) = &chain.state {
                let step = step.clone().closed(id, *closing);
                chain.state = State::Idle(*branch);
                chain.leftover.clone_from(&step.leftover);
                closed.push(step);
            }
        }
        closed
    }

    /// Forgets as active the chains whose step is closed or paused.
    fn drop_idle(&mut self) {
        let chains = &self.chains;
        self.active
            .retain(|id| matches!(chains[id].state, State::Waiting(..) | State::Decoding(..)));
    }
}

/// What a chain draws next, from row `row`.
fn choice(chain: &Chain, row: usize) -> SampleRow<'_> {
    let (State::Waiting(_, step) | State::Decoding(_, step)) = &chain.state else {
        unreachable!("chains in other states sample nothing")
    };
    SampleRow {
        row,
        history: match chain.plan.sampling.repetition_penalty == 1.0 {
            true => &[],
            false => &chain.history,
        },
        params: chain.plan.sampling(step.plan.mode),
        draw: chain
            .plan
            .draw(chain.problem, step.plan.stream, chain.sampled),
    }
}

fn failed(error: beamgen_engine::Error) -> GenError {
    GenError::Lost(Cause::new(error))
}
