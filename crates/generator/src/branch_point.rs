//! Where chains branch: cached tokens, and the few that are still to be read.

use std::collections::BTreeMap;

use beamgen_engine::{Engine, SeqId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BranchId(u64);

/// The common beginning of one or more chains that are between steps.
#[derive(Debug)]
pub(crate) struct BranchPoint {
    pub seq: SeqId,
    /// Tokens not in the cache: the prompt, the token that closed the last step, or all of them.
    pub unread: Vec<u32>,
    /// Logits after the last token, once everything is read and some chain is still here.
    logits: Option<Vec<f32>>,
    /// The token read last.
    last: u32,
    /// Chains that begin here.
    pub holders: usize,
    /// Pages reserved for reading `unread`.
    pub reserved: bool,
}

#[derive(Debug)]
pub(crate) struct BranchPoints {
    branches: BTreeMap<BranchId, BranchPoint>,
    next: u64,
    /// Bytes of the logits that branch points have.
    row_bytes: usize,
    /// Most bytes of logits that are kept from pass to pass.
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
    /// A branch point of one chain.
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
    /// If there is no such branch point: chains and branch points are kept together by this crate
    /// alone.
    pub(crate) fn get(&self, id: BranchId) -> &BranchPoint {
        &self.branches[&id]
    }

    pub(crate) fn get_mut(&mut self, id: BranchId) -> &mut BranchPoint {
        self.branches
            .get_mut(&id)
            .expect("a chain holds its branch")
    }

    /// Notes that everything is read.
    pub(crate) fn note_read(&mut self, id: BranchId) {
        let branch = self.get_mut(id);
        if let Some(last) = branch.unread.pop() {
            branch.last = last;
        }
        branch.unread.clear();
    }

    /// Keeps the logits after a branch point point for the chains that are still there, if any are.
    pub(crate) fn keep_logits(&mut self, id: BranchId, logits: Vec<f32>) {
        if let Some(branch) = self.branches.get_mut(&id) {
            self.row_bytes += size_of_val(&logits[..]);
            branch.logits = Some(logits);
        }
    }

    /// Whether some chain is still there.
    pub(crate) fn exists(&self, id: BranchId) -> bool {
        self.branches.contains_key(&id)
    }

    /// The logits after a branch point point, if they are kept.
    pub(crate) fn take_logits(&mut self, id: BranchId) -> Option<Vec<f32>> {
        let logits = self.get_mut(id).logits.take()?;
        self.row_bytes -= size_of_val(&logits[..]);
        Some(logits)
    }

    /// Forgets the oldest logits beyond the limit: whoever starts from there reads the last token
    /// again, which gives the same. No chain may be waiting at a branch point point, for it has not
    /// reserved the memory.
    pub(crate) fn forget_logits(&mut self, engine: &mut Engine) {
        for branch in self.branches.values_mut() {
            if self.row_bytes <= self.limit {
                break;
            }
            if let Some(logits) = branch.logits.take() {
                self.row_bytes -= size_of_val(&logits[..]);
                engine.truncate(branch.seq, engine.len(branch.seq) - 1);
                branch.unread.push(branch.last);
                branch.reserved = false;
            }
        }
    }

    /// Drops the cache of a branch point; `tokens` are all of its tokens, which it reads again.
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

    /// Lets a chain go; the last one takes the branch point with it.
    pub(crate) fn release(&mut self, id: BranchId, engine: &mut Engine) {
        let branch = self.get_mut(id);
        branch.holders -= 1;
        if branch.holders == 0 {
            engine.free(branch.seq);
            self.remove(id);
        }
    }

    /// A sequence for a chain that leaves its branch point: the sequence itself for the last one, a
    /// fork for the others.
    pub(crate) fn detach(&mut self, id: BranchId, engine: &mut Engine) -> SeqId {
        let branch = self.get_mut(id);
        branch.holders -= 1;
        if branch.holders > 0 {
            return engine.fork(branch.seq);
        }
        let seq = branch.seq;
        self.remove(id);
        seq
    }
}
