//! Step scores from a reward model that a server runs.

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
use crate::route::Route;
use crate::servers::{Connection, ServerFacts};
use crate::{Error, Remote, probe};

/// The longest that a search waits for scores before it looks around.
const TURN: Duration = Duration::from_millis(20);

/// A scorer whose reward model runs on other servers. Each new step is one request. The server
/// reads what it does not have in its cache of the chain.
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
    /// Numbers of the batches of [`Scorer::score`], which nobody collects, count down.
    next_own: u64,
}

#[derive(Debug, Clone)]
struct Chain {
    session: u64,
    /// The prompt's text.
    prompt: Arc<str>,
    tokens: Prefix,
    steps: usize,
}

/// A request for scores of one chain.
struct Wanted {
    ids: Vec<u32>,
    /// Rows that the answer has to have; the last ones are of the new steps.
    rows: usize,
    /// How many of the rows are wanted.
    new: usize,
    /// New tokens of the chain.
    tokens: usize,
}

impl Remote {
    /// A scorer over these servers, for a reward model that is read as `spec` says. A chain is
    /// scored first.
    ///
    /// # Errors
    /// The engine cannot serve such a reward model exactly, the tokenizer is another model's, or
    /// the server gives no scores.
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
        let (route, facts) = self.requests.wait(async {
            probe::tokenizer(&connection, &tokenizer).await?;
            probe::scorer(&connection, &writer, spec.normaliser, route).await
        })?;
        let scorer = RemoteScorer {
            connection: Arc::new(connection),
            requests: Arc::clone(&self.requests),
            writer,
            normaliser: spec.normaliser,
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
    /// See [`RewardModel::share_tokens`](beamgen_prm::RewardModel::share_tokens).
    pub fn share_tokens(&mut self, same_tokenizer: bool) {
        self.writer.share_tokens(same_tokenizer);
    }

    /// The servers, for what they are and what they were asked.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    fn insert(&mut self, chain: Chain) -> ScoreId {
        self.next += 1;
        let id = ScoreId(self.next);
        self.chains.insert(id, chain);
        id
    }

    /// Appends the steps of an item to its chain, and lists the requests that they take.
    fn plan(&mut self, item: &ScoreItem<'_>) -> Result<Vec<Wanted>, ScoreError> {
        let context = self.connection.context();
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
        let whole = before + tokens.len();
        // A label's place is behind the last token.
        if whole >= context {
            return Err(ScoreError::TooLong {
                tokens: whole,
                context,
            });
        }
        let added = tokens.len();
        chain.tokens.push(tokens);
        chain.steps += item.steps.len();
        let ids = chain.tokens.tokens(0);
        Ok(match *self.route {
            Route::Steps => vec![Wanted {
                rows: chain.steps,
                new: item.steps.len(),
                tokens: added,
                ids,
            }],
            Route::Labels(_) | Route::Classify => {
                let mut read = 0;
                let wanted = |&mark: &usize| {
                    let new = mark + 1 - read;
                    read = mark + 1;
                    Wanted {
                        ids: ids[..before + mark + 1].to_vec(),
                        rows: 1,
                        new: 1,
                        tokens: new,
                    }
                };
                marks.iter().map(wanted).collect()
            }
        })
    }

    fn start(&mut self, id: BatchId, items: &[ScoreItem<'_>]) {
        let mut asked = Vec::with_capacity(items.len());
        for item in items {
            let session = self.chains.get(&item.id).map_or(0, |chain| chain.session);
            let wanted = self.plan(item);
            let (connection, route) = (Arc::clone(&self.connection), Arc::clone(&self.route));
            let normaliser = self.normaliser;
            asked.push(self.requests.spawn(async move {
                let mut scored = Scored::default();
                // One after the other: each step finds the one before it in the cache.
                for wanted in wanted? {
                    let (connection, scored) = (&connection, &mut scored);
                    ask(connection, &route, normaliser, session, &wanted, scored).await?;
                }
                Ok::<_, ScoreError>(scored)
            }));
        }
        let done = self.done.sender();
        self.requests.spawn(async move {
            let mut results = Vec::with_capacity(asked.len());
            for item in asked {
                let result = item.await;
                // A task that panicked.
                let failed = |error| Err(ScoreError::Failed(Cause::new(error)));
                results.push(result.unwrap_or_else(failed));
            }
            let lost = |result: &&Result<_, _>| matches!(result, Err(ScoreError::Lost(_)));
            let result = match results.iter().find(lost) {
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
    normaliser: Normaliser,
    session: u64,
    wanted: &Wanted,
    scored: &mut Scored,
) -> Result<(), ScoreError> {
    let answer = connection
        .score(session, route, normaliser, &wanted.ids, wanted.rows)
        .await;
    let (scores, usage, retries) = answer.map_err(|error: CallError| {
        if error.lost {
            ScoreError::Lost(Cause::new(error))
        } else {
            ScoreError::Failed(Cause::new(error))
        }
    })?;
    let new = scores.len().saturating_sub(wanted.new);
    let given = scores[new..].iter().copied().map(Some);
    scored.probabilities.extend(given);
    // What the server says it found in its cache; if it does not say, what it could have.
    let cached = match (usage.cached, route) {
        (Some(cached), _) => usize::try_from(cached).unwrap_or(usize::MAX),
        (None, Route::Steps) => 0,
        (None, _) => wanted.ids.len() - wanted.tokens,
    };
    let cached = cached.min(wanted.ids.len());
    scored.retries += retries;
    scored.reused_tokens += cached;
    scored.read_tokens += wanted.ids.len() - cached;
    Ok(())
}

impl Scorer for RemoteScorer {
    fn open(&mut self, problem: &Problem, key: u64) -> Result<ScoreId, ScoreError> {
        let context = self.connection.context();
        let (text, tokens) = self.writer.prompt(&problem.with_context(), context)?;
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
        }))
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
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

    /// The servers manage theirs.
    fn memory(&self) -> Memory {
        Memory::default()
    }
}
