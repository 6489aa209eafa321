//! A scorer whose reward model runs on servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use beamgen_engine::Tokenizer;
use beamgen_prm::{ChainWriter, Normaliser, PrmSpec};
use beamgen_search::{
    BatchId, Cause, Memory, Prefix, Problem, ScoreError, ScoreId, ScoreItem, ScoreResult, Scored,
    Scorer, Submitted,
};

use crate::inbox::Inbox;
use crate::replicas::CallError;
use crate::requests::Requests;
use crate::route::{Asked, Route};
use crate::servers::{Connection, ServerFacts};
use crate::{Error, Remote, probe};

/// The longest wait for scores, after which the search checks other events.
const TURN: Duration = Duration::from_millis(20);

/// A scorer over servers. Each new step is a request, for which the server reads the tokens that
/// are not in its cache.
#[derive(Debug)]
pub struct RemoteScorer {
    connection: Arc<Connection>,
    requests: Arc<Requests>,
    writer: ChainWriter,
    normaliser: Normaliser,
    route: Arc<Route>,
    chains: BTreeMap<ScoreId, Chain>,
    next: u64,
    done: Inbox<(BatchId, ScoreResult)>,
    /// The number of the next batch of [`Scorer::score`]. These numbers count down from the
    /// largest, so they never equal a number that the caller chose for [`Scorer::submit`].
    next_own: u64,
}

#[derive(Debug, Clone)]
struct Chain {
    session: u64,
    /// The text of the prompt in the reward model's format.
    prompt: Arc<str>,
    tokens: Prefix,
    steps: usize,
    /// The chain's texts for [`Route::Chat`]; `None` for other routes.
    texts: Option<Texts>,
}

/// A problem and the steps of a chain.
#[derive(Debug, Clone)]
struct Texts {
    problem: Arc<str>,
    steps: Vec<Arc<str>>,
}

/// A request for the scores of one chain.
struct Wanted {
    asked: Asked,
    /// The number of rows that the answer must have. The last of them are for new steps.
    rows: usize,
    /// The number of rows that are for new steps.
    new: usize,
    /// The number of tokens that the chain did not have before.
    tokens: usize,
}

impl Remote {
    /// Makes a scorer over connected servers for a reward model of the format `spec`, after a test
    /// in which the servers score a chain.
    ///
    /// # Errors
    /// The engine cannot serve this reward model exactly, the tokenizer belongs to another model,
    /// or the servers return no scores.
    pub fn scorer(
        &self,
        connection: Connection,
        tokenizer: Arc<Tokenizer>,
        spec: &PrmSpec,
    ) -> Result<(RemoteScorer, ServerFacts), Error> {
        let route = Route::of(spec, &tokenizer, connection.dialect);
        let route = route.map_err(|reason| connection.unfit(reason))?;
        let path = tokenizer.checkpoint().to_owned();
        let writer = ChainWriter::new(spec, Arc::clone(&tokenizer), &path)?;
        if !writer.question().is_empty() && !matches!(route, Route::Labels(_) | Route::Chat(_)) {
            let reason = "a question after each step needs a head of label tokens on servers";
            return Err(connection.unfit(format!("{}: {reason}", spec.name)));
        }
        let (route, facts) = self.requests.wait(async {
            probe::tokenizer(&connection, &tokenizer).await?;
            probe::scorer(&connection, &writer, &spec.normaliser, route).await
        })?;
        let scorer = RemoteScorer {
            connection: Arc::new(connection),
            requests: Arc::clone(&self.requests),
            writer,
            normaliser: spec.normaliser.clone(),
            route: Arc::new(route),
            chains: BTreeMap::new(),
            next: 0,
            done: Inbox::new(self.bell.clone()),
            next_own: u64::MAX,
        };
        Ok((scorer, facts))
    }
}

