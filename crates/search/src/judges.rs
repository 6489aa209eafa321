//! A scorer that combines several judges.
//!
//! Each judge is a named [`Scorer`], and a [`Combine`] rule turns their opinions on a step into one
//! score. A judge is asked about a step only if its opinion can count: in a cascade after undecided
//! judges, and a judge of whole chains at the end of a chain. Steps that a judge was not asked
//! about are read together with the next step that it is asked about.

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
use crate::ledger::Executed;
use crate::problem::Problem;
use crate::scorer::{BatchId, Opinion, ScoreId, ScoreItem, ScoreResult, Scorer, Submitted};

/// One of several judges: a scorer with a name and a role.
pub struct Judge {
    name: Arc<str>,
    scorer: Box<dyn Scorer + Send>,
    /// Whether the judge's scores are not combined: a score below [`Combine::below`] fails the step
    /// and with it the chain, other scores change nothing.
    vetoes: bool,
    at_end: bool,
}

impl Judge {
    /// Makes a judge whose scores are combined with those of the others.
    pub fn new(name: impl Into<String>, scorer: impl Scorer + Send + 'static) -> Self {
        Self::boxed(name, Box::new(scorer))
    }

    /// Makes a judge like [`new`](Self::new), from a boxed scorer.
    pub fn boxed(name: impl Into<String>, scorer: Box<dyn Scorer + Send>) -> Self {
        Self {
            name: name.into().into(),
            scorer,
            vetoes: false,
            at_end: false,
        }
    }

    /// Turns the judge into one that can only fail steps, whatever the rule. A score below 0.5 (or
    /// below the bound of [`Combine::Veto`]) sets the score of the step, and of all later steps, to
    /// 0. Other scores and abstentions change nothing.
    #[must_use]
    pub fn vetoing(mut self) -> Self {
        self.vetoes = true;
        self
    }

    /// Turns the judge into a judge of whole chains, such as an outcome reward model. It is asked
    /// only about the step that ends a chain.
    #[must_use]
    pub fn at_end(mut self) -> Self {
        self.at_end = true;
        self
    }

