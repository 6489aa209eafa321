//! Steps from a language model that a server runs.
//!
//! A step is one request. The tokens of the chain go to the server, and the tokens of the step come
//! back. They are cut here, by the rules of the local generator. A server sees a boundary only
//! within one answer. If a boundary spans two answers, or was white space alone, another request
//! asks for the rest of the step. What a server sampled behind the end of a step is dropped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use beamgen_engine::{Sampled, Tokenizer};
use beamgen_generator::{Closing, Plans, Prompt, Step, Verdict, WritingPlan};
use beamgen_search::{
    Cause, ChainId, DecodeMode, Finish, GenError, Generator, GeneratorConfig, Memory,
    OpenedProblem, PassOutput, Problem, Source, StepOutput, StepPlan,
};
use tokio::task::AbortHandle;

use crate::dialect::{Ask, End, Generated};
use crate::error::BadAnswer;
use crate::inbox::Inbox;
use crate::prefix::Prefix;
use crate::replicas::CallError;
use crate::requests::Requests;
use crate::servers::Connection;

/// The longest that a pass waits when nothing happens. Deadlines and new requests are looked at
/// between passes.
const TURN: Duration = Duration::from_millis(20);

/// What came of a request, and how often it was made again.
pub(crate) type Answered = Result<(Generated, u32), CallError>;

/// A generator whose model runs on other servers.
#[derive(Debug)]
pub struct RemoteGenerator {
    connection: Arc<Connection>,
    requests: Arc<Requests>,
    plans: Plans,
    chains: BTreeMap<ChainId, Chain>,
    /// Chains in the middle of a step.
    active: usize,
    next_chain: u64,
    /// Chains whose step was carried to them whole.
    leftovers: Vec<ChainId>,
    answers: Inbox<(ChainId, Answered)>,
}

#[derive(Debug, Clone)]
struct Chain {
    plan: Arc<WritingPlan>,
    problem: u64,
    prompt_tokens: usize,
    /// Tokens sampled in all steps so far.
    sampled: usize,
    /// The prompt and the steps that are closed.
    prefix: Prefix,
    /// What the last token stands for behind the end of the last step.
    leftover: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// Between steps.
    Idle,
    /// Started, with a step that was carried here whole.
    Leftover(Step, Closing),
    /// Its rest is being sampled: so many tokens at most.
    Asked(
        Step,
        usize,
        #[expect(dead_code, reason = "dropped with the chain")] Arc<Request>,
    ),
    /// Held up.
    Paused(Step),
}

/// A request under way. When it is dropped its connection is closed, and the server stops.
#[derive(Debug)]
struct Request(AbortHandle);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RemoteGenerator {
    pub(crate) fn new(
        connection: Arc<Connection>,
        requests: Arc<Requests>,
        tokenizer: Arc<Tokenizer>,
        config: &GeneratorConfig,
        answers: Inbox<(ChainId, Answered)>,
    ) -> Result<Self, beamgen_generator::Error> {
        Ok(Self {
            plans: Plans::new(config, tokenizer, connection.context())?,
            connection,
            requests,
            chains: BTreeMap::new(),
            active: 0,
            next_chain: 0,
            leftovers: Vec::new(),
            answers,
        })
    }

    /// The servers, for what they are and what they were asked.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
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

    /// Asks for the rest of a step.
    fn ask(&self, id: ChainId, chain: &Chain, step: Step) -> State {
        let plan = &chain.plan;
        let room = plan.room(self.plans.context(), chain.prompt_tokens, chain.sampled);
        let mut longest = plan.config.longest_step().min(step.plan.token_limit);
        if let DecodeMode::PauseAfter(tokens) = step.plan.mode
            && tokens > step.tokens.len()
        {
            longest = longest.min(tokens);
        }
        let max_tokens = longest.saturating_sub(step.tokens.len()).min(room).max(1);
        let mut ids = chain.prefix.tokens(step.tokens.len());
        ids.extend_from_slice(&step.tokens);
        let mut draw = plan.draw(chain.problem, step.plan.stream, chain.sampled);
        let ask = Ask {
            ids,
            max_tokens,
            sampling: plan.sampling(step.plan.mode),
            seed: draw.bits() >> 1,
            stop: plan
                .config
                .boundaries
                .iter()
                .chain(&plan.config.starts)
                .cloned()
                .collect(),
        };
        let (connection, session) = (Arc::clone(&self.connection), chain.problem);
        let tokenizer = Arc::clone(self.plans.tokenizer());
        let sender = self.answers.sender();
        let task = self.requests.spawn(async move {
            let answer = connection.generate(session, &ask, &tokenizer).await;
            sender.send((id, answer));
        });
        State::Asked(step, max_tokens, Arc::new(Request(task.abort_handle())))
    }