impl RemoteScorer {
    /// Sets whether the generator has the same tokenizer, as
    /// [`RewardModel::share_tokens`](beamgen_prm::RewardModel::share_tokens) does.
    pub fn share_tokens(&mut self, same_tokenizer: bool) {
        self.writer.share_tokens(same_tokenizer);
    }

    /// Returns the connection, which has facts about the servers and counts of requests.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    fn insert(&mut self, chain: Chain) -> ScoreId {
        self.next += 1;
        let id = ScoreId(self.next);
        self.chains.insert(id, chain);
        id
    }

    /// Appends the steps of an item to its chain, and returns the requests for their scores.
    fn plan(&mut self, item: &ScoreItem<'_>) -> Result<Vec<Wanted>, ScoreError> {
        let context = self.connection.context();
        // Checked before anything is appended: a refused item does not change its chain.
        self.writer.check_steps(&item.steps, context)?;
        let chain = self.chains.get_mut(&item.id).expect("no such scored chain");
        let before = chain.tokens.len();
        let mut tokens = Vec::new();
        let mut marks = Vec::with_capacity(item.steps.len());
        for (i, step) in item.steps.iter().enumerate() {
            let number = chain.steps + i + 1;
            marks.push(
                self.writer
                    .append(&chain.prompt, step, number, &mut tokens)?,
            );
        }
        let whole = before + tokens.len() + self.writer.question().len();
        // The label is predicted after the last token, so the context needs room for one more
        // token.
        if whole >= context {
            return Err(ScoreError::TooLong {
                tokens: whole,
                context,
            });
        }
        let added = tokens.len();
        let mut messages = Vec::new();
        if let Some(texts) = &mut chain.texts {
            let mut grown = texts.steps.clone();
            grown.extend(item.steps.iter().map(|step| Arc::from(step.text)));
            let steps: Vec<&str> = grown.iter().map(|step| &**step).collect();
            for end in texts.steps.len() + 1..=steps.len() {
                let written = self.writer.messages(&texts.problem, &steps[..end])?;
                messages.push(written.unwrap_or_default());
            }
            texts.steps = grown;
        }
        chain.tokens.push(tokens);
        chain.steps += item.steps.len();
        let ids = chain.tokens.tokens(0);
        Ok(match *self.route {
            Route::Steps => vec![Wanted {
                rows: chain.steps,
                new: item.steps.len(),
                tokens: added,
                asked: Asked {
                    ids,
                    messages: Vec::new(),
                },
            }],
            Route::Labels(_) | Route::Chat(_) | Route::Classify => {
                let mut read = 0;
                let mut messages = messages.into_iter();
                marks
                    .iter()
                    .map(|&mark| {
                        let new = mark + 1 - read;
                        read = mark + 1;
                        let question = self.writer.question();
                        Wanted {
                            asked: Asked {
                                ids: [&ids[..before + mark + 1], question].concat(),
                                messages: messages.next().unwrap_or_default(),
                            },
                            rows: 1,
                            new: 1,
                            tokens: new + question.len(),
                        }
                    })
                    .collect()
            }
        })
    }

    fn start(&mut self, id: BatchId, items: &[ScoreItem<'_>]) {
        let mut asked = Vec::with_capacity(items.len());
        for item in items {
            let session = self.chains.get(&item.id).map_or(0, |chain| chain.session);
            let wanted = self.plan(item);
            let (connection, route) = (Arc::clone(&self.connection), Arc::clone(&self.route));
            let normaliser = self.normaliser.clone();
            asked.push(self.requests.spawn(async move {
                let mut scored = Scored::default();
                // One after the other, so that each request finds the step before in the server's
                // cache.
                for wanted in wanted? {
                    let (connection, scored) = (&connection, &mut scored);
                    ask(connection, &route, &normaliser, session, &wanted, scored).await?;
                }
                Ok::<_, ScoreError>(scored)
            }));
        }
        let done = self.done.sender();
        self.requests.spawn(async move {
            let mut results = Vec::with_capacity(asked.len());
            for item in asked {
                let result = item.await;
                // This error means that the task has panicked.
                results.push(
                    result.unwrap_or_else(|error| Err(ScoreError::Failed(Cause::new(error)))),
                );
            }
            // If a server is lost, the whole batch fails: all other requests would fail, too.
            let result = match results
                .iter()
                .find(|result| matches!(result, Err(ScoreError::Lost(_))))
            {
                Some(Err(error)) => Err(error.clone()),
                _ => Ok(results),
            };
            done.send((id, result));
        });
    }
}

