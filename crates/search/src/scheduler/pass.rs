//! One forward pass over everything that grows. Queued steps start before it; what closes in it
//! goes to its problem.

use std::collections::BTreeMap;

use super::live::Look;
use super::{Owner, Scheduler, steps};
use crate::error::{GenError, SearchError};
use crate::event::Event;
use crate::generator::PassOutput;
use crate::tree::NodeId;

impl Scheduler<'_, '_> {
    /// Starts queued steps while memory lasts, oldest problem first. Returns whether one started.
    ///
    /// Within a problem, steps start strictly in order: none overtakes one that waits for memory,
    /// so that what a problem gets does not depend on timing. Steps written ahead never make
    /// another one wait.
    pub(super) fn start_steps(&mut self) -> bool {
        let mut started = self.start_queued();
        if self.blocked && self.drop_all_speculative() {
            started |= self.start_queued();
        }
        if !self.blocked && self.live.speculates() {
            for (index, live) in self.live.iter_mut() {
                if !live.config().speculate {
                    continue;
                }
                for (chain, node) in live.start_speculative(&mut self.cx) {
                    self.owners.insert(chain, Owner::speculative(index, node));
                }
            }
        }
        started
    }

    pub(super) fn start_queued(&mut self) -> bool {
        let mut started = false;
        self.blocked = false;
        for index in self.live.changed(Look::Start) {
            let mut any = false;
            while let Some(live) = self.live.get_mut_quietly(index) {
                match live.start_next(&mut self.cx, &mut self.summary.ledger) {
                    steps::Start::Started(chain, node) => {
                        self.owners.insert(chain, Owner::step(index, node));
                        any = true;
                    }
                    steps::Start::NoMemory => {
                        self.blocked = true;
                        self.live.again(Look::Start, index);
                        break;
                    }
                    steps::Start::NothingQueued => break,
                }
            }
            if any {
                started = true;
                self.live.again(Look::Book, index);
                self.live.again(Look::Rows, index);
            }
        }
        started
    }

    /// Throws away all that is written ahead. Returns whether there was something.
    pub(super) fn drop_all_speculative(&mut self) -> bool {
        let mut dropped = false;
        for (_, live) in self.live.iter_mut() {
            for at in 0..live.resources.len() {
                if live.resources[at].speculative.is_some() {
                    live.drop_speculative(NodeId(at as u32), &mut self.cx);
                    dropped = true;
                }
            }
        }
        self.book();
        dropped
    }

    /// One forward pass over everything that grows. Returns whether there was one.
    pub(super) fn pass(&mut self) -> Result<bool, SearchError> {
        let rows = self.cx.models.generator.active();
        if rows == 0 {
            return Ok(false);
        }
        if let Some(scorer) = self.cx.models.scorer.as_deref_mut() {
            scorer.evict_borrowed();
        }
        for index in self.live.changed(Look::Rows) {
            if let Some(live) = self.live.get_mut_quietly(index) {
                live.charge_passes(self.passes);
            }
        }
        let before = self.cx.models.clock.now();
        let PassOutput {
            steps: mut closed,
            failed,
            retried,
        } = match self.cx.models.generator.pass() {
            Ok(output) => output,
            Err(error @ GenError::Lost(_)) => return Err(error.into()),
            Err(error) => {
                self.fail_active(&error);
                return Ok(true);
            }
        };
        let seconds = self.seconds_since(before);

        self.passes.count += 1;
        self.passes.seconds_a_row += seconds / rows as f64;
        self.summary.ledger.forward_passes += 1;
        self.summary.ledger.seconds.generate += seconds;
        self.note_memory();
        for (chain, requests) in retried {
            self.summary.ledger.retries += u64::from(requests);
            let owner = self.owners.get(&chain);
            if let Some(live) = owner.and_then(|owner| self.live.get_mut(owner.index)) {
                live.bill.ledger.retries += u64::from(requests);
            }
        }

        // Several chains of a problem may fail in a pass: the first ends it.
        let (mut ended, mut lost) = (BTreeMap::new(), None);
        for (chain, error) in failed {
            let Some(owner) = self.owners.get(&chain) else {
                let what = format!("{chain:?} failed, which was not growing");
                return Err(SearchError::BadStep(what));
            };
            match error {
                GenError::Lost(_) => lost = Some(error),
                _ => _ = ended.entry(owner.index).or_insert(error),
            }
        }

        for step in closed.iter().filter(|step| !step.logprob.is_finite()) {
            if let Some(owner) = self.owners.get(&step.chain) {
                let what = format!("the log-probability of a step is {}", step.logprob);
                let error = GenError::Failed(what.into());
                ended.entry(owner.index).or_insert(error);
            }
        }

        // Steps written ahead first: what closes after them may throw them away.
        let owners = &self.owners;
        closed.sort_by_key(|step| {
            !owners
                .get(&step.chain)
                .is_some_and(|owner| owner.speculative)
        });
        for step in closed {
            let owner = self.owners.remove(&step.chain);
            let found = owner.and_then(|owner| Some((self.live.get_mut(owner.index)?, owner)));
            let Some((live, owner)) = found else {
                let what = format!("a step closed for {:?}, which was not growing", step.chain);
                return Err(SearchError::BadStep(what));
            };
            if owner.speculative {
                live.close_speculative(owner.node, step);
                continue;
            }
            live.steps.growing -= 1;
            live.close(owner.node, step, &mut self.cx);
        }
        self.book();
        if let Some(error) = lost {
            return Err(error.into());
        }
        for (index, error) in ended {
            // What closed may have ended it.
            if self.live.get(index).is_some() {
                self.end(index, |live, cx| live.fail(error.to_string(), cx));
            }
        }

        self.update_clock();
        let cache_bytes = self.cx.models.cache_bytes();
        self.cx.event(Event::Pass {
            rows,
            in_flight: self.live.len(),
            cache_bytes,
            ledger: &self.summary.ledger,
        });
        Ok(true)
    }

    /// Ends every problem that has a step in the pass that failed.
    pub(super) fn fail_active(&mut self, error: &GenError) {
        let active: Vec<usize> = self
            .live
            .iter()
            .filter(|(_, live)| live.steps.growing + live.speculation.running > 0)
            .map(|(index, _)| index)
            .collect();
        for index in active {
            self.end(index, |live, cx| live.fail(error.to_string(), cx));
        }
    }
}
