//! The chains of a generator: their states, and the changes that tokens and forks make to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use beamgen_engine::rng::{Draw, Key};
use beamgen_engine::{RowEdits, Sampled, SamplingParams};
use beamgen_search::{
    ChainId, DecodeMode, Finish, GenError, GeneratorConfig, OpenedProblem, Problem, Source,
    StepOutput, StepPlan, TokenLogprob, TokenLogprobs, child_stream,
};

use crate::error::Error;
use crate::plan::{Plans, WritingPlan};
use crate::prompts::Prompt;
use crate::step::{Closing, Step, Verdict, is_in_text};
use crate::structured::Constraint;
use crate::thinking::{Phase, Progress};

/// The chains of a generator. `C` holds a backend's data of a chain: its tokens and its cache.
#[derive(Debug)]
pub struct ChainBook<C> {
    plans: Plans,
    chains: BTreeMap<ChainId, Chain<C>>,
    /// Chains in the middle of a step, in the order they were started: siblings are adjacent.
    active: Vec<ChainId>,
    next_chain: u64,
    /// Chains that cannot continue under their grammar, with the reason.
    failed: Vec<(ChainId, GenError)>,
}

/// A chain and its step.
#[derive(Debug)]
pub struct Chain<C> {
    /// The settings of the chain's problem.
    pub plan: Arc<WritingPlan>,
    /// The key of the chain's problem.
    pub problem: u64,
    /// The number of the chain that its problem began with: older problems have lower numbers.
    pub(crate) opened: u64,
    /// The most tokens of all steps of the chain together that the context has room for, given
    /// steps included.
    context_room: usize,
    /// The number of tokens of all steps so far, given steps included.
    written: usize,
    /// The part of the chain after its last step.
    progress: Progress,
    /// Bytes of the last token after the end of the last step.
    leftover: Vec<u8>,
    /// The number of bytes at the beginning of `leftover` that come from the problem's prefix.
    given: usize,
    /// The state of the grammar after all tokens so far; `None` without a grammar.
    constraint: Option<Constraint>,
    /// The state of the chain's step.
    pub state: State,
    /// The backend's tokens and cache.
    pub cache: C,
}

/// The effect of a sampled token on its chain.
#[derive(Debug, Default)]
pub struct Added {
    /// The step, if the token closes or pauses it.
    pub step: Option<StepOutput>,
    /// The tokens that close the thought of the chain after the token.
    closing: Option<Arc<[u32]>>,
    /// Whether the token is left out, because it would have ended the chain in its thought.
    replaces: bool,
}

impl Added {
    /// Returns the tokens that the chain has got: the sampled token, and those that close its
    /// thought.
    pub fn tokens(&self, sampled: Sampled) -> impl Iterator<Item = u32> {
        let sampled = (!self.replaces).then_some(sampled.token);
        let closing = self.closing.iter().flat_map(|tokens| tokens.iter());
        sampled.into_iter().chain(closing.copied())
    }

    /// Whether the thought of the chain was closed at its limit.
    pub fn closes_thought(&self) -> bool {
        self.closing.is_some()
    }
}

/// The state of a chain.
#[derive(Debug, Clone)]
pub enum State {
    /// Between steps.
    Idle,
    /// Started, but no token is needed: the leftover bytes of the last step already hold a whole
    /// step.
    Leftover(Step, Closing),
    /// In the middle of a step that needs tokens.
    Running(Step),
    /// In the middle of a step that waits to be resumed.
    Paused(Step),
}

impl<C> Chain<C> {
    /// The number of tokens that the chain may still have.
    pub fn room(&self) -> usize {
        self.room_after(self.progress())
    }

    fn room_after(&self, progress: Progress) -> usize {
        let thinking = &self.plan.thinking;
        let context = self.context_room.saturating_sub(self.written);
        // The limit of a chain is for its answer, unless the model is not known to think.
        let apart = if thinking.shares_limit {
            0
        } else if progress.phase == Phase::Thought {
            return context;
        } else {
            progress.thought_tokens
        };
        let counted = self.written - apart.min(self.written);
        let limit = self.plan.config.max_chain_tokens;
        limit.saturating_sub(counted).min(context)
    }

    /// The part of the chain that its next token belongs to.
    fn progress(&self) -> Progress {
        self.step().map_or(self.progress, |step| step.progress)
    }

    fn step(&self) -> Option<&Step> {
        match &self.state {
            State::Idle => None,
            State::Leftover(step, _) | State::Running(step) | State::Paused(step) => Some(step),
        }
    }

