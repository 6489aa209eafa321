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
    /// Logits after the last token, once everything is read and some chain is still here.
    logits: Option<Vec<f32>>,
    /// The token read last.
    last: u32,
    /// Chains that begin here.
    pub holders: usize,
    /// Pages promised for reading `unread`.
    pub promised: bool,
}

#[derive(Debug)]
pub(crate) struct Stems {
    stems: BTreeMap<StemId, Stem>,
    next: u64,
    /// Bytes of the logits that stems have.
    row_bytes: usize,
    /// Most bytes of logits that are kept from pass to pass.
    pub limit: usize,
}

impl Default for Stems {
    fn default() -> Self {
        Self {
            stems: BTreeMap::new(),
            next: 0,
            row_bytes: 0,
            limit: 64 << 20,
        }
    }
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
            last: 0,
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

    /// Notes that everything is read.
    pub fn note_read(&mut self, id: StemId) {
        let stem = self.get_mut(id);
        if let Some(last) = stem.unread.pop() {
            stem.last = last;
        }
        stem.unread.clear();
    }

    /// Keeps the logits after a stem for the chains that are still there, if any are.
    pub fn keep_logits(&mut self, id: StemId, logits: Vec<f32>) {
        if let Some(stem) = self.stems.get_mut(&id) {
            self.row_bytes += size_of_val(&logits[..]);
            stem.logits = Some(logits);
        }
    }

    /// Whether some chain is still there.
    pub fn exists(&self, id: StemId) -> bool {
        self.stems.contains_key(&id)
    }

    /// The logits after a stem, if they are kept.
    pub fn take_logits(&mut self, id: StemId) -> Option<Vec<f32>> {
        let logits = self.get_mut(id).logits.take()?;
        self.row_bytes -= size_of_val(&logits[..]);
        Some(logits)
    }

    /// Forgets the oldest logits beyond the limit: whoever starts from there reads the last token
    /// again, which gives the same. No chain may be waiting at a stem, for it was not promised
    /// the memory.
    pub fn forget_logits(&mut self, engine: &mut Engine) {
        for stem in self.stems.values_mut() {
            if self.row_bytes <= self.limit {
                break;
            }
            if let Some(logits) = stem.logits.take() {
                self.row_bytes -= size_of_val(&logits[..]);
                engine.truncate(stem.seq, engine.len(stem.seq) - 1);
                stem.unread.push(stem.last);
                stem.promised = false;
            }
        }
    }

    fn remove(&mut self, id: StemId) {
        if let Some(logits) = self.stems.remove(&id).and_then(|stem| stem.logits) {
            self.row_bytes -= size_of_val(&logits[..]);
        }
    }

    /// Lets a chain go; the last one takes the stem with it.
    pub fn release(&mut self, id: StemId, engine: &mut Engine) {
        let stem = self.get_mut(id);
        stem.holders -= 1;
        if stem.holders == 0 {
            engine.free(stem.seq);
            self.remove(id);
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
        self.remove(id);
        seq
    }
}
