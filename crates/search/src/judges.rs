//! Several judges as one scorer.
//!
//! Each judge is a [`Scorer`] with a name. A [`Combine`] makes one score of what they say of a step.
//! A judge is asked about a step when it can say something that counts: in a cascade only where
//! those before it are undecided, and a judge of whole chains only where a chain ends. The steps
//! that it was not asked about it reads with the first one that it is.

mod batch;
mod combine;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use self::batch::{Batch, OwnStep};
pub use self::combine::Combine;
use crate::error::ScoreError;
use crate::finish::Finish;
use crate::generator::Memory;
use crate::problem::Problem;
use crate::scorer::{BatchId, Opinion, ScoreId, ScoreItem, ScoreResult, Scorer, Submitted};

/// One of several judges.
pub struct Judge {
    name: Arc<str>,
    scorer: Box<dyn Scorer + Send>,
    /// Whether its scores are not combined: one below [`Combine::below`] fails the step and with it
    /// the chain, others change nothing.
    vetoes: bool,
    at_end: bool,
}

impl Judge {
    /// A judge whose scores are combined with those of the others.
    pub fn new(name: impl Into<String>, scorer: impl Scorer + Send + 'static) -> Self {
        Self::boxed(name, Box::new(scorer))
    }

    /// [`new`](Self::new) of a scorer in a box.
    pub fn boxed(name: impl Into<String>, scorer: Box<dyn Scorer + Send>) -> Self {
        Self {
            name: name.into().into(),
            scorer,
            vetoes: false,
            at_end: false,
        }
    }

    /// A judge that can only fail steps, whatever the rule: a step that it scores below 0.5 (or
    /// below the bound of [`Combine::Veto`]) has the score 0, and so have all steps after it. What
    /// it passes or abstains on has the score that the others give.
    #[must_use]
    pub fn vetoing(mut self) -> Self {
        self.vetoes = true;
        self
    }

    /// A judge of whole chains, such as an outcome reward model: it is asked about the step that
    /// ends a chain, and about no other.
    #[must_use]
    pub fn at_end(mut self) -> Self {
        self.at_end = true;
        self
    }

    /// Its name: the key of its scores in trees and of its costs in ledgers.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge")
            .field("name", &self.name)
            .field("vetoes", &self.vetoes)
            .field("at_end", &self.at_end)
            .finish_non_exhaustive()
    }
}

/// Several judges as one [`Scorer`]. What each said is in [`Scored::judges`](crate::Scored::judges).
///
/// A step has no score if all judges that score abstain on it. If all judges veto, a step that none
/// of them fails has the score 1: nothing speaks against it. A chain that a veto has failed stays
/// failed: its later steps have the score 0 too, and in later calls nobody is asked about them.
#[derive(Debug)]
pub struct Judges {
    judges: Vec<Judge>,
    rule: Combine,
    /// The judges that are asked together, by index, in the order of asking.
    stages: Vec<Vec<usize>>,
    chains: BTreeMap<ScoreId, Chain>,
    next_chain: u64,
    /// Batches that wait for a judge, and whose answer is which batch's.
    waiting: BTreeMap<BatchId, Batch>,
    asked: BTreeMap<(usize, BatchId), BatchId>,
    next_batch: u64,
}

/// A chain, with a reader for each judge.
#[derive(Debug, Clone)]
struct Chain {
    readers: Vec<Reader>,
    /// Whether a judge has failed one of its steps.
    vetoed: bool,
}

/// A chain as one judge has it.
#[derive(Debug, Clone)]
struct Reader {
    id: ScoreId,
    /// Its last steps, which the judge has not read.
    unread: Vec<Arc<OwnStep>>,
}

impl Judges {
    /// These judges. Under [`Combine::Veto`] the first one scores and the others veto; a cascade
    /// asks them in this order, those that veto with the first.
    pub fn new(judges: impl IntoIterator<Item = Judge>, rule: Combine) -> Self {
        let mut judges: Vec<Judge> = judges.into_iter().collect();
        if let Combine::Veto { .. } = rule {
            let scoring = judges.iter_mut().filter(|judge| !judge.vetoes);
            scoring.skip(1).for_each(|judge| judge.vetoes = true);
        }
        // Those that veto first: they may answer later, while the others read.
        let (mut first, scoring): (Vec<usize>, Vec<usize>) =
            (0..judges.len()).partition(|&at| judges[at].vetoes);
        let mut scoring = scoring.into_iter();
        let stages = if let Combine::Cascade { .. } = rule {
            first.extend(scoring.next());
            let later = scoring.map(|at| vec![at]);
            std::iter::once(first).chain(later).collect()
        } else {
            first.extend(scoring);
            vec![first]
        };
        Self {
            stages,
            judges,
            rule,
            chains: BTreeMap::new(),
            next_chain: 0,
            waiting: BTreeMap::new(),
            asked: BTreeMap::new(),
            next_batch: 0,
        }
    }

