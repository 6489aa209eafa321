//! Scoring: the steps of all problems go to the scorer together, and each distinct text once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::active::{ActiveProblem, Stage};
use super::contents::{ContentId, StepScore};
use super::live::Look;
use super::{Context, Scheduler};
use crate::error::{Cause, ScoreError, SearchError};
use crate::event::ChainEvent;
use crate::finish::Finish;
use crate::given::{GivenChain, GivenReply, GivenScores, problem_of, send_scores, steps_of};
use crate::ledger::{Flops, JudgeSpent, Ledger};
use crate::scorer::{
    BatchId, JudgeScores, Opinion, ScoreId, ScoreItem, ScoreResult, Scored, Scorer, StepRef,
    Submitted, is_probability,
};
use crate::tree::{ChainTree, NodeId, State};

/// The unscored steps of one text, which the scorer appends to the chain `id`.
struct ScoreRequest {
    index: usize,
    /// Identifies the start of the problem that asked. After a restart the reply is ignored.
    epoch: u64,
    steps: Vec<ContentId>,
    id: ScoreId,
}

/// The number of the next batch, unique in this process. A run may end without waiting for its
/// batches, so a scorer may still answer a batch of an earlier run.
static NEXT_BATCH: AtomicU64 = AtomicU64::new(0);

/// The bytes of text after which a batch of given chains is full: some thousand tokens, which fill a
/// pass.
const GIVEN_BYTES: usize = 32 << 10;

/// The bytes of text after which a batch of given chains is full while problems are in flight. A
/// small batch, since the problems wait until it is read.
const GIVEN_BYTES_BESIDE: usize = 2 << 10;

/// The most given chains in a batch, however short they are.
const GIVEN_CHAINS: usize = 256;

/// The batches that the scorer has not answered yet.
pub(super) struct PendingBatches {
    batches: BTreeMap<BatchId, (Vec<ScoreRequest>, Duration)>,
    /// The callbacks of chains that are scored outside of any search, in the order of their batch.
    pub given: BTreeMap<BatchId, Vec<GivenReply>>,
    /// The moment until which given chains wait while problems are in flight.
    given_from: Duration,
    /// The first batch of this run; lower numbers belong to earlier runs.
    first: BatchId,
}

