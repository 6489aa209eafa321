//! A generator whose model runs on servers.
//!
//! Each step is a request: the tokens of the chain are sent, and the tokens of the step are
//! received. They are split into steps here, by the rules of the local generator. A server can find
//! a boundary only inside its own answer. If a boundary spans two answers, or the step so far is
//! only white space, another request continues the step. Tokens that a server sampled after the end
//! of a step are dropped.

use std::sync::Arc;
use std::time::Duration;

use beamgen_engine::{Sampled, Tokenizer};
use beamgen_generator::{ChainBook, Plans};
use beamgen_search::{
    Cause, ChainId, Finish, GenError, Generator, GeneratorConfig, Memory, OpenedProblem,
    PassOutput, Prefix, Problem, Source, StepOutput, StepPlan,
};
use tokio::task::AbortHandle;

use crate::dialect::{Ask, End, Generated};
use crate::inbox::Inbox;
use crate::replicas::CallError;
use crate::requests::Requests;
use crate::servers::{Connection, ServerFacts};
use crate::{Error, Remote, probe};

/// The longest time that a pass waits for answers. Between passes the search checks deadlines and
/// new requests.
const TURN: Duration = Duration::from_millis(20);

/// The result of a request, with the number of its retries.
pub(crate) type Answered = Result<(Generated, u32), CallError>;

/// A generator over servers: it sends tokens of chains and receives tokens of steps.
#[derive(Debug)]
pub struct RemoteGenerator {
    connection: Arc<Connection>,
    requests: Arc<Requests>,
    book: ChainBook<Cache>,
    answers: Inbox<(ChainId, Answered)>,
    /// The most alternatives of a token whose log-probabilities the servers report; `None` if they
    /// do not even report the sampled token's own.
    most_logprobs: Option<usize>,
}

#[derive(Debug)]
struct Cache {
    /// The tokens of the prompt and of all closed steps.
    prefix: Prefix,
    /// The running request for the rest of a step, and the number of tokens that it may sample.
    request: Option<(usize, Request)>,
}

/// A running request. Dropping it closes the connection, and the server stops sampling.
#[derive(Debug)]
struct Request(AbortHandle);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Remote {
    /// Makes a generator over connected servers, after the module `probe` has tested them.
    ///
    /// # Errors
    /// The tokenizer belongs to another model, the servers ignore a field, or a setting is invalid.
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
        let most_logprobs = match facts.likelihoods {
            Some(true) if connection.dialect.has_alternatives() => {
                Some(GeneratorConfig::MOST_LOGPROBS)
            }
            Some(true) => Some(0),
            _ => None,
        };
        let generator = RemoteGenerator {
            most_logprobs,
            book: ChainBook::new(plans),
            connection: Arc::new(connection),
            requests: Arc::clone(&self.requests),
            answers: Inbox::new(self.bell.clone()),
        };
        Ok((generator, facts))
    }
}

impl RemoteGenerator {
    /// Returns the connection, which has facts about the servers and counts of requests.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Sends a request for the rest of a running step.
    fn ask(&mut self, id: ChainId) {
        let chain = self.book.chain(id);
        let Some(step) = chain.running() else { return };
        let plan = &chain.plan;
        let max_tokens = chain.most_next().max(1);
        let mut ids = chain.cache.prefix.tokens(step.tokens.len());
        ids.extend_from_slice(&step.tokens);
        // The seed is taken from the random numbers of the chain's position. So an equal request in
        // another run has an equal seed.
        let (sampling, mut rng) = chain.sampling();
        let ask = Ask {
            ids,
            max_tokens,
            sampling,
            seed: rng.bits() >> 1,
            stop: chain.marks(),
            alternatives: plan.config.logprobs.unwrap_or(0),
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

    /// Adds received tokens to a step. Returns the step if it is closed or paused.
    fn take(&mut self, id: ChainId, generated: Generated) -> Result<Option<StepOutput>, String> {
        let tokenizer = Arc::clone(&self.book.plans().tokenizer);
        // While the request was running, the chain may have been released or closed.
        let request = self.book.cache(id).and_then(|cache| cache.request.take());
        let Some((asked, _)) = request else {
            return Ok(None);
        };
        let (mut tokens, mut logprobs) = (generated.tokens, generated.logprobs);
        let end = generated.end;
        let ended = end == End::Eos && tokens.last().is_none_or(|&id| !tokenizer.is_eos(id));
        if ended && let Some(&eos) = tokenizer.eos_ids().first() {
            // Some engines leave out the end-of-text token, so its log-probability is unknown. With
            // 0 it does not change the chain's sum.
            tokens.push(eos);
            logprobs.push(0.0);
        }
        if tokens.is_empty() {
            return Err("the answer has no tokens".into());
        }
        let (mut output, mut is_cut) = (None, false);
        let mut used = 0;
        for (at, (&token, &logprob)) in tokens.iter().zip(&logprobs).enumerate() {
            used += 1;
            let sampled = Sampled { token, logprob };
            if self.book.chain(id).plan.config.logprobs.is_some() {
                let likeliest = generated.likeliest.get(at).map_or(&[][..], Vec::as_slice);
                self.book.keep_logprobs(id, sampled, likeliest);
            }
            let added = self.book.push(id, sampled).1;
            let closes_thought = added.closes_thought();
            output = added.step;
            // The tokens after a thought that was closed continue another text.
            if output.is_some() || closes_thought {
                is_cut = true;
                break;
            }
        }
        let discarded = (tokens.len() - used) as u64;
        self.connection.replicas.traffic().discarded_tokens += discarded;
        if !is_cut && end == End::Limit && used < asked {
            // The server sampled fewer tokens than requested, so its context is full. Another
            // request would get no further.
            output = Some(self.book.cut(id, Finish::ChainCap));
        }
        // A step that is still running needs another request.
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
        settings.check_without_logits(self.most_logprobs)?;
        self.book.open(problem, key, settings, |prompt| {
            let mut prefix = Prefix::default();
            prefix.push(prompt);
            let request = None;
            Ok(Cache { prefix, request })
        })
    }

    /// Starts a step and always succeeds: each server's limit decides when the request is sent.
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

    /// Releases a chain and returns the number of its unfinished step's tokens. Tokens that a
    /// server has sampled but not sent are unknown.
    fn release(&mut self, chain: ChainId) -> usize {
        self.book.release(chain).unfinished()
    }

    /// Waits at most 20 ms for answers for any chains.
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
                // The chain was released while the request was running, so its failure has no
                // effect.
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

    /// Returns unlimited memory, since servers manage their own memory.
    fn close_thoughts(&mut self, chains: &[ChainId]) {
        self.book.close_thoughts(chains);
    }

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
