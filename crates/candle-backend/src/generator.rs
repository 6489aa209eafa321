//! Steps from a model of `candle-transformers`.

use std::collections::BTreeMap;
use std::sync::Arc;

use beamgen_engine::{Sampled, Sampler};
use beamgen_generator::{Closing, Plans, Prompt, Step, Verdict, WritingPlan};
use beamgen_search::{
    Cause, ChainId, GenError, Generator, GeneratorConfig, Memory, OpenedProblem, PassOutput,
    Problem, Source, StepOutput, StepPlan,
};

use crate::decoder::Decoder;
use crate::error::{Error, first_line};

/// A generator whose model is one of `candle-transformers`.
pub struct CandleGenerator {
    /// It has read nothing.
    model: Box<dyn Decoder>,
    name: String,
    plans: Plans,
    sampler: Sampler,
    bytes_per_token: u64,
    capacity_tokens: usize,
    /// Tokens that chains hold, with the rest of the steps that were begun.
    held: usize,
    chains: BTreeMap<ChainId, Chain>,
    next_chain: u64,
}

struct Chain {
    plan: Arc<WritingPlan>,
    problem: u64,
    prompt_tokens: usize,
    /// Tokens sampled in all steps so far.
    sampled: usize,
    /// The prompt's and the sampled ones.
    tokens: Vec<u32>,
    /// Has read all tokens but those that are new.
    decoder: Box<dyn Decoder>,
    read: usize,
    /// What the last token stands for behind the end of the last step.
    leftover: Vec<u8>,
    state: State,
    /// Tokens that are counted for it.
    held: usize,
}

enum State {
    /// Between steps.
    Idle,
    /// Started, with a step that was carried here whole.
    Leftover(Step, Closing),
    Decoding(Step),
    /// As decoding, but held up.
    Paused(Step),
}

impl std::fmt::Debug for CandleGenerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("CandleGenerator");
        debug
            .field("model", &self.name)
            .field("chains", &self.chains.len());
        debug.finish_non_exhaustive()
    }
}

impl CandleGenerator {
    /// `memory` is for the caches of all chains, in bytes.
    pub(crate) fn new(
        name: String,
        model: Box<dyn Decoder>,
        plans: Plans,
        bytes_per_token: u64,
        memory: u64,
    ) -> Self {
        Self {
            model,
            plans,
            sampler: Sampler::new(),
            bytes_per_token,
            capacity_tokens: usize::try_from(memory / bytes_per_token.max(1)).unwrap_or(usize::MAX),
            held: 0,
            chains: BTreeMap::new(),
            next_chain: 0,
            name,
        }
    }

    fn lost(&self, error: &candle_core::Error) -> GenError {
        GenError::Lost(Cause::new(Error::Candle {
            model: self.name.clone(),
            reason: first_line(error),
        }))
    }

    fn insert(&mut self, chain: Chain) -> ChainId {
        let id = ChainId(self.next_chain);
        self.next_chain += 1;
        self.chains.insert(id, chain);
        id
    }

    /// # Panics
    /// If the chain was released or is another generator's: a mistake of the caller.
    fn chain(&self, id: ChainId) -> &Chain {
        self.chains.get(&id).expect("no such chain")
    }

    /// Counts `held` tokens for a chain.
    fn hold(&mut self, id: ChainId, held: usize) {
        if let Some(chain) = self.chains.get_mut(&id) {
            self.held = self.held - chain.held + held;
            chain.held = held;
        }
    }

    /// Reads what a chain has not read, and samples its next token.
    fn draw(&mut self, id: ChainId) -> Result<Sampled, candle_core::Error> {
        let tokens = self.plans.tokenizer().len();
        let chain = self.chains.get_mut(&id).expect("active chains exist");
        let unread = &chain.tokens[chain.read..];
        let logits = chain.decoder.read(unread)?;
        chain.read = chain.tokens.len();
        let State::Decoding(step) = &chain.state else {
            unreachable!("chains in other states sample nothing")
        };
        let params = chain.plan.sampling(step.plan.mode);
        let mut draw = chain
            .plan
            .draw(chain.problem, step.plan.stream, chain.sampled);
        // A model may have more rows than there are tokens: those ids stand for nothing.
        let logits = &logits[..tokens];
        let sampled = self
            .sampler
            .sample_after(&chain.tokens, logits, &params, &mut draw);
        match Sampled::check(&[sampled]) {
            Ok(()) => Ok(sampled),
            Err(error) => Err(candle_core::Error::msg(error.to_string())),
        }
    }

    /// Gives a chain its token. Returns its step if it is closed or paused by it.
    fn advance(&mut self, id: ChainId, sampled: Sampled) -> Option<StepOutput> {
        let (context, tokenizer) = (self.plans.context(), Arc::clone(self.plans.tokenizer()));
        let chain = self.chains.get_mut(&id).expect("active chains exist");
        chain.sampled += 1;
        chain.tokens.push(sampled.token);
        let room = chain.plan.room(context, chain.prompt_tokens, chain.sampled);
        let State::Decoding(mut step) = std::mem::replace(&mut chain.state, State::Idle) else {
            unreachable!("chains in other states sample nothing")
        };
        let verdict = step.push(sampled, room, &tokenizer, &chain.plan.rules);
        let (state, output) = match verdict {
            Verdict::GoesOn => (State::Decoding(step), None),
            Verdict::Paused => {
                let output = step.paused(id);
                (State::Paused(step), Some(output))
            }
            Verdict::Closed(closing) => {
                let output = step.closed(id, closing);
                chain.leftover.clone_from(&output.leftover);
                (State::Idle, Some(output))
            }
        };
        chain.state = state;
        let held = chain.tokens.len();
        if output.is_some() {
            self.hold(id, held);
        }
        output
    }
}

