//! Branch points: cached tokens that several chains share, and tokens after them that are not read
//! yet.

use std::collections::BTreeMap;

use beamgen_engine::{Engine, SeqId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BranchId(u64);

/// The common beginning of one or more chains that are between steps.
#[derive(Debug)]
pub(crate) struct BranchPoint {
    pub seq: SeqId,
    /// Tokens that are not in the cache. For a new problem this is the prompt, after a step the
    /// token that closed it, after `forget` all tokens.
    pub unread: Vec<u32>,
    /// The logits after the last token, if they are computed and kept for further chains.
    logits: Option<Vec<f32>>,
    /// The last token that was read. It has to be read again if `logits` are forgotten.
    last: u32,
    /// The number of chains that are at the branch point.
    pub holders: usize,
    /// Pages reserved for reading `unread`.
    pub reserved: bool,
}

#[derive(Debug)]
pub(crate) struct BranchPoints {
    branches: BTreeMap<BranchId, BranchPoint>,
    next: u64,
    /// The bytes of the `logits` of all branch points together.
    row_bytes: usize,
    /// The most bytes of logits that are kept from one pass to the next.
    pub limit: usize,
}

impl Default for BranchPoints {
    fn default() -> Self {
        Self {
            branches: BTreeMap::new(),
            next: 0,
            row_bytes: 0,
            limit: 64 << 20,
        }
    }
}

impl BranchPoints {
    /// Adds a branch point at which one chain is.
    pub(crate) fn insert(&mut self, seq: SeqId, unread: Vec<u32>) -> BranchId {
        let id = BranchId(self.next);
        self.next += 1;
        let branch = BranchPoint {
            seq,
            unread,
            logits: None,
            last: 0,
            holders: 1,
            reserved: false,
        };
        self.branches.insert(id, branch);
        id
    }

    /// # Panics
    /// If the branch point does not exist. Only this crate makes branch points, and each lives as
    /// long as its chains.
    pub(crate) fn get(&self, id: BranchId) -> &BranchPoint {
        &self.branches[&id]
    }

    pub(crate) fn get_mut(&mut self, id: BranchId) -> &mut BranchPoint {
        self.branches
            .get_mut(&id)
            .expect("a chain holds its branch")
    }

    /// Marks all unread tokens as read.
    pub(crate) fn note_read(&mut self, id: BranchId) {
        let branch = self.get_mut(id);
        if let Some(last) = branch.unread.pop() {
            branch.last = last;
        }
        branch.unread.clear();
    }

    /// Keeps the logits after a branch point; without a chain there they are dropped.
    pub(crate) fn keep_logits(&mut self, id: BranchId, logits: Vec<f32>) {
        if let Some(branch) = self.branches.get_mut(&id) {
            self.row_bytes += size_of_val(&logits[..]);
            branch.logits = Some(logits);
        }
    }

    /// Whether any chain is still at the branch point.
    pub(crate) fn exists(&self, id: BranchId) -> bool {
        self.branches.contains_key(&id)
    }

    /// Takes the logits after a branch point; `None` if none are kept.
    pub(crate) fn take_logits(&mut self, id: BranchId) -> Option<Vec<f32>> {
        let logits = self.get_mut(id).logits.take()?;
        self.row_bytes -= size_of_val(&logits[..]);
        Some(logits)
    }

    /// Forgets the oldest logits beyond the limit. A chain that starts there later reads the last
    /// token again, which gives the same logits. No chain may be waiting at a branch point: it
    /// would not have reserved memory for that read.
    pub(crate) fn forget_logits(&mut self, engine: &mut Engine) {
        // Ids rise, so the oldest branch points come first.
        for branch in self.branches.values_mut() {
            if self.row_bytes <= self.limit {
                break;
            }
            if let Some(logits) = branch.logits.take() {
                self.row_bytes -= size_of_val(&logits[..]);
                // The cache before the last token stays, so only this token has to be read again.
                engine.truncate(branch.seq, engine.len(branch.seq) - 1);
                branch.unread.push(branch.last);
                branch.reserved = false;
            }
        }
    }

    /// Drops the cache of a branch point. `tokens` are all its tokens, which have to be read again.
    /// No chain may be waiting there.
    pub(crate) fn forget(&mut self, id: BranchId, tokens: &[u32], engine: &mut Engine) {
        self.take_logits(id);
        let branch = self.get_mut(id);
        engine.truncate(branch.seq, 0);
        branch.unread.clear();
        branch.unread.extend_from_slice(tokens);
        branch.reserved = false;
    }

    fn remove(&mut self, id: BranchId) {
        if let Some(logits) = self.branches.remove(&id).and_then(|branch| branch.logits) {
            self.row_bytes -= size_of_val(&logits[..]);
        }
    }

    /// Takes a chain off its branch point. The branch point of the last chain is freed.
    pub(crate) fn release(&mut self, id: BranchId, engine: &mut Engine) {
        let branch = self.get_mut(id);
        branch.holders -= 1;
        if branch.holders == 0 {
            engine.free(branch.seq);
            self.remove(id);
        }
    }

    /// Returns a sequence for a chain that leaves its branch point: a fork or, for the last chain,
    /// the sequence of the branch point itself.
    pub(crate) fn detach(&mut self, id: BranchId, engine: &mut Engine) -> SeqId {
        let branch = self.get_mut(id);
        branch.holders -= 1;
        if branch.holders > 0 {
            // A fork shares all pages; the last page is copied when one of the two sequences grows.
            return engine.fork(branch.seq);
        }
        let seq = branch.seq;
        self.remove(id);
        seq
    }
}