    /// Gives a step the tokens that came for it. Returns it if it is closed or paused.
    fn take(&mut self, id: ChainId, generated: Generated) -> Result<Option<StepOutput>, BadAnswer> {
        let (tokenizer, context) = (Arc::clone(self.plans.tokenizer()), self.plans.context());
        let Some(chain) = self.chains.get_mut(&id) else {
            // Released meanwhile.
            return Ok(None);
        };
        let plan = Arc::clone(&chain.plan);
        let State::Asked(step, asked, _) = &mut chain.state else {
            return Ok(None);
        };
        let (asked, mut step) = (*asked, step.clone());
        let Generated {
            mut tokens,
            mut logprobs,
            end,
            ..
        } = generated;
        let ended = end == End::Eos && tokens.last().is_none_or(|&id| !tokenizer.is_eos(id));
        if ended && let Some(&eos) = tokenizer.eos_ids().first() {
            // An engine that keeps the end-of-text token to itself. Its probability is not known.
            tokens.push(eos);
            logprobs.push(0.0);
        }
        if tokens.is_empty() {
            return Err("an answer without a token".into());
        }
        let mut verdict = Verdict::GoesOn;
        let mut used = 0;
        for (&token, &logprob) in tokens.iter().zip(&logprobs) {
            chain.sampled += 1;
            used += 1;
            let room = plan.room(context, chain.prompt_tokens, chain.sampled);
            verdict = step.push(Sampled { token, logprob }, room, &tokenizer, &plan.rules);
            if verdict != Verdict::GoesOn {
                break;
            }
        }
        self.connection.note_discarded(tokens.len() - used);
        if verdict == Verdict::GoesOn && end == End::Limit && used < asked {
            // The server's context is full.
            verdict = Verdict::Closed(step.cut_at(Finish::ChainCap));
        }
        let output = match verdict {
            Verdict::GoesOn => {
                let chain = self.chain(id);
                let state = self.ask(id, chain, step);
                self.set(id, state);
                return Ok(None);
            }
            Verdict::Paused => {
                let output = step.paused(id);
                chain.state = State::Paused(step);
                output
            }
            Verdict::Closed(closing) => {
                let output = step.closed(id, closing);
                chain.close(&output);
                output
            }
        };
        self.active -= 1;
        Ok(Some(output))
    }

    fn set(&mut self, id: ChainId, state: State) {
        if let Some(chain) = self.chains.get_mut(&id) {
            chain.state = state;
        }
    }
}

impl Chain {
    fn close(&mut self, output: &StepOutput) {
        self.prefix.push(output.tokens.clone());
        self.leftover.clone_from(&output.leftover);
        self.state = State::Idle;
    }
}

impl Generator for RemoteGenerator {
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
        let mut prefix = Prefix::default();
        prefix.push(prompt);
        let chain = self.insert(Chain {
            plan,
            problem: key,
            prompt_tokens,
            sampled: 0,
            prefix,
            leftover: Vec::new(),
            state: State::Idle,
        });
        Ok(OpenedProblem {
            chain,
            prompt_tokens,
            strategy_seed,
            thought,
        })
    }

    /// Always starts. Each server's limit decides when the request is sent.
    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        let id = match source {
            Source::Itself(id) => id,
            Source::ForkOf(id) => {
                let copy = self.chain(id).clone();
                self.insert(copy)
            }
        };
        let chain = self.chains.get(&id).expect("just looked at");
        let state = match &chain.state {
            State::Idle => {
                let step = Step::new(plan, chain.leftover.clone());
                match step.is_leftover_step(&chain.plan.rules) {
                    Some(closing) => {
                        self.leftovers.push(id);
                        State::Leftover(step, closing)
                    }
                    None => self.ask(id, chain, step),
                }
            }
            State::Paused(step) => {
                let mut step = step.clone();
                step.plan = plan;
                self.ask(id, chain, step)
            }
            State::Leftover(..) | State::Asked(..) => {
                panic!("a chain is started only between steps")
            }
        };
        self.set(id, state);
        self.active += 1;
        Some(id)
    }

    fn release(&mut self, chain: ChainId) -> usize {
        let chain = self.chains.remove(&chain).expect("no such chain");
        match chain.state {
            State::Idle => 0,
            State::Paused(step) => step.tokens.len(),
            State::Leftover(..) => {
                self.active -= 1;
                0
            }
            // What the server sampled for it since the request is not known.
            State::Asked(step, ..) => {
                self.active -= 1;
                step.tokens.len()
            }
        }
    }

    /// Waits until a step is there, or something else may have happened.
    fn pass(&mut self) -> Result<PassOutput, GenError> {
        let mut output = PassOutput::default();
        for id in std::mem::take(&mut self.leftovers) {
            if let Some(chain) = self.chains.get_mut(&id)
                && let State::Leftover(step, closing) = &chain.state
            {
                let step = step.clone().closed(id, *closing);
                chain.close(&step);
                output.steps.push(step);
            }
        }
        self.active -= output.steps.len();
        let mut answers = self.answers.take();
        if answers.is_empty() && output.steps.is_empty() {
            self.answers.wait(TURN);
            answers = self.answers.take();
        }
        for (id, answer) in answers {
            match answer {
                Ok((generated, retries)) => {
                    if retries > 0 {
                        output.retried.push((id, retries));
                    }
                    match self.take(id, generated) {
                        Ok(step) => output.steps.extend(step),
                        Err(reason) => output
                            .failed
                            .push((id, GenError::Failed(Cause::new(reason)))),
                    }
                }
                Err(error) if error.lost => return Err(GenError::Lost(Cause::new(error))),
                Err(error) => {
                    if self.chains.contains_key(&id) {
                        output
                            .failed
                            .push((id, GenError::Failed(Cause::new(error))));
                    }
                }
            }
        }
        Ok(output)
    }

    fn active(&self) -> usize {
        self.active
    }

    /// The servers manage theirs.
    fn memory(&self) -> Memory {
        Memory {
            used_bytes: 0,
            bytes_per_token: 0,
            capacity_tokens: usize::MAX,
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