    /// Returns the most tokens that the rest of the chain's step, or its next step, may have.
    pub fn longest_rest(&self) -> usize {
        let progress = self.progress();
        let spoken = self.step().map_or(0, Step::spoken_tokens);
        let spoken = self.plan.config.longest_step().saturating_sub(spoken);
        let thinking = &self.plan.thinking;
        thinking.longest_step(progress, spoken, self.room_after(progress))
    }

    /// The step that needs tokens.
    pub fn running(&self) -> Option<&Step> {
        match &self.state {
            State::Running(step) => Some(step),
            _ => None,
        }
    }

    /// The number of sampled tokens of the step that is not closed.
    pub fn unfinished(&self) -> usize {
        self.step().map_or(0, Step::sampled_tokens)
    }

    /// Returns the most tokens that can be sampled before a limit ends the step or its thought.
    pub fn most_next(&self) -> usize {
        let Some(step) = self.step() else { return 0 };
        let (progress, room) = (step.progress, self.room());
        let left = step.plan.token_limit.saturating_sub(step.sampled_tokens());
        let longest = self.plan.config.longest_step();
        let spoken = longest.saturating_sub(step.spoken_tokens());
        let thinks = progress.phase == Phase::Thought;
        let pause = match step.plan.mode {
            DecodeMode::PauseAtOnce if step.tokens.is_empty() => 1,
            DecodeMode::PauseAfter(tokens) if !thinks && tokens > step.spoken_tokens() => {
                tokens - step.spoken_tokens()
            }
            _ => usize::MAX,
        };
        let rest = if thinks {
            self.plan.thinking.room(progress, room.min(left))
        } else {
            spoken.min(left).min(room)
        };
        rest.min(pause)
    }

    /// Returns the texts that may end the step, or its thought.
    pub fn marks(&self) -> Vec<String> {
        let progress = self.progress();
        if progress.phase == Phase::Thought {
            return self.plan.thinking.marks(progress);
        }
        let config = &self.plan.config;
        let marks = config.boundaries.iter().chain(&config.starts);
        marks.cloned().collect()
    }

    /// Returns the sampling parameters of the next token, and its position in the random stream.
    ///
    /// # Panics
    /// If the chain is not running.
    pub fn sampling(&self) -> (SamplingParams, Draw) {
        let plan = self.running().expect("a running step").plan;
        let mut params = self.plan.sampling;
        if plan.mode == DecodeMode::Greedy {
            // With temperature 0 the sampler takes the likeliest token.
            params.temperature = 0.0;
        }
        let key = Key {
            seed: self.plan.config.seed,
            problem: self.problem,
            chain: plan.stream,
        };
        // The position in the chain decides, so results do not depend on the batch.
        (params, key.at(self.written as u32))
    }

    /// Returns the changes to the logits before sampling: biases, and the tokens that a grammar
    /// allows.
    pub fn edits(&self) -> RowEdits<'_> {
        RowEdits {
            bias: &self.plan.bias,
            allowed: self.constraint.as_ref().map(Constraint::allowed),
        }
    }

    fn close(&mut self, id: ChainId, step: Step, closing: Closing) -> StepOutput {
        self.given = step.given_after(closing);
        self.progress = step.progress_after(closing);
        let output = step.closed(id, closing);
        self.leftover.clone_from(&output.leftover);
        self.state = State::Idle;
        output
    }

    /// Adds a token.
    fn push(&mut self, id: ChainId, sampled: Sampled, plans: &Plans) -> Added {
        self.written += 1;
        let room = self.room();
        let State::Running(step) = &mut self.state else {
            unreachable!("chains in other states sample nothing")
        };
        let verdict = step.push(sampled, room, &plans.tokenizer, &self.plan);
        if verdict == Verdict::GoesOn {
            // Most tokens do not end a step: return before anything is allocated.
            return Added::default();
        }
        let step = self.take_step();
        let step = match verdict {
            Verdict::GoesOn => None,
            Verdict::Closed(closing) => Some(self.close(id, step, closing)),
            Verdict::ThoughtOver => return self.close_thought(id, step, sampled, plans),
            Verdict::Paused => {
                let output = step.paused(id);
                self.state = State::Paused(step);
                Some(output)
            }
        };
        Added {
            step,
            ..Added::default()
        }
    }

    /// Closes a thought at its limit; the answer follows.
    fn close_thought(
        &mut self,
        id: ChainId,
        mut step: Step,
        sampled: Sampled,
        plans: &Plans,
    ) -> Added {
        let replaces = plans.tokenizer.is_eos(sampled.token);
        let closing = Arc::clone(self.plan.thinking.closing(step.progress));
        let written = closing.len() - usize::from(replaces);
        // The answer needs at least one token.
        let limit = if step.sampled_tokens() >= step.plan.token_limit {
            Some(Finish::Budget)
        } else if self.context_room <= self.written + written {
            Some(Finish::ChainCap)
        } else {
            None
        };
        if let Some(limit) = limit {
            let end = step.cut_at(limit);
            let step = Some(self.close(id, step, end));
            return Added {
                step,
                replaces,
                closing: None,
            };
        }
        self.written += written;
        let end = step.close_thought(&closing, replaces, &plans.tokenizer, &self.plan);
        let step = if let Some(end) = end {
            Some(self.close(id, step, end))
        } else {
            self.state = State::Running(step);
            None
        };
        Added {
            step,
            replaces,
            closing: Some(closing),
        }
    }

    fn take_step(&mut self) -> Step {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Running(step) => step,
            _ => unreachable!("chains in other states sample nothing"),
        }
    }
}