async fn ask(
    connection: &Connection,
    route: &Route,
    normaliser: &Normaliser,
    session: u64,
    wanted: &Wanted,
    scored: &mut Scored,
) -> Result<(), ScoreError> {
    let answer = connection
        .score(session, route, normaliser, &wanted.asked, wanted.rows)
        .await;
    let (scores, usage, retries) = answer.map_err(|error: CallError| {
        if error.lost {
            ScoreError::Lost(Cause::new(error))
        } else {
            ScoreError::Failed(Cause::new(error))
        }
    })?;
    // The route of steps also returns rows of old steps; the new ones come last.
    let new = scores.len().saturating_sub(wanted.new);
    let given = scores[new..].iter().copied().map(Some);
    scored.probabilities.extend(given);
    // Without a report by the server, all tokens that it has read before count as cached.
    let cached = match (usage.cached, route) {
        (Some(cached), _) => usize::try_from(cached).unwrap_or(usize::MAX),
        (None, Route::Steps) => 0,
        (None, _) => wanted.asked.ids.len() - wanted.tokens,
    };
    let cached = cached.min(wanted.asked.ids.len());
    scored.retries += retries;
    scored.reused_tokens += cached;
    scored.read_tokens += wanted.asked.ids.len() - cached;
    Ok(())
}

impl Scorer for RemoteScorer {
    fn open(&mut self, problem: &Problem, key: u64) -> Result<ScoreId, ScoreError> {
        let context = self.connection.context();
        let asked = problem.with_context();
        let (text, tokens) = self.writer.prompt(&asked, context)?;
        if tokens.len() >= context {
            return Err(ScoreError::TooLong {
                tokens: tokens.len(),
                context,
            });
        }
        let mut prefix = Prefix::default();
        prefix.push(tokens);
        Ok(self.insert(Chain {
            session: key,
            prompt: text.into(),
            tokens: prefix,
            steps: 0,
            texts: matches!(*self.route, Route::Chat(_)).then(|| Texts {
                problem: asked.into(),
                steps: Vec::new(),
            }),
        }))
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        // A fork shares the tokens of its chain, and a server has no state of chains.
        let copy = self.chains.get(&id).expect("no such scored chain").clone();
        self.insert(copy)
    }

    fn release(&mut self, id: ScoreId) {
        self.chains.remove(&id).expect("no such scored chain");
    }

    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult {
        let id = BatchId(self.next_own);
        self.next_own -= 1;
        self.start(id, items);
        let mut others = Vec::new();
        loop {
            for (batch, result) in self.done.take() {
                if batch == id {
                    let sender = self.done.sender();
                    // Answers of other batches that arrived meanwhile go back, so that `collect`
                    // finds them.
                    for other in others.into_iter() {
                        sender.send(other);
                    }
                    return result;
                }
                others.push((batch, result));
            }
            self.done.wait(TURN);
        }
    }

    fn submit(&mut self, batch: BatchId, items: &[ScoreItem<'_>]) -> Submitted {
        self.start(batch, items);
        Submitted::Pending
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, ScoreResult)> {
        let mut done = self.done.take();
        if done.is_empty() && wait {
            self.done.wait(TURN);
            done = self.done.take();
        }
        done
    }

    /// Returns empty memory, since servers manage their own memory.
    fn memory(&self) -> Memory {
        Memory::default()
    }
}
