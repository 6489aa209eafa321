//! The memory of chains in the middle of a step. It is reserved in pieces, so that a chain whose
//! step may have 32,000 tokens does not keep the memory for all of them from other chains.
//!
//! Every running chain has memory for its next tokens, or waits. If memory is short, the oldest
//! chain of the oldest problem gets its piece first: the youngest chains lose their memory for it,
//! and read their tokens again when another chain has freed memory. So the oldest chain always
//! continues, and results do not change.

use beamgen_search::{ChainId, Finish, StepOutput};

use super::{Cache, Chain, LmGenerator, Place};
use crate::book::State;
use crate::branch_point::BranchId;

/// The tokens of a piece. A step of fewer tokens gets its memory at once.
const PIECE: usize = 256;

impl LmGenerator {
    /// Returns the pages to reserve for the first piece of the chain's next step, or of the rest of
    /// its paused step, and the number of tokens that the chain then has memory for.
    pub(super) fn first_piece(&self, id: ChainId) -> (usize, usize) {
        let chain = self.book.chain(id);
        let branch = match chain.cache.place {
            Place::Branch(branch) => branch,
            Place::Own(seq) => {
                let reads = self.next_reads(chain);
                let pages = self.engine.pages_needed(seq, reads);
                return (pages, self.engine.len(seq) + reads);
            }
        };
        let branch = self.branches.get(branch);
        let unread = branch.unread.len();
        let shared = self.engine.pages_needed(branch.seq, unread);
        // Only the first chain that starts here reserves pages for reading the branch point.
        let reading = if branch.reserved { 0 } else { shared };
        // The token that closes the step is read only when the chain continues.
        let reads = chain.longest_rest().clamp(1, PIECE) - 1;
        let all = self.engine.pages_needed(branch.seq, unread + reads);
        let granted = self.engine.len(branch.seq) + unread + reads;
        // New pages, and a copy of the last page, which the chain shares with the branch point.
        (reading + all.saturating_sub(shared) + 1, granted)
    }

    /// Returns the number of tokens that the next piece of a chain with a sequence of its own is
    /// for: at least the tokens that are not read yet.
    fn next_reads(&self, chain: &Chain) -> usize {
        let unread = self.unread(&chain.cache);
        // The last token of a step is never read in it.
        let rest = unread + chain.longest_rest().max(1) - 1;
        rest.min(PIECE.max(unread))
    }

    /// Returns the number of tokens that are not in the chain's sequence.
    fn unread(&self, cache: &Cache) -> usize {
        match cache.place {
            Place::Own(seq) => cache.history.len() - self.engine.len(seq),
            Place::Branch(_) => 0,
        }
    }

    pub(super) fn reserve(&mut self, pages: usize) {
        self.reserved = pages;
        self.engine.reserve(pages);
    }

    /// Returns the pages that active chains have reserved and do not use yet. After a pass no active
    /// chain waits at a branch point.
    fn count_reserved(&self) -> usize {
        let chains = self.book.active().iter().map(|&id| self.book.chain(id));
        chains
            .map(|chain| match chain.cache.place {
                Place::Own(seq) => {
                    let left = chain.cache.granted.saturating_sub(self.engine.len(seq));
                    self.engine.pages_needed(seq, left)
                }
                Place::Branch(_) => 0,
            })
            .sum()
    }

    /// Gives running chains memory for their next pass, the oldest first. If memory is too short even
    /// for the oldest chain alone, the chain ends ([`Finish::NoMemory`]).
    pub(super) fn grant(&mut self, closed: &mut Vec<StepOutput>) {
        self.reserve(self.count_reserved());
        self.waits = false;
        let lacks = |cache: &Cache| cache.history.len() > cache.granted;
        let active = self.book.active();
        if !active.iter().any(|&id| lacks(&self.book.chain(id).cache)) {
            return;
        }
        let mut running: Vec<ChainId> = active.to_vec();
        running.sort_by_key(|&id| (self.book.chain(id).opened, id));
        for at in 0..running.len() {
            let id = running[at];
            if !lacks(&self.book.chain(id).cache) || self.give_piece(id, at == 0) {
                continue;
            }
            // The youngest chains lose their memory to an older one that has never lost its own.
            let may_take = at == 0 || self.book.chain(id).cache.evicted.is_none();
            let mut younger = running[at + 1..].iter().rev();
            let mut given = false;
            while may_take
                && !given
                && let Some(&loser) = younger.next()
            {
                self.evict(loser);
                given = self.give_piece(id, at == 0);
            }
            if !given && at == 0 && self.forget_branches(None) {
                given = self.give_piece(id, true);
            }
            if !given && at == 0 {
                closed.push(self.book.cut(id, Finish::NoMemory));
                self.end_in_place(id);
                continue;
            }
            self.waits |= !given;
        }
        self.book.drop_idle();
    }

    /// Reserves the next piece of a chain. Returns whether there was memory for it.
    fn give_piece(&mut self, id: ChainId, is_oldest: bool) -> bool {
        let chain = self.book.chain(id);
        let Place::Own(seq) = chain.cache.place else {
            return true;
        };
        // Memory that was taken for an older chain is not free before a chain has ended.
        if !is_oldest && chain.cache.evicted.is_some_and(|freed| freed == self.freed) {
            return false;
        }
        let reads = self.next_reads(chain);
        let length = self.engine.len(seq);
        let before = chain.cache.granted.saturating_sub(length);
        let more = self.engine.pages_needed(seq, reads) - self.engine.pages_needed(seq, before);
        if self.reserved + more > self.engine.kv().pages_free {
            return false;
        }
        self.reserve(self.reserved + more);
        if let Some(cache) = self.book.cache(id) {
            (cache.granted, cache.evicted) = (length + reads, None);
        }
        true
    }

    /// Takes the memory of a running chain, which has to read its tokens again.
    fn evict(&mut self, id: ChainId) {
        let freed = self.freed;
        let Some(cache) = self.book.cache(id) else {
            return;
        };
        if let Place::Own(seq) = cache.place {
            (cache.granted, cache.evicted) = (0, Some(freed));
            self.engine.truncate(seq, 0);
            self.reserve(self.count_reserved());
        }
    }

    /// Makes a branch point of the sequence of a chain whose step was cut.
    fn end_in_place(&mut self, id: ChainId) {
        self.freed += 1;
        if let Some(cache) = self.book.cache(id)
            && let Place::Own(seq) = cache.place
        {
            let unread = cache.history[self.engine.len(seq)..].to_vec();
            cache.place = Place::Branch(self.branches.insert(seq, unread));
        }
    }

    /// Forgets the caches of all branch points except `kept`, at which no started chain waits.
    /// Returns whether that freed memory.
    pub(super) fn forget_branches(&mut self, kept: Option<BranchId>) -> bool {
        let before = self.engine.kv().pages_free;
        for chain in self.book.chains() {
            if let Place::Branch(branch) = chain.cache.place
                && Some(branch) != kept
                && !matches!(chain.state, State::Running(_))
            {
                let history = &chain.cache.history;
                self.branches.forget(branch, history, &mut self.engine);
            }
        }
        self.engine.kv().pages_free > before
    }
}