impl<C> ChainBook<C> {
    /// Makes a book without chains. `plans` resolves the settings of problems.
    pub fn new(plans: Plans) -> Self {
        Self {
            plans,
            chains: BTreeMap::new(),
            active: Vec::new(),
            next_chain: 0,
            failed: Vec::new(),
        }
    }

    /// Returns the resolved settings of problems, and the tokenizer.
    pub fn plans(&self) -> &Plans {
        &self.plans
    }

    /// Returns a chain.
    ///
    /// # Panics
    /// If the chain was released or belongs to another generator, which is a mistake of the caller.
    pub fn chain(&self, id: ChainId) -> &Chain<C> {
        self.chains.get(&id).expect("no such chain")
    }

    /// The cache of a chain, if the chain was not released.
    pub fn cache(&mut self, id: ChainId) -> Option<&mut C> {
        self.chains.get_mut(&id).map(|chain| &mut chain.cache)
    }

    /// Iterates over all chains, in the order of their ids.
    pub fn chains(&self) -> impl Iterator<Item = &Chain<C>> {
        self.chains.values()
    }

    /// The chains in the middle of a step, in the order they were started.
    pub fn active(&self) -> &[ChainId] {
        &self.active
    }

    /// Opens a problem. `read` gets the tokens of prompt and given steps, and makes a cache for
    /// them.
    ///
    /// # Errors
    /// A setting cannot be followed, the prompt is refused or leaves no room, or `read` fails.
    pub fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
        read: impl FnOnce(Vec<u32>) -> Result<C, GenError>,
    ) -> Result<OpenedProblem, GenError> {
        let plan = self.plans.get(settings);
        let plan = plan.map_err(|error| GenError::Settings(error.to_string()))?;
        let prompt = plan.prompts.prompt(problem)?;
        let grammar = plan.grammar.as_ref();
        let constraint = grammar.map(|grammar| grammar.after(&prompt)).transpose()?;
        let sampled = prompt.given_tokens();
        let Prompt {
            tokens,
            thought,
            progress,
            given,
            begun,
            begun_tokens,
        } = prompt;
        // Given tokens count for the length of the chain, not of the prompt.
        let room = self.plans.context - (tokens.len() - sampled);
        let prompt_tokens = tokens.len() - sampled + begun_tokens;
        // A different stream from those of the chains, so a strategy's random numbers do not change
        // sampling.
        let strategy_seed = child_stream(plan.config.seed, 0) ^ key;
        let chain = self.insert(Chain {
            context_room: room,
            plan,
            problem: key,
            opened: self.next_chain,
            written: sampled,
            progress,
            leftover: begun.clone().into_bytes(),
            given: begun.len(),
            constraint,
            state: State::Idle,
            cache: read(tokens)?,
        });
        Ok(OpenedProblem {
            chain,
            prompt_tokens,
            given,
            begun,
            strategy_seed,
            thought,
        })
    }

    fn insert(&mut self, chain: Chain<C>) -> ChainId {
        let id = ChainId(self.next_chain);
        self.next_chain += 1;
        self.chains.insert(id, chain);
        id
    }

    /// Returns the state of a chain, or of a fork of the chain, after it is started with `plan`.
    ///
    /// # Panics
    /// If the chain is in the middle of a step and not paused, which is a mistake of the caller.
    pub fn next_state(&self, from: ChainId, plan: StepPlan) -> State {
        let chain = self.chain(from);
        match &chain.state {
            State::Idle => {
                let (leftover, settings) = (chain.leftover.clone(), &chain.plan);
                let step = Step::new(plan, leftover, chain.given, chain.progress, settings);
                match step.is_leftover_step(&chain.plan) {
                    Some(closing) => State::Leftover(step, closing),
                    None => State::Running(step),
                }
            }
            State::Paused(step) => {
                let mut step = step.clone();
                step.plan = plan;
                State::Running(step)
            }
            State::Leftover(..) | State::Running(_) => {
                panic!("a chain is started only between steps")
            }
        }
    }

    /// Starts a step in the state of [`next_state`](Self::next_state); `fork` makes the cache of a
    /// second chain with the same contents.
    pub fn start(&mut self, source: Source, state: State, fork: impl FnOnce(&C) -> C) -> ChainId {
        let id = match source {
            Source::Itself(id) => id,
            Source::ForkOf(id) => {
                let chain = self.chain(id);
                self.insert(Chain {
                    plan: Arc::clone(&chain.plan),
                    leftover: chain.leftover.clone(),
                    constraint: chain.constraint.as_ref().map(Constraint::fork),
                    state: State::Idle,
                    cache: fork(&chain.cache),
                    ..*chain
                })
            }
        };
        self.chains.get_mut(&id).expect("just looked at").state = state;
        // At the end of the list, so siblings that are started one after the other are adjacent.
        self.active.push(id);
        id
    }

    /// Adds a token to a chain whose step needs it. Returns the chain's cache, and what the chain
    /// has got.
    pub fn push(&mut self, id: ChainId, sampled: Sampled) -> (&mut C, Added) {
        let chain = self.chains.get_mut(&id).expect("active chains exist");
        let added = chain.push(id, sampled, &self.plans);
        let is_over = added
            .step
            .as_ref()
            .is_some_and(|step| step.finish.is_some());
        if let Some(constraint) = chain.constraint.as_mut().filter(|_| !is_over)
            && let Err(reason) = constraint.push(sampled.token)
        {
            let error = GenError::Failed(Error::Grammar(reason).to_string().into());
            self.failed.push((id, error));
        }
        (&mut chain.cache, added)
    }

    /// Closes the thoughts of chains at their next token.
    pub fn close_thoughts(&mut self, ids: &[ChainId]) {
        for id in ids {
            if let Some(Chain {
                state: State::Running(step),
                ..
            }) = self.chains.get_mut(id)
            {
                step.progress.is_late = true;
            }
        }
    }

    /// Stores the log-probability of the token that is pushed next, and those of the likeliest
    /// tokens.
    pub fn keep_logprobs(&mut self, id: ChainId, sampled: Sampled, likeliest: &[(u32, f32)]) {
        let tokenizer = &self.plans.tokenizer;
        let logprob = |token, logprob| TokenLogprob {
            token,
            bytes: tokenizer.token_bytes(token).to_vec(),
            logprob,
        };
        let Sampled {
            token,
            logprob: own,
        } = sampled;
        let top = likeliest.iter().map(|&(other, of_other)| {
            // A device may have added in another order, so for one token the two values may differ
            // slightly.
            logprob(other, if other == token { own } else { of_other })
        });
        let chain = &self.chains[&id];
        let kept = TokenLogprobs {
            chosen: logprob(token, own),
            in_text: is_in_text(tokenizer, token, &chain.plan),
            forced: false,
            top: top.collect(),
        };
        let chain = self.chains.get_mut(&id).expect("active chains exist");
        if let State::Running(step) = &mut chain.state {
            step.keep(kept);
        }
    }

    /// Takes the chains that cannot continue under their grammar, with the reasons.
    pub fn take_failed(&mut self) -> Vec<(ChainId, GenError)> {
        std::mem::take(&mut self.failed)
    }

    /// Closes a step that needs a token but may have no more. The chain ends with the reason
    /// `limit`.
    pub fn cut(&mut self, id: ChainId, limit: Finish) -> StepOutput {
        let chain = self.chains.get_mut(&id).expect("active chains exist");
        let step = chain.take_step();
        let closing = step.cut_at(limit);
        chain.close(id, step, closing)
    }

    /// Closes the steps that need no token, because their leftover bytes already hold the whole
    /// step.
    pub fn close_leftovers(&mut self) -> Vec<StepOutput> {
        let mut closed = Vec::new();
        for &id in &self.active {
            let chain = self.chains.get_mut(&id).expect("active chains exist");
            if let State::Leftover(step, closing) = &chain.state {
                let (step, closing) = (step.clone(), *closing);
                closed.push(chain.close(id, step, closing));
            }
        }
        closed
    }

    /// Takes chains whose step is closed or paused off the list of active chains.
    pub fn drop_idle(&mut self) {
        let chains = &self.chains;
        self.active.retain(|id| chains[id].running().is_some());
    }

    /// Removes a chain and returns it, so that the caller can free its cache.
    ///
    /// # Panics
    /// If the chain was released or belongs to another generator, which is a mistake of the caller.
    pub fn release(&mut self, id: ChainId) -> Chain<C> {
        let chain = self.chains.remove(&id).expect("no such chain");
        // Idle and paused chains are not on the list, so the scan is saved.
        if !matches!(chain.state, State::Idle | State::Paused(_)) {
            self.active.retain(|&active| active != id);
        }
        chain
    }
}