impl PendingBatches {
    pub(super) fn new() -> Self {
        Self {
            batches: BTreeMap::new(),
            given: BTreeMap::new(),
            given_from: Duration::ZERO,
            first: BatchId(NEXT_BATCH.load(Ordering::Relaxed)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.given.is_empty()
    }
}

pub(super) fn next_batch() -> BatchId {
    BatchId(NEXT_BATCH.fetch_add(1, Ordering::Relaxed))
}

impl Scheduler<'_, '_> {
    /// Scores the waiting steps of all problems that can do nothing but wait for scores. A
    /// problem's steps gather until then, so the number of its scorer calls does not depend on the
    /// other problems. Returns whether there was such a problem.
    pub(super) fn score_ready(&mut self) -> Result<bool, SearchError> {
        if self.cx.models.scorer.is_none() {
            return Ok(false);
        }
        // Scores that have arrived may let problems continue in this turn, so they are taken in
        // first.
        if !self.batches.is_empty() {
            self.collect_scores(false)?;
        }
        let stalled = self.cx.models.generator.active() == 0;
        // A problem becomes due only by a change, so unchanged problems are skipped. But if no
        // chain is growing, no step will close, and every problem with waiting steps is due.
        let changed = self.live.changed(Look::Score);
        let mut due: Vec<usize> = if stalled {
            self.live.iter().map(|(index, _)| index).collect()
        } else {
            changed
        };
        due.retain(|&index| {
            let live = self.live.get(index);
            live.is_some_and(|live| live.is_due(stalled))
        });
        let any = !due.is_empty();
        loop {
            // Texts may share unread steps. One call reads the shared steps; the next call forks
            // from their end and reads the rest. So no step is read twice.
            self.share_out(&due);
            let requests = self.gather(&due);
            if requests.is_empty() {
                break;
            }
            self.read(requests)?;
            // A problem with a pending batch continues only when the scores arrive.
            let live = &self.live;
            due.retain(|index| {
                live.get(*index)
                    .is_some_and(|live| live.contents.batches == 0)
            });
        }
        for index in &due {
            if let Some(live) = self.live.get_mut(*index) {
                if live.stage == Stage::FinalScoring {
                    live.done(&mut self.cx);
                } else {
                    live.release_read(&mut self.cx);
                }
            }
        }
        Ok(any)
    }

    /// Copies the scores of texts that are already scored to the nodes that wait for them.
    fn share_out(&mut self, due: &[usize]) {
        for index in due {
            let Some(live) = self.live.get_mut(*index) else {
                continue;
            };
            for node in std::mem::take(&mut live.steps.ready) {
                let content = live.resources[node].content.unwrap_or(ContentId::ROOT);
                if live.contents.scored(content).is_none() {
                    live.steps.ready.push(node);
                    continue;
                }
                live.take_scores(node, &mut self.cx);
                live.after_scores(node, &mut self.cx);
            }
        }
    }

    /// Returns the next steps to read. Steps that several chains of a problem begin with are one
    /// request.
    fn gather(&mut self, due: &[usize]) -> Vec<ScoreRequest> {
        let mut requests = Vec::new();
        for &index in due {
            let Some(live) = self.live.get_mut(index) else {
                continue;
            };
            for (from, steps) in live.beginnings() {
                let source = live.contents.handle(from);
                if let (Some(source), Some(scorer)) = (source, self.cx.models.scorer.as_mut()) {
                    let id = scorer.fork(source);
                    // The handle is stored before the scores arrive, so that the next text can be
                    // forked from it.
                    if let Some(&end) = steps.last() {
                        live.contents.at(end).handle = Some(id);
                    }
                    requests.push(ScoreRequest {
                        index,
                        epoch: live.epoch,
                        steps,
                        id,
                    });
                }
            }
        }
        requests
    }

    /// Submits a batch. If the scorer answers at once, the scores are taken in here.
    fn read(&mut self, requests: Vec<ScoreRequest>) -> Result<(), SearchError> {
        let before = self.cx.models.clock.now();
        let items: Vec<ScoreItem<'_>> = requests
            .iter()
            .filter_map(|request| {
                let live = self.live.get(request.index)?;
                Some(ScoreItem {
                    id: request.id,
                    steps: step_refs(live, &request.steps),
                })
            })
            .collect();
        let Some(scorer) = self.cx.models.scorer.as_mut() else {
            return Ok(());
        };
        let batch = next_batch();
        let submitted = scorer.submit(batch, &items);
        drop(items);
        match submitted {
            Submitted::Done(scored) => self.take_batch(&requests, scored, before),
            // Counted for each problem: the caches of its texts must stay until the batch is
            // answered.
            Submitted::Pending => {
                for request in first_of_each(&requests) {
                    if let Some(live) = self.live.get_mut(request.index) {
                        live.contents.batches += 1;
                    }
                }
                self.batches.batches.insert(batch, (requests, before));
                Ok(())
            }
        }
    }

    /// Submits chains that are to be scored outside of any search. Returns whether there was any.
    pub(super) fn score_given(&mut self) -> bool {
        let begun = self.cx.models.clock.now();
        let is_alone = self.live.is_empty();
        // The problems had to wait while the last batch was read, so they now get as much time for
        // themselves.
        if !is_alone && begun < self.batches.given_from {
            return false;
        }
        let most = if is_alone {
            GIVEN_BYTES
        } else {
            GIVEN_BYTES_BESIDE
        };
        let (mut chains, mut bytes) = (Vec::new(), 0);
        while bytes < most && chains.len() < GIVEN_CHAINS {
            let Some(given) = self.requests.intake.given() else {
                break;
            };
            bytes += given.bytes();
            chains.push(given);
        }
        let any = !chains.is_empty();
        self.submit_given(chains);
        let ended = self.cx.models.clock.now();
        self.batches.given_from = ended + ended.saturating_sub(begun);
        any
    }

    fn submit_given(&mut self, chains: Vec<GivenChain>) {
        let Some(scorer) = self.cx.models.scorer.as_mut() else {
            for given in chains {
                let cause = Cause::from("there is none under these settings");
                (given.reply)(Err(ScoreError::Failed(cause)));
            }
            return;
        };
        let (mut texts, mut ids, mut replies) = (Vec::new(), Vec::new(), Vec::new());
        // Chains of one problem share its prompt, which is then read once.
        let mut opened: BTreeMap<String, ScoreId> = BTreeMap::new();
        for given in chains {
            if given.steps.iter().all(|step| step.trim().is_empty()) {
                (given.reply)(Ok(GivenScores::default()));
                continue;
            }
            let id = if let Some(&id) = opened.get(&given.problem) {
                Ok(scorer.fork(id))
            } else {
                let problem = problem_of(&given.problem);
                scorer.open(&problem, problem.key())
            };
            match id {
                Ok(id) => {
                    opened.entry(given.problem).or_insert(id);
                    ids.push(id);
                    texts.push(given.steps);
                    replies.push(given.reply);
                }
                Err(error) => (given.reply)(Err(error)),
            }
        }
        if ids.is_empty() {
            return;
        }
        let texts: Vec<Vec<&str>> = texts
            .iter()
            .map(|steps| steps.iter().map(String::as_str).collect())
            .collect();
        let items: Vec<ScoreItem<'_>> = ids
            .iter()
            .zip(&texts)
            .map(|(&id, texts)| ScoreItem {
                id,
                steps: steps_of(texts),
            })
            .collect();
        let batch = next_batch();
        let submitted = scorer.submit(batch, &items);
        // A chain may be released while its batch is pending: the scorer has copied what it needs.
        for &id in &ids {
            scorer.release(id);
        }
        match submitted {
            Submitted::Pending => _ = self.batches.given.insert(batch, replies),
            Submitted::Done(scored) => send_scores(replies, scored),
        }
    }

    /// Takes in the batches that the scorer has answered. With `wait` the call may block for a
    /// batch.
    pub(super) fn collect_scores(&mut self, wait: bool) -> Result<(), SearchError> {
        let Some(scorer) = self.cx.models.scorer.as_mut() else {
            return Ok(());
        };
        for (batch, scored) in scorer.collect(wait) {
            // A batch of an earlier run in this process; its problems no longer exist.
            if batch < self.batches.first {
                continue;
            }
            if let Some(replies) = self.batches.given.remove(&batch) {
                send_scores(replies, scored);
                continue;
            }
            let Some((requests, before)) = self.batches.batches.remove(&batch) else {
                let what = format!("scores for {batch:?}, which was not pending");
                return Err(SearchError::BadScores(what));
            };
            for request in first_of_each(&requests) {
                if let Some(live) = self.asker(request) {
                    live.contents.batches -= 1;
                }
            }
            self.take_batch(&requests, scored, before)?;
        }
        Ok(())
    }

    /// Returns the problem that the request belongs to; `None` if it has ended or was started
    /// again.
    fn asker(&mut self, request: &ScoreRequest) -> Option<&mut ActiveProblem> {
        let live = self.live.get_mut(request.index)?;
        (live.epoch == request.epoch).then_some(live)
    }

    fn take_batch(
        &mut self,
        requests: &[ScoreRequest],
        scored: ScoreResult,
        submitted: Duration,
    ) -> Result<(), SearchError> {
        let scored = match scored {
            Ok(scored) => scored,
            Err(error @ ScoreError::Lost(_)) => return Err(error.into()),
            Err(error) => {
                let error = SearchError::from(error);
                for request in requests {
                    self.fail_asker(request, &error);
                }
                return Ok(());
            }
        };
        let seconds = self.cx.seconds_since(submitted);
        if scored.len() != requests.len() {
            let what = format!("{} results for {} chains", scored.len(), requests.len());
            return Err(SearchError::BadScores(what));
        }
        // Charged before the scores are checked: a problem that an invalid score ends still pays
        // for the call.
        self.charge(requests, &scored, seconds);
        for (request, scored) in requests.iter().zip(scored) {
            self.take_in(request, scored)?;
        }
        self.note_memory();
        for request in first_of_each(requests) {
            if let Some(live) = self.live.get_mut(request.index) {
                live.note_memory(&self.cx.models);
            }
        }
        Ok(())
    }

    fn fail_asker(&mut self, request: &ScoreRequest, error: &SearchError) {
        if self.asker(request).is_some() {
            self.end(request.index, |live, cx| live.fail(error.to_string(), cx));
        }
    }

    /// Charges a scorer call to the problems with steps in it, and to the total.
    fn charge(
        &mut self,
        requests: &[ScoreRequest],
        scored: &[Result<Scored, ScoreError>],
        seconds: f64,
    ) {
        let nothing = Scored::default();
        let scored = scored
            .iter()
            .map(|scored| scored.as_ref().unwrap_or(&nothing));
        let scorer = self.cx.models.scorer.as_deref();
        let total = scorer.map(Scorer::executed).unwrap_or_default();
        let executed = total.since(std::mem::replace(&mut self.scorer_charged, total));
        self.summary.ledger.executed.score += executed.flops;
        self.summary.ledger.prefix_tokens += executed.prefix_tokens;
        let all_read: usize = scored.clone().map(|scored| scored.read_tokens).sum();
        let mut last = None;
        // The judges whose call was counted: a judge is called once for all requests of a batch.
        let (mut called, mut all_called) = (BTreeSet::new(), BTreeSet::new());
        for (request, scored) in requests.iter().zip(scored) {
            let (tokens, reused) = (scored.read_tokens as u64, scored.reused_tokens as u64);
            let flops = Flops {
                score: scored.flops,
                ..Flops::default()
            };
            // Time is split by the tokens that were read. If all tokens were found in the cache, it
            // is split evenly.
            let share = match all_read {
                0 => 1.0 / requests.len() as f64,
                all => tokens as f64 / all as f64,
            };
            let least = Flops {
                score: scored.flops.saturating_sub(scored.again_flops),
                ..Flops::default()
            };
            // The requests of a problem are adjacent.
            let first = last != Some(request.index);
            if first {
                called.clear();
            }
            let retries = u64::from(scored.retries);
            self.summary.ledger.retries += retries;
            if let Some(live) = self.asker(request) {
                let ledger = &mut live.bill.ledger;
                ledger.scored_tokens += tokens;
                ledger.reused_tokens += reused;
                ledger.flops += flops;
                ledger.least += least;
                ledger.executed.score += (executed.flops as f64 * share) as u64;
                ledger.retries += retries;
                ledger.seconds.score += seconds * share;
                ledger.score_passes += u64::from(first);
                charge_judges(ledger, &scored.judges, &mut called);
            }
            charge_judges(&mut self.summary.ledger, &scored.judges, &mut all_called);
            last = Some(request.index);
            self.summary.ledger.scored_tokens += tokens;
            self.summary.ledger.reused_tokens += reused;
            self.summary.ledger.flops += flops;
            self.summary.ledger.least += least;
        }
        self.summary.ledger.score_passes += 1;
        self.summary.ledger.seconds.score += seconds;
    }

    fn take_in(
        &mut self,
        request: &ScoreRequest,
        scored: Result<Scored, ScoreError>,
    ) -> Result<(), SearchError> {
        let Some(live) = self.asker(request) else {
            return Ok(());
        };
        let finish = match scored {
            Ok(scored) => {
                if let Err(error) = check(&scored, request.steps.len()) {
                    self.fail_asker(request, &error);
                    return Ok(());
                }
                live.outcome.lost_verdicts += scored.lost_verdicts;
                for (at, &step) in request.steps.iter().enumerate() {
                    live.contents.at(step).scored = Some(step_score(&scored, at));
                }
                return Ok(());
            }
            // A chain that the scorer cannot read is cut short, like a chain that the generator
            // cannot continue.
            Err(error) if error.is_too_long() => Finish::ChainCap,
            Err(ScoreError::NoMemory { .. }) => Finish::NoMemory,
            Err(error @ ScoreError::Lost(_)) => return Err(error.into()),
            Err(error) => {
                self.fail_asker(request, &error.into());
                return Ok(());
            }
        };
        let handle = request.steps.last();
        // The steps were not read into this cache, so no later text may be forked from it.
        let handle = handle.and_then(|&end| live.contents.at(end).handle.take());
        let ready = live.take_ready_after(&request.steps);
        if let (Some(handle), Some(scorer)) = (handle, self.cx.models.scorer.as_mut()) {
            scorer.release(handle);
        }
        if let Some(live) = self.live.get_mut(request.index) {
            for node in ready {
                live.finish(node, finish, &mut self.cx);
                live.after_scores(node, &mut self.cx);
            }
        }
        Ok(())
    }
}

impl ActiveProblem {
    /// Whether the problem can only wait for scores. `stalled`: no chain of any problem is growing.
    fn is_due(&self, stalled: bool) -> bool {
        let rests = self.steps.growing == 0 && self.steps.queue.is_empty();
        // Chains whose outcome arrives join the batch.
        let judged = self.steps.unverified.is_empty() && self.steps.verifying == 0;
        let due = !self.steps.ready.is_empty() && judged && (stalled || rests);
        self.contents.batches == 0 && due
    }

    /// Returns the steps to read next for the nodes that are ready. Nodes whose texts begin alike
    /// after the same cached text share one request, with all steps that they have in common.
    fn beginnings(&self) -> Vec<(ContentId, Vec<ContentId>)> {
        // Ordered by text: the order of a batch must not depend on the seed of a hash map.
        let mut groups: BTreeMap<ContentId, (ContentId, Vec<ContentId>)> = BTreeMap::new();
        for &node in &self.steps.ready {
            let content = self.resources[node].content.unwrap_or(ContentId::ROOT);
            let (from, steps) = self.contents.unread(content);
            let Some(&first) = steps.first() else {
                continue;
            };
            groups
                .entry(first)
                .and_modify(|(_, common)| {
                    let alike = common.iter().zip(&steps).take_while(|(a, b)| a == b);
                    let alike = alike.count();
                    common.truncate(alike);
                })
                .or_insert((from, steps));
        }
        groups.into_values().collect()
    }

    /// Copies the scores of texts to a node and to the nodes above it, which may have got scores in
    /// the same call.
    fn take_scores(&mut self, end: NodeId, cx: &mut Context<'_, '_>) {
        for id in self.tree.path(end) {
            let content = self.resources[id].content.unwrap_or(ContentId::ROOT);
            let node = self.tree.node(id);
            let Some(scored) = self.contents.scored(content) else {
                continue;
            };
            let scored = scored.clone();
            let paused = node.state == State::Paused;
            if !paused && (node.score.is_some() || node.is_empty_step()) {
                continue;
            }
            let node = self.tree.node_mut(id);
            node.judges = scored.judges;
            node.quantiles = scored.quantiles;
            if paused {
                node.partial_score = scored.score;
            } else {
                node.score = scored.score;
            }
            // An abstention leaves the step without a score and makes no event.
            let Some(score) = scored.score else {
                continue;
            };
            let what = if paused {
                ChainEvent::PartlyScored(score)
            } else {
                ChainEvent::Scored(score)
            };
            self.notify(id, what, cx);
        }
    }

    /// Takes a node that the scorer is done with. After the search nobody waits for it.
    fn after_scores(&mut self, node: NodeId, cx: &mut Context<'_, '_>) {
        if self.stage != Stage::Searching {
            return;
        }
        match self.resources[node].rollout {
            Some(leaf) => self.end_rollout(node, leaf, cx),
            None => self.arrive(node, cx),
        }
    }

    /// Takes the ready nodes whose next unread step is the first of `steps`: they need the text
    /// that was not read.
    fn take_ready_after(&mut self, steps: &[ContentId]) -> Vec<NodeId> {
        let first = steps.first().copied();
        let ready = std::mem::take(&mut self.steps.ready);
        let (after, others) = ready.into_iter().partition(|node| {
            let content = self.resources[*node].content.unwrap_or(ContentId::ROOT);
            self.contents.unread(content).1.first().copied() == first
        });
        self.steps.ready = others;
        after
    }
}

/// Returns the first request of each problem, whose requests are adjacent.
fn first_of_each(requests: &[ScoreRequest]) -> impl Iterator<Item = &ScoreRequest> {
    let problems = requests.chunk_by(|a, b| a.index == b.index);
    problems.filter_map(|requests| requests.first())
}

fn step_refs<'a>(live: &'a ActiveProblem, steps: &[ContentId]) -> Vec<StepRef<'a>> {
    let tree: &ChainTree = &live.tree;
    steps
        .iter()
        .map(|&content| {
            let id = live.contents.node(content);
            let node = tree.node(id);
            StepRef {
                text: node.read_text(),
                tokens: if live.resources[id].tokens_match_text && node.read.is_none() {
                    &node.tokens
                } else {
                    &[]
                },
                finish: node.finish(),
            }
        })
        .collect()
}

