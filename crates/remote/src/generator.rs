//! Steps from a language model that a server runs.
//!
//! A step is one request. The tokens of the chain go to the server, and the tokens of the step come
//! back. They are cut here, by the rules of the local generator. A server sees a boundary only
//! within one answer. If a boundary spans two answers, or was white space alone, another request
//! asks for the rest of the step. What a server sampled behind the end of a step is dropped.

use std::sync::Arc;
use std::time::Duration;

use beamgen_engine::{Sampled, Tokenizer};
use beamgen_generator::{ChainBook, Plans};
use beamgen_search::{
    Cause, ChainId, DecodeMode, Finish, GenError, Generator, GeneratorConfig, Memory,
    OpenedProblem, PassOutput, Prefix, Problem, Source, StepOutput, StepPlan,
};
use tokio::task::AbortHandle;

use crate::dialect::{Ask, End, Generated};
use crate::inbox::Inbox;
use crate::replicas::CallError;
use crate::requests::Requests;
use crate::servers::{Connection, ServerFacts};
use crate::{Error, Remote, probe};

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
    book: ChainBook<Cache>,
    answers: Inbox<(ChainId, Answered)>,
}

#[derive(Debug)]
struct Cache {
    /// The prompt and the steps that are closed.
    prefix: Prefix,
    /// The request for the rest of a step, and the most tokens that it asks for.
    request: Option<(usize, Request)>,
}

/// A request under way. When it is dropped its connection is closed, and the server stops.
#[derive(Debug)]
struct Request(AbortHandle);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Remote {
    /// A generator over these servers. What it needs of them is tried first.
    ///
    /// # Errors
    /// The tokenizer is another model's, a server does not act on what it is sent, or a setting
    /// cannot be followed.
    pub fn generator(
        &self,
        connection: Connection,
        tokenizer: Arc<Tokenizer>,
        config: &GeneratorConfig,
    ) -> Result<(RemoteGenerator, ServerFacts), Error> {
        let facts = self
            .requests
            .wait(probe::generator(&connection, &tokenizer))?;
        let plans = Plans::new(config, tokenizer, connection.context())?;
        let generator = RemoteGenerator {
            book: ChainBook::new(plans),
            connection: Arc::new(connection),
            requests: Arc::clone(&self.requests),
            answers: Inbox::new(self.bell.clone()),
        };
        Ok((generator, facts))
    }
}

impl RemoteGenerator {
    /// The servers, for what they are and what they were asked.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Asks for the rest of a step that needs tokens.
    fn ask(&mut self, id: ChainId) {
        let chain = self.book.chain(id);
        let Some(step) = chain.running() else { return };
        let plan = &chain.plan;
        let mut longest = plan.config.longest_step().min(step.plan.token_limit);
        if let DecodeMode::PauseAfter(tokens) = step.plan.mode
            && tokens > step.tokens.len()
        {
            longest = longest.min(tokens);
        }
        let max_tokens = longest
            .saturating_sub(step.tokens.len())
            .min(chain.room())
            .max(1);
        let mut ids = chain.cache.prefix.tokens(step.tokens.len());
        ids.extend_from_slice(&step.tokens);
        let (sampling, mut draw) = chain.sampling();
        let ask = Ask {
            ids,
            max_tokens,
            sampling,
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
        let tokenizer = Arc::clone(&self.book.plans().tokenizer);
        let sender = self.answers.sender();
        let task = self.requests.spawn(async move {
            let answer = connection.generate(session, &ask, &tokenizer).await;
            sender.send((id, answer));
        });
        if let Some(cache) = self.book.cache(id) {
            cache.request = Some((max_tokens, Request(task.abort_handle())));
        }
    }

    /// Gives a step the tokens that came for it. Returns it if it is closed or paused.
    fn take(&mut self, id: ChainId, generated: Generated) -> Result<Option<StepOutput>, String> {
        let tokenizer = Arc::clone(&self.book.plans().tokenizer);
        // A chain without a request was released or closed meanwhile.
        let request = self.book.cache(id).and_then(|cache| cache.request.take());
        let Some((asked, _)) = request else {
            return Ok(None);
        };
        let (mut tokens, mut logprobs) = (generated.tokens, generated.logprobs);
        let end = generated.end;
        let ended = end == End::Eos && tokens.last().is_none_or(|&id| !tokenizer.is_eos(id));
        if ended && let Some(&eos) = tokenizer.eos_ids().first() {
            // An engine that keeps the end-of-text token to itself. Its probability is not known.
            tokens.push(eos);
            logprobs.push(0.0);
        }
        if tokens.is_empty() {
            return Err("an answer without a token".into());
        }
        let mut output = None;
        let mut used = 0;
        for (&token, &logprob) in tokens.iter().zip(&logprobs) {
            used += 1;
            output = self.book.push(id, Sampled { token, logprob }).1;
            if output.is_some() {
                break;
            }
        }
        let discarded = (tokens.len() - used) as u64;
        self.connection.replicas.traffic().discarded_tokens += discarded;
        if output.is_none() && end == End::Limit && used < asked {
            // The server's context is full.
            output = Some(self.book.cut(id, Finish::ChainCap));
        }
        match (&output, self.book.cache(id)) {
            (Some(step), Some(cache)) if !step.paused => cache.prefix.push(step.tokens.clone()),
            (None, _) => self.ask(id),
            _ => {}
        }
        Ok(output)
    }
}

impl Generator for RemoteGenerator {
    fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError> {
        self.book.open(problem, key, settings, |prompt| {
            let mut prefix = Prefix::default();
            prefix.push(prompt);
            let request = None;
            Ok(Cache { prefix, request })
        })
    }

    /// Always starts. Each server's limit decides when the request is sent.
    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        let (Source::Itself(from) | Source::ForkOf(from)) = source;
        let state = self.book.next_state(from, plan);
        let id = self.book.start(source, state, |cache| Cache {
            prefix: cache.prefix.clone(),
            request: None,
        });
        self.ask(id);
        Some(id)
    }

    /// Tokens that a server sampled since the request are not known.
    fn release(&mut self, chain: ChainId) -> usize {
        self.book.release(chain).unfinished()
    }

    /// Waits until a step is there, or something else may have happened.
    fn pass(&mut self) -> Result<PassOutput, GenError> {
        let mut output = PassOutput::from(self.book.close_leftovers());
        let mut answers = self.answers.take();
        if answers.is_empty() && output.steps.is_empty() {
            self.answers.wait(TURN);
            answers = self.answers.take();
        }
        for (id, answer) in answers {
            let cause = match answer {
                Ok((generated, retries)) => {
                    if retries > 0 {
                        output.retried.push((id, retries));
                    }
                    match self.take(id, generated) {
                        Ok(step) => {
                            output.steps.extend(step);
                            continue;
                        }
                        Err(reason) => Cause::from(reason),
                    }
                }
                Err(error) if error.lost => return Err(GenError::Lost(Cause::new(error))),
                Err(error) if self.book.cache(id).is_some() => Cause::new(error),
                Err(_) => continue,
            };
            output.failed.push((id, GenError::Failed(cause)));
        }
        self.book.drop_idle();
        Ok(output)
    }

    fn active(&self) -> usize {
        self.book.active().len()
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
        self.book.plans().check(problem)
    }

    fn resolve(&self, settings: &GeneratorConfig) -> GeneratorConfig {
        self.book.plans().resolve(settings)
    }
}
