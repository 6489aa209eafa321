//! Where chains branch: cached tokens, and the few that are still to be read.

use std::collections::BTreeMap;

use beamgen_engine::{Engine, SeqId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StemId(u64);

/// The common beginning of one or more chains that are between steps.
#[derive(Debug)]
pub(crate) struct Stem {
    pub seq: SeqId,
    /// Tokens not in the cache yet: the prompt, or the token that closed the last step.
    pub unread: Vec<u32>,
    /// Logits after the last token, once everything is read and some chain still waits for them.
    pub logits: Option<Vec<f32>>,
    /// Chains that begin here.
    pub holders: usize,
    /// Pages promised for reading `unread`.
    pub promised: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Stems {
    stems: BTreeMap<StemId, Stem>,
    next: u64,
}

impl Stems {
    /// A stem of one chain.
    pub fn insert(&mut self, seq: SeqId, unread: Vec<u32>) -> StemId {
        let id = StemId(self.next);
        self.next += 1;
        let stem = Stem {
            seq,
            unread,
            logits: None,
            holders: 1,
            promised: false,
        };
        self.stems.insert(id, stem);
        id
    }

    /// # Panics
    /// If there is no such stem: chains and stems are kept together by this crate alone.
    pub fn get(&self, id: StemId) -> &Stem {
        &self.stems[&id]
    }

    pub fn get_mut(&mut self, id: StemId) -> &mut Stem {
        self.stems.get_mut(&id).expect("a chain holds its stem")
    }

    /// Keeps the logits after a stem for the chains that are still there, if any are.
    pub fn keep_logits(&mut self, id: StemId, logits: &[f32]) {
        if let Some(stem) = self.stems.get_mut(&id) {
            stem.logits = Some(logits.to_vec());
        }
    }

    /// Lets a chain go; the last one takes the stem with it.
    pub fn release(&mut self, id: StemId, engine: &mut Engine) {
        let stem = self.get_mut(id);
        stem.holders -= 1;
        if stem.holders == 0 {
            engine.free(stem.seq);
            self.stems.remove(&id);
        }
    }

    /// A sequence for a chain that leaves its stem: the stem's own for the last one, a fork for
    /// the others.
    pub fn detach(&mut self, id: StemId, engine: &mut Engine) -> SeqId {
        let stem = self.get_mut(id);
        stem.holders -= 1;
        if stem.holders > 0 {
            return engine.fork(stem.seq);
        }
        let seq = stem.seq;
        self.stems.remove(&id);
        seq
    }
}