/// Returns the scores of the step at index `at` of an item.
fn step_score(scored: &Scored, at: usize) -> StepScore {
    let asked = scored.judges.iter().filter_map(|judge| {
        let score = match judge.opinions.get(at)? {
            Opinion::NotAsked => return None,
            Opinion::Abstains => None,
            Opinion::Score(score) => Some(*score),
        };
        Some((judge.name.to_string(), score))
    });
    StepScore {
        score: scored.probabilities.get(at).copied().flatten(),
        judges: asked.collect(),
        quantiles: scored.quantiles.get(at).copied(),
    }
}

/// Charges the judges' questions and tokens. A call is counted only if `called` does not contain
/// the judge yet.
fn charge_judges<'a>(
    ledger: &mut Ledger,
    judges: &'a [JudgeScores],
    called: &mut BTreeSet<&'a str>,
) {
    for judge in judges {
        let count = |counts: fn(&Opinion) -> bool| {
            let counted = judge.opinions.iter().filter(|opinion| counts(opinion));
            counted.count() as u64
        };
        let steps = count(|opinion| *opinion != Opinion::NotAsked);
        *ledger.judges.entry(judge.name.to_string()).or_default() += JudgeSpent {
            calls: u64::from(steps > 0 && called.insert(&*judge.name)),
            steps,
            abstained: count(|opinion| *opinion == Opinion::Abstains),
            failed: count(|opinion| *opinion == Opinion::Score(0.0)),
            scored_tokens: judge.read_tokens as u64,
            reused_tokens: judge.reused_tokens as u64,
        };
    }
}

fn check(scored: &Scored, steps: usize) -> Result<(), SearchError> {
    let counts = scored.judges.iter().map(|judge| judge.opinions.len());
    for count in counts.chain([scored.probabilities.len()]) {
        if count != steps {
            let what = format!("{count} scores for {steps} steps");
            return Err(SearchError::BadScores(what));
        }
    }
    let scores = scored.probabilities.iter().flatten();
    let mut scores = scores.chain(scored.quantiles.iter().flatten());
    match scores.find(|score| !is_probability(**score)) {
        Some(p) => Err(SearchError::BadScores(format!("{p} is not a probability"))),
        None => Ok(()),
    }
}