    fn insert(&mut self, chain: Chain) -> ScoreId {
        self.next_chain += 1;
        let id = ScoreId(self.next_chain);
        self.chains.insert(id, chain);
        id
    }

    /// Whether a judge, of those that said this in order, fails the step.
    fn is_vetoed(&self, opinions: &[Opinion]) -> bool {
        let mut said = self.judges.iter().zip(opinions);
        said.any(|(judge, opinion)| {
            let fails = |score| score < self.rule.below();
            judge.vetoes && opinion.score().is_some_and(fails)
        })
    }

    /// The score of a step that nobody vetoes and of which the judges, in order, said this.
    fn combined(&self, opinions: &[Opinion]) -> Option<f32> {
        if self.judges.iter().all(|judge| judge.vetoes) {
            return Some(1.0);
        }
        let said = self.judges.iter().zip(opinions);
        let scoring = said.filter(|(judge, _)| !judge.vetoes);
        let scores: Vec<f32> = scoring.filter_map(|(_, said)| said.score()).collect();
        self.rule.fold(&scores)
    }

    /// Whether a judge of this stage has something to say that counts about a step of which others
    /// said this.
    fn wants(&self, judge: usize, stage: usize, step: &OwnStep, opinions: &[Opinion]) -> bool {
        let ends = step.finish.is_some_and(Finish::is_complete);
        if self.judges[judge].at_end && !ends {
            return false;
        }
        stage == 0 || (!self.is_vetoed(opinions) && self.rule.is_undecided(self.combined(opinions)))
    }

    /// Asks the judges of the next stages about a batch, until one of them answers later. Returns
    /// the batch if it is done.
    fn advance(&mut self, id: BatchId, mut batch: Batch) -> Option<Batch> {
        while batch.failed.is_none() && batch.stage < self.stages.len() {
            for judge in self.stages[batch.stage].clone() {
                self.ask(judge, id, &mut batch);
            }
            batch.stage += 1;
            if batch.waiting > 0 {
                self.waiting.insert(id, batch);
                return None;
            }
        }
        Some(batch)
    }

    /// Hands the steps that a judge is to be asked about to it, with all that it has not read.
    fn ask(&mut self, judge: usize, id: BatchId, batch: &mut Batch) {
        let mut asked = Vec::new();
        let mut steps: Vec<(ScoreId, Vec<Arc<OwnStep>>)> = Vec::new();
        for at in 0..batch.items.len() {
            let item = &batch.items[at];
            if item.error.is_some() {
                continue;
            }
            // What follows a step that is failed is failed with it. In the first stage all are
            // asked about all steps, whoever answers first.
            let mut known = 0..item.steps.len();
            let failed = known.find(|&step| batch.stage > 0 && self.is_vetoed(&item.said(step)));
            let wanted = (0..failed.unwrap_or(item.steps.len()))
                .filter(|&step| self.wants(judge, batch.stage, &item.steps[step], &item.said(step)))
                .collect::<Vec<usize>>();
            // A chain of a problem that was cancelled meanwhile is gone.
            let Some(chain) = self.chains.get_mut(&item.chain) else {
                continue;
            };
            if chain.vetoed {
                continue;
            }
            let reader = &mut chain.readers[judge];
            let known = reader.unread.len();
            reader.unread.extend(item.steps.iter().cloned());
            if let Some(&last) = wanted.last() {
                let later = reader.unread.split_off(known + last + 1);
                let read = std::mem::replace(&mut reader.unread, later);
                steps.push((reader.id, read));
                asked.push((at, known, wanted));
            }
        }
        if asked.is_empty() {
            return;
        }
        let items: Vec<ScoreItem<'_>> = steps
            .iter()
            .map(|(id, steps)| ScoreItem {
                id: *id,
                steps: steps.iter().map(|step| step.step_ref()).collect(),
            })
            .collect();
        batch.asked[judge] = asked;
        let scorer = &mut self.judges[judge].scorer;
        let submitted = if batch.at_once {
            Submitted::Done(scorer.score(&items))
        } else {
            let inner = BatchId(self.next_batch);
            self.next_batch += 1;
            let submitted = scorer.submit(inner, &items);
            if matches!(submitted, Submitted::Pending) {
                self.asked.insert((judge, inner), id);
            }
            submitted
        };
        match submitted {
            Submitted::Done(result) => batch.take(judge, &self.judges[judge].name, result),
            Submitted::Pending => batch.waiting += 1,
        }
    }

