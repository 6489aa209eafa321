//! The batches of chains that a verifier judges, and the outcomes of earlier chains.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use beamgen_search::{BatchId, Outcome, OutcomeKind};

/// The bytes of requests whose outcomes are kept. When there are more, all are forgotten.
const KEPT_BYTES: usize = 64 << 20;

/// The batches that wait for outcomes. A chain that was judged before, or that is being judged, is
/// not asked about again.
#[derive(Debug, Default)]
pub(super) struct Batches {
    waiting: BTreeMap<BatchId, Batch>,
    /// The requests that are being judged, each with the other chains that have the same one.
    asked: HashMap<Arc<str>, Vec<(BatchId, usize)>>,
    /// The outcomes of earlier requests by their contents. Lost ones are not among them.
    known: HashMap<Arc<str>, Outcome>,
    known_bytes: usize,
}

/// The place of an outcome that is still to come.
#[derive(Debug)]
pub(super) struct Place {
    batch: BatchId,
    /// The index of the chain in its batch.
    pub chain: usize,
    /// The request; empty if there is none.
    pub content: Arc<str>,
}

#[derive(Debug)]
struct Batch {
    outcomes: Vec<Outcome>,
    /// The number of outcomes that have not arrived.
    open: usize,
}

impl Batches {
    /// Opens a batch with the requests of its chains. Returns the places whose outcomes are not
    /// known; the caller settles each of them.
    pub(super) fn open(&mut self, batch: BatchId, requests: Vec<Option<Arc<str>>>) -> Vec<Place> {
        let mut outcomes = vec![lost(); requests.len()];
        let (mut places, mut open) = (Vec::new(), 0);
        for (chain, content) in requests.into_iter().enumerate() {
            let known = content.as_ref().and_then(|content| self.known.get(content));
            if let Some(known) = known {
                outcomes[chain] = known.clone();
                continue;
            }
            open += 1;
            let content = content.unwrap_or_else(|| "".into());
            if let Some(same) = self.asked.get_mut(&content) {
                same.push((batch, chain));
                continue;
            }
            // Chains without a request have nothing in common.
            if !content.is_empty() {
                self.asked.insert(Arc::clone(&content), Vec::new());
            }
            places.push(Place {
                batch,
                chain,
                content,
            });
        }
        self.waiting.insert(batch, Batch { outcomes, open });
        places
    }

    /// Takes an outcome.
    pub(super) fn settle(&mut self, place: &Place, outcome: Outcome) {
        if outcome.kind != OutcomeKind::Lost {
            self.keep(&place.content, &outcome);
        }
        self.settle_unkept(place, outcome);
    }

    /// Takes an outcome that a later chain should not get.
    pub(super) fn settle_unkept(&mut self, place: &Place, outcome: Outcome) {
        let same = self.asked.remove(&place.content).unwrap_or_default();
        for (batch, chain) in same.into_iter().chain([(place.batch, place.chain)]) {
            if let Some(batch) = self.waiting.get_mut(&batch) {
                batch.outcomes[chain] = outcome.clone();
                batch.open -= 1;
            }
        }
    }

    fn keep(&mut self, content: &Arc<str>, outcome: &Outcome) {
        if self.known_bytes > KEPT_BYTES {
            self.known.clear();
            self.known_bytes = 0;
        }
        self.known_bytes += content.len();
        self.known.insert(Arc::clone(content), outcome.clone());
    }

    /// Whether a batch waits for outcomes.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the batches that have all their outcomes.
    pub(super) fn done(&mut self) -> Vec<(BatchId, Vec<Outcome>)> {
        let batches = self.waiting.iter();
        let done = batches.filter(|(_, batch)| batch.open == 0);
        let done: Vec<BatchId> = done.map(|(&id, _)| id).collect();
        let batch = |id| Some((id, self.waiting.remove(&id)?.outcomes));
        done.into_iter().filter_map(batch).collect()
    }
}

/// Returns the outcome of a chain whose verifier fails.
pub(super) fn lost() -> Outcome {
    Outcome::new(OutcomeKind::Lost, "the verifier gave no outcome")
}