    /// Returns the judge's name: the key of its scores in trees and of its costs in ledgers.
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

/// A [`Scorer`] that combines judges. [`Scored::judges`](crate::Scored::judges) has their opinions.
///
/// A step has no score if all judges that score abstain on it. If all judges veto, a step that none
/// of them fails has the score 1. A chain that was failed by a veto stays failed: later steps have
/// the score 0, and later calls ask no judge about them.
#[derive(Debug)]
pub struct Judges {
    judges: Vec<Judge>,
    rule: Combine,
    /// The indices of the judges that are asked together, in the order of asking.
    stages: Vec<Vec<usize>>,
    chains: BTreeMap<ScoreId, Chain>,
    next_chain: u64,
    /// The batches that wait for a judge's answer.
    waiting: BTreeMap<BatchId, Batch>,
    /// The batch that a pending batch of a judge belongs to.
    asked: BTreeMap<(usize, BatchId), BatchId>,
    next_batch: u64,
}

/// A chain, with a reader for each judge.
#[derive(Debug, Clone)]
struct Chain {
    readers: Vec<Reader>,
    /// Whether a judge has failed a step of the chain.
    vetoed: bool,
}

/// A judge's own copy of a chain. It lacks the newest steps if the judge was not asked about them.
#[derive(Debug, Clone)]
struct Reader {
    id: ScoreId,
    /// The last steps of the chain, which the judge has not read yet.
    unread: Vec<Arc<OwnStep>>,
}

impl Judges {
    /// Combines judges by `rule`. Under [`Combine::Veto`] the first judge scores and the others
    /// veto. A cascade asks the judges in this order, those that veto together with the first.
    pub fn new(judges: impl IntoIterator<Item = Judge>, rule: Combine) -> Self {
        let mut judges: Vec<Judge> = judges.into_iter().collect();
        if let Combine::Veto { .. } = rule {
            let scoring = judges.iter_mut().filter(|judge| !judge.vetoes);
            scoring.skip(1).for_each(|judge| judge.vetoes = true);
        }
        // Judges that veto are asked first: a checker may answer later, and the other judges read
        // meanwhile.
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

    /// Whether a judge fails the step. `opinions` are in the order of the judges.
    fn is_vetoed(&self, opinions: &[Opinion]) -> bool {
        let mut said = self.judges.iter().zip(opinions);
        said.any(|(judge, opinion)| {
            let score = opinion.score();
            judge.vetoes && score.is_some_and(|score| score < self.rule.below())
        })
    }

    /// Returns the score of a step that no judge fails. `opinions` are in the order of the judges.
    fn combined(&self, opinions: &[Opinion]) -> Option<f32> {
        if self.judges.iter().all(|judge| judge.vetoes) {
            return Some(1.0);
        }
        let said = self.judges.iter().zip(opinions);
        let scoring = said.filter(|(judge, _)| !judge.vetoes);
        let scores: Vec<f32> = scoring.filter_map(|(_, said)| said.score()).collect();
        self.rule.fold(&scores)
    }

    /// Whether a judge of this stage should be asked about a step, given the opinions so far.
    fn wants(&self, judge: usize, stage: usize, step: &OwnStep, opinions: &[Opinion]) -> bool {
        let ends = step.finish.is_some_and(Finish::is_complete);
        if self.judges[judge].at_end && !ends {
            return false;
        }
        stage == 0 || (!self.is_vetoed(opinions) && self.rule.is_undecided(self.combined(opinions)))
    }

    /// Asks the judges of the next stages about a batch, until a judge answers later. Returns the
    /// batch if it is done.
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

    /// Asks a judge about the steps that it should score, with all earlier steps that it has not
    /// read.
    fn ask(&mut self, judge: usize, id: BatchId, batch: &mut Batch) {
        let mut asked = Vec::new();
        let mut steps: Vec<(ScoreId, Vec<Arc<OwnStep>>)> = Vec::new();
        for at in 0..batch.items.len() {
            let item = &batch.items[at];
            if item.error.is_some() {
                continue;
            }
            // Steps after a failed step fail, too, so no judge is asked about them. The first stage
            // is an exception: all its judges are asked about all steps, since their questions must
            // not depend on which of them answers first.
            let mut known = 0..item.steps.len();
            let failed = known.find(|&step| batch.stage > 0 && self.is_vetoed(&item.said(step)));
            let wanted = (0..failed.unwrap_or(item.steps.len()))
                .filter(|&step| self.wants(judge, batch.stage, &item.steps[step], &item.said(step)))
                .collect::<Vec<usize>>();
            // The chain is gone if its problem was cancelled while another judge was answering.
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
                // Steps after the last question stay unread: they may never be needed.
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

    /// Returns the scores of a batch that is done.
    fn result(&mut self, batch: Batch) -> ScoreResult {
        if let Some(error) = batch.failed {
            return Err(error);
        }
        let names: Vec<Arc<str>> = self.judges.iter().map(|j| Arc::clone(&j.name)).collect();
        let scored = batch.items.into_iter().map(|item| {
            let mut vetoed = self.chains.get(&item.chain).is_some_and(|c| c.vetoed);
            let mut probabilities = Vec::with_capacity(item.steps.len());
            for step in 0..item.steps.len() {
                let said = item.said(step);
                vetoed |= self.is_vetoed(&said);
                probabilities.push(if vetoed {
                    Some(0.0)
                } else {
                    self.combined(&said)
                });
            }
            if let Some(chain) = self.chains.get_mut(&item.chain) {
                // Later calls need not look at the judges' opinions on these steps again.
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
                    // Judges before this one have opened the problem already.
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

    fn executed(&self) -> Executed {
        let judges = self.judges.iter();
        judges.map(|judge| judge.scorer.executed()).sum()
    }

    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult {
        let batch = Batch::new(items, self.judges.len(), true);
        // A batch that is answered at once does not wait, so its number is never used.
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
        // Only one judge may block, for a short while: blocking in each in turn would add up.
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