    /// What a batch that is done gives.
    fn result(&mut self, batch: Batch) -> ScoreResult {
        if let Some(error) = batch.failed {
            return Err(error);
        }
        let names: Vec<Arc<str>> = self.judges.iter().map(|j| Arc::clone(&j.name)).collect();
        let scored = batch.items.into_iter().map(|item| {
            let mut vetoed = self.chains.get(&item.chain).is_some_and(|c| c.vetoed);
            let score = |step| {
                let said = item.said(step);
                vetoed |= self.is_vetoed(&said);
                if vetoed {
                    Some(0.0)
                } else {
                    self.combined(&said)
                }
            };
            let probabilities = (0..item.steps.len()).map(score).collect();
            if let Some(chain) = self.chains.get_mut(&item.chain) {
                chain.vetoed = vetoed;
            }
            item.scored(probabilities, &names)
        });
        Ok(scored.collect())
    }
}

impl Scorer for Judges {
    fn open(&mut self, problem: &Problem, key: u64) -> Result<ScoreId, ScoreError> {
        let mut readers: Vec<Reader> = Vec::with_capacity(self.judges.len());
        for at in 0..self.judges.len() {
            match self.judges[at].scorer.open(problem, key) {
                Ok(id) => readers.push(Reader {
                    id,
                    unread: Vec::new(),
                }),
                Err(error) => {
                    for (judge, reader) in self.judges.iter_mut().zip(readers) {
                        judge.scorer.release(reader.id);
                    }
                    return Err(error.of_judge(&self.judges[at].name));
                }
            }
        }
        Ok(self.insert(Chain {
            readers,
            vetoed: false,
        }))
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        let mut chain = self.chains[&id].clone();
        for (reader, judge) in chain.readers.iter_mut().zip(&mut self.judges) {
            reader.id = judge.scorer.fork(reader.id);
        }
        self.insert(chain)
    }

    fn release(&mut self, id: ScoreId) {
        let chain = self.chains.remove(&id);
        let readers = chain.into_iter().flat_map(|chain| chain.readers);
        for (judge, reader) in self.judges.iter_mut().zip(readers) {
            judge.scorer.release(reader.id);
        }
    }

    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult {
        let batch = Batch::new(items, self.judges.len(), true);
        match self.advance(BatchId(u64::MAX), batch) {
            Some(batch) => self.result(batch),
            None => Err(ScoreError::Failed("a judge did not answer at once".into())),
        }
    }

    fn submit(&mut self, id: BatchId, items: &[ScoreItem<'_>]) -> Submitted {
        let batch = Batch::new(items, self.judges.len(), false);
        match self.advance(id, batch) {
            Some(batch) => Submitted::Done(self.result(batch)),
            None => Submitted::Pending,
        }
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, ScoreResult)> {
        let mut done = Vec::new();
        // One that is waited for at a time: it comes back after a short while.
        let waited = self.asked.keys().next().map(|(judge, _)| *judge);
        for judge in 0..self.judges.len() {
            let wait = wait && waited == Some(judge) && done.is_empty();
            for (inner, result) in self.judges[judge].scorer.collect(wait) {
                let batch = self.asked.remove(&(judge, inner));
                let Some((id, mut batch)) =
                    batch.and_then(|id| Some((id, self.waiting.remove(&id)?)))
                else {
                    continue;
                };
                batch.take(judge, &self.judges[judge].name, result);
                batch.waiting -= 1;
                if batch.waiting > 0 {
                    self.waiting.insert(id, batch);
                } else if let Some(batch) = self.advance(id, batch) {
                    done.push((id, self.result(batch)));
                }
            }
        }
        done
    }

    fn evict_borrowed(&mut self) {
        for judge in &mut self.judges {
            judge.scorer.evict_borrowed();
        }
    }

    fn memory(&self) -> Memory {
        let judges = self.judges.iter().map(|judge| judge.scorer.memory());
        judges.reduce(Memory::beside).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