impl Generator for CandleGenerator {
    /// Reads the prompt but for its last token, which each chain that begins here reads.
    fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError> {
        let plan = self.plans.get(settings);
        let plan = plan.map_err(|error| GenError::Settings(error.to_string()))?;
        let Prompt {
            tokens: prompt,
            thought,
        } = plan.prompts.prompt(&problem.text)?;
        let prompt_tokens = prompt.len();
        let strategy_seed = plan.strategy_seed(key);
        let mut decoder = self.model.fork();
        let read = prompt_tokens.saturating_sub(1);
        if read > 0 {
            decoder
                .read(&prompt[..read])
                .map_err(|error| self.lost(&error))?;
        }
        let chain = self.insert(Chain {
            plan,
            problem: key,
            prompt_tokens,
            sampled: 0,
            tokens: prompt,
            decoder,
            read,
            leftover: Vec::new(),
            state: State::Idle,
            held: 0,
        });
        self.hold(chain, prompt_tokens);
        Ok(OpenedProblem {
            chain,
            prompt_tokens,
            strategy_seed,
            thought,
        })
    }

    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        let (Source::Itself(from) | Source::ForkOf(from)) = source;
        let chain = self.chain(from);
        let room = chain
            .plan
            .room(self.plans.context(), chain.prompt_tokens, chain.sampled);
        let longest = chain.tokens.len() + chain.plan.config.longest_step().min(room);
        let state = match &chain.state {
            State::Idle => {
                let step = Step::new(plan, chain.leftover.clone());
                match step.is_leftover_step(&chain.plan.rules) {
                    Some(closing) => State::Leftover(step, closing),
                    None => State::Decoding(step),
                }
            }
            State::Paused(step) => {
                let mut step = step.clone();
                step.plan = plan;
                State::Decoding(step)
            }
            State::Leftover(..) | State::Decoding(_) => {
                panic!("a chain is started only between steps")
            }
        };
        let more = match source {
            Source::Itself(_) => longest.saturating_sub(chain.held),
            Source::ForkOf(_) => longest,
        };
        if self.held + more > self.capacity_tokens {
            return None;
        }
        let id = match source {
            Source::Itself(id) => id,
            Source::ForkOf(_) => {
                let copy = Chain {
                    plan: Arc::clone(&chain.plan),
                    tokens: chain.tokens.clone(),
                    leftover: chain.leftover.clone(),
                    state: State::Idle,
                    held: 0,
                    decoder: chain.decoder.fork(),
                    ..*chain
                };
                self.insert(copy)
            }
        };
        self.hold(id, longest);
        self.chains.get_mut(&id).expect("just looked at").state = state;
        Some(id)
    }

    fn release(&mut self, chain: ChainId) -> usize {
        self.hold(chain, 0);
        match self.chains.remove(&chain).expect("no such chain").state {
            State::Idle | State::Leftover(..) => 0,
            State::Decoding(step) | State::Paused(step) => step.tokens.len(),
        }
    }

    /// One token of each chain, one chain after the other.
    fn pass(&mut self) -> Result<PassOutput, GenError> {
        let mut steps = Vec::new();
        let ids: Vec<ChainId> = self.chains.keys().copied().collect();
        for id in ids {
            let chain = self.chains.get_mut(&id).expect("just listed");
            match &chain.state {
                State::Idle | State::Paused(_) => {}
                State::Leftover(step, closing) => {
                    let step = step.clone().closed(id, *closing);
                    chain.leftover.clone_from(&step.leftover);
                    chain.state = State::Idle;
                    let held = chain.tokens.len();
                    self.hold(id, held);
                    steps.push(step);
                }
                State::Decoding(_) => {
                    let sampled = self.draw(id).map_err(|error| self.lost(&error))?;
                    steps.extend(self.advance(id, sampled));
                }
            }
        }
        Ok(steps.into())
    }

    fn active(&self) -> usize {
        let active =
            |chain: &&Chain| matches!(chain.state, State::Leftover(..) | State::Decoding(_));
        self.chains.values().filter(active).count()
    }

    fn memory(&self) -> Memory {
        Memory {
            used_bytes: self.held as u64 * self.bytes_per_token,
            bytes_per_token: self.bytes_per_token,
            capacity_tokens: self.capacity_tokens,
        }
    }

    fn check(&self, problem: &Problem) -> Result<(), GenError> {
        let prompts = &self.plans.defaults().prompts;
        prompts.prompt(&problem.text).map(drop)
    }

    fn resolve(&self, settings: &GeneratorConfig) -> GeneratorConfig {
        let resolved = self.plans.resolve(settings);
        resolved.unwrap_or_else(|_| settings.clone())
    }
}
