//! [`Engine`]: sequences whose keys and values are in pages, and the one forward call.

use std::sync::Arc;

use beamgen_kernels::{KvShape, ThreadPool};

use crate::chunk::Chunk;
use crate::chunks::Chunks;
use crate::idle::{IdleKv, Loan};
use crate::model::Packed;
use crate::pages::PagePool;
use crate::runner::{Runner, cpu::CpuPass};
use crate::sequences::{Sequence, Sequences};
use crate::{Append, EngineConfig, Error, Model, Output, Rows, SeqId};

/// The most bytes of memory that free pages keep for the next page that is needed; a sixteenth of
/// the budget bounds them, too. The memory of other free pages goes back to the system.
const WARM_BYTES: usize = 64 << 20;

/// The state of the key-value memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvStats {
    /// Pages of the budget: the engine's own, and the pages that it may borrow now.
    pub pages_total: usize,
    /// Pages of the engine's own budget, which the lender cannot claim.
    pub pages_own: usize,
    /// Pages that may still be taken.
    pub pages_free: usize,
    /// Borrowed pages that the lender has claimed since: they must be freed before the next call.
    pub pages_over: usize,
    /// Pages that at least one sequence uses.
    pub pages_used: usize,
    /// The most pages that were in use at once so far.
    pub peak_pages: usize,
    /// Bytes of a page, all layers together.
    pub page_bytes: usize,
    /// Bytes of a token, all layers together: `page_bytes / page_size`, rounded up.
    pub token_bytes: usize,
}

/// Sequences of one model, their keys and values, and the buffers to extend them.
///
/// Batch-invariant: the results of a row depend only on its sequence's tokens, to the last bit.
/// They do not depend on other rows of the call, on how the tokens were cut into calls, on forks,
/// or on the number of threads.
#[derive(Debug)]
pub struct Engine {
    model: Arc<Model>,
    pool: ThreadPool,
    pub(crate) runner: Runner,
    page_size: usize,
    max_rows: usize,
    pages: PagePool,
    /// Pages of the engine's own budget, borrowed pages not included.
    own_pages: usize,
    /// Pages that the engine's sequences may still take beyond those they have; they are not lent.
    reserved: usize,
    lends: Option<Arc<IdleKv>>,
    borrows: Option<Loan>,
    sequences: Sequences,
    chunk: Chunk,
    /// Page tables of the current call's sequences, concatenated in the order of the items.
    tables: Vec<u32>,
    /// Indices of the items in the current call whose last page is shared and must be copied.
    copies: Vec<usize>,
    /// Number of the current call. A sequence with this number is in the call already.
    call: u64,
    /// Memory of rows that were recycled, for the rows of the next call.
    spare: Vec<f32>,
}

impl Engine {
    /// Creates an engine with its own threads.
    ///
    /// # Errors
    /// [`Error::Setting`] for invalid settings.
    pub fn new(model: Arc<Model>, config: EngineConfig) -> Result<Self, Error> {
        let pool = ThreadPool::new(config.threads);
        Self::with_pool(model, config, pool)
    }

    /// Creates an engine on the threads of `pool` and ignores `config.threads`. Two models in one
    /// process should share a pool.
    ///
    /// # Errors
    /// [`Error::Setting`] for invalid settings; [`Error::Device`] if the first passes on the
    /// model's device compute something wrong.
    pub fn with_pool(
        model: Arc<Model>,
        config: EngineConfig,
        pool: ThreadPool,
    ) -> Result<Self, Error> {
        for (field, value, most) in [
            ("page_size", config.page_size, KvShape::MAX_PAGE_SIZE),
            ("max_rows", config.max_rows, 1 << 20),
        ] {
            if !(1..=most).contains(&value) {
                let reason = format!("{value} is not in 1..={most}");
                return Err(Error::setting(field, reason));
            }
        }
        let (runner, pages) = Runner::new(&model, &config, &pool)?;
        let page_bytes = runner.page_bytes();
        // Page tables hold `u32`, on the processor and in kernels.
        let total = pages.min(u32::MAX as usize);
        if total == 0 {
            let budget = config.kv_budget();
            let reason = format!("{budget} bytes hold no page: use at least {page_bytes} bytes");
            return Err(Error::setting("kv_bytes", reason));
        }
        #[cfg_attr(not(feature = "cuda"), expect(unused_mut))]
        let mut engine = Self {
            runner,
            pool,
            page_size: config.page_size,
            max_rows: config.max_rows,
            pages: PagePool::new(total, WARM_BYTES.min(config.kv_budget() / 16) / page_bytes),
            own_pages: total,
            reserved: 0,
            lends: None,
            borrows: None,
            sequences: Sequences::default(),
            chunk: Chunk::with_capacity(config.max_rows),
            tables: Vec::new(),
            copies: Vec::new(),
            call: 0,
            spare: Vec::new(),
            model,
        };
        #[cfg(feature = "cuda")]
        engine.warm_up()?;
        Ok(engine)
    }

    /// The model, which other engines may share.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The number of positions in a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// The threads that the engine computes on; other engines may share the pool.
    #[must_use]
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// Creates an empty sequence, which uses no page yet.
    pub fn create(&mut self) -> SeqId {
        self.sequences.create()
    }

    /// Creates a sequence with the same tokens. Both share all pages; the last page is copied when
    /// either of the two first writes to it.
    ///
    /// # Panics
    /// If `seq` does not exist.
    pub fn fork(&mut self, seq: SeqId) -> SeqId {
        self.expect(seq);
        let id = self.sequences.create();
        // Taken out while the source is read, since both are in one table. The vector of a slot
        // that was used before has memory already.
        let mut pages = std::mem::take(&mut self.expect_mut(id).pages);
        let source = self.expect(seq);
        let len = source.len;
        pages.extend_from_slice(&source.pages);
        for page in &pages {
            self.pages.share(*page);
        }
        let sequence = self.expect_mut(id);
        sequence.pages = pages;
        sequence.len = len;
        id
    }

    /// Shortens a sequence to its first `len` tokens; pages that become empty are released.
    ///
    /// # Panics
    /// If `seq` does not exist or is shorter.
    pub fn truncate(&mut self, seq: SeqId, len: usize) {
        let keep = len.div_ceil(self.page_size);
        let sequence = self
            .sequences
            .get_mut(seq)
            .expect("truncate: no such sequence");
        assert!(
            len <= sequence.len,
            "truncate to {len} tokens of {}",
            sequence.len
        );
        for page in sequence.pages.drain(keep..) {
            if let Some(cold) = self.pages.release(page) {
                self.runner.discard_page(cold);
            }
        }
        sequence.len = len;
        self.publish_idle();
    }

    /// Forgets a sequence; pages that no other sequence uses are free at once.
    ///
    /// # Panics
    /// If `seq` does not exist.
    pub fn free(&mut self, seq: SeqId) {
        self.truncate(seq, 0);
        self.sequences.remove(seq);
    }

    /// Returns the number of tokens in a sequence.
    ///
    /// # Panics
    /// If `seq` does not exist.
    #[must_use]
    pub fn len(&self, seq: SeqId) -> usize {
        self.expect(seq).len
    }

    /// Whether the engine has no sequences.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sequences.len() == 0
    }

    /// The number of sequences, the empty ones included.
    #[must_use]
    pub fn sequences(&self) -> usize {
        self.sequences.len()
    }

    /// Returns the current state of the key-value memory.
    #[must_use]
    pub fn kv(&self) -> KvStats {
        let (total, used) = (self.most_pages(), self.pages.used());
        KvStats {
            // With claimed loans more pages may be used than the budget has: then none is free, and
            // `pages_over` counts them.
            pages_total: total,
            pages_own: self.own_pages,
            pages_free: total.saturating_sub(used),
            pages_over: used.saturating_sub(total),
            pages_used: used,
            peak_pages: self.pages.peak(),
            page_bytes: self.page_bytes(),
            token_bytes: self.page_bytes().div_ceil(self.page_size),
        }
    }

    fn page_bytes(&self) -> usize {
        self.runner.page_bytes()
    }

    /// Pages that may be in use now: the engine's own and the loan, which changes between calls.
    fn most_pages(&self) -> usize {
        let loan = self.borrows.as_ref();
        let borrowed = loan.map_or(0, |loan| loan.pages(self.page_bytes()));
        self.own_pages
            .saturating_add(borrowed)
            .min(u32::MAX as usize)
    }

    /// Publishes the cache memory that this engine does not need in `idle`, for another engine.
    pub fn lend(&mut self, idle: Arc<IdleKv>) {
        self.lends = Some(idle);
        self.publish_idle();
    }

    /// Lets this engine use `share.0 / share.1` of the bytes in `idle`, in addition to its own
    /// budget.
    pub fn borrow(&mut self, idle: Arc<IdleKv>, share: (usize, usize)) {
        self.borrows = Some(Loan { from: idle, share });
    }

    /// Reserves `pages` for this engine's sequences beyond the pages they have, so that they are
    /// not lent.
    pub fn reserve(&mut self, pages: usize) {
        self.reserved = pages;
        self.publish_idle();
    }

    /// Publishes the bytes that a borrower may use; called whenever pages are taken or released.
    fn publish_idle(&self) {
        if let Some(idle) = &self.lends {
            // Only the engine's own budget can be lent, never a loan: otherwise two engines could
            // take the same memory.
            let claimed = self.pages.used() + self.reserved;
            idle.set(self.own_pages.saturating_sub(claimed) * self.page_bytes());
        }
    }

    /// Bytes that the engine holds in addition to weights, keys and values: activations, and the
    /// rotary table of the positions reached so far.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.runner.buffer_bytes()
    }

    /// Returns the number of pages that appending `extra_tokens` to `seq` takes now. The copy of a
    /// shared last page is included.
    ///
    /// # Panics
    /// If `seq` does not exist.
    #[must_use]
    pub fn pages_needed(&self, seq: SeqId, extra_tokens: usize) -> usize {
        let sequence = self.expect(seq);
        if extra_tokens == 0 {
            return 0;
        }
        let copies = usize::from(self.shared_tail(sequence).is_some());
        (sequence.len + extra_tokens).div_ceil(self.page_size) - sequence.pages.len() + copies
    }

    /// Appends tokens to sequences and returns the wanted rows, in the order of the items and,
    /// within an item, of its tokens. Prefill, decoding and scoring are this one call.
    ///
    /// # Errors
    /// A sequence that does not exist or appears twice, a token outside the vocabulary, a sequence
    /// that becomes too long, invalid indices of wanted rows, logits of a model without a head, or
    /// too little memory ([`Error::OutOfMemory`]). No sequence is changed then.
    pub fn forward(&mut self, items: &[Append<'_>], output: Output) -> Result<Rows, Error> {
        let wanted = self.check(items, output)?;
        self.take_pages(items)?;
        let width = output.width(self.model.config());
        let mut data = std::mem::take(&mut self.spare);
        data.resize(wanted * width, 0.0);
        self.compute(items, output, wanted, To::Host(&mut data))?;
        // Lengths grow only after the pass: if it fails, the written keys and values lie beyond
        // every sequence's end, and nothing reads them.
        self.lengthen(items);
        Ok(Rows { width, data })
    }

    /// Appends tokens like [`forward`](Self::forward), but leaves the wanted rows on the device.
    /// Returns the number of wanted rows.
    #[cfg(feature = "cuda")]
    pub(crate) fn forward_on_device(
        &mut self,
        items: &[Append<'_>],
        output: Output,
    ) -> Result<usize, Error> {
        let wanted = self.check(items, output)?;
        self.take_pages(items)?;
        self.compute(items, output, wanted, To::Device)?;
        self.lengthen(items);
        Ok(wanted)
    }

    /// The number of calls so far, by which [`Logits`](crate::Logits) of an earlier call are
    /// recognised.
    #[cfg(feature = "cuda")]
    pub(crate) fn calls(&self) -> u64 {
        self.call
    }

    fn lengthen(&mut self, items: &[Append<'_>]) {
        for item in items {
            self.expect_mut(item.seq).len += item.tokens.len();
        }
    }

    /// Returns the memory of `rows` to the engine, which uses it for the rows of the next call.
    pub fn recycle(&mut self, rows: Rows) {
        if rows.data.capacity() > self.spare.capacity() {
            self.spare = rows.data;
        }
    }

    /// Checks everything that can be wrong with a call except the memory; returns the number of
    /// wanted rows.
    fn check(&mut self, items: &[Append<'_>], output: Output) -> Result<usize, Error> {
        // Checked once for each call, not for each launch: the check is a system call.
        self.model.compute().check_process()?;
        if output == Output::Logits && !self.model.has_head() {
            return Err(Error::NoHead);
        }
        if output == Output::Residual && !self.model.compute().is_cpu() {
            let reason = "hidden states before the final norm are read on the CPU only";
            return Err(Error::setting("device", reason));
        }
        let c = self.model.config();
        let (vocab, max) = (c.vocab_size, c.max_position_embeddings);
        // A number that no sequence has: a sequence that meets it a second time is a duplicate.
        // This finds duplicates without a set that would be allocated for each call.
        self.call += 1;
        let mut wanted = 0;
        for item in items {
            let sequence = self
                .sequences
                .get_mut(item.seq)
                .ok_or(Error::UnknownSequence(item.seq))?;
            if std::mem::replace(&mut sequence.call, self.call) == self.call {
                return Err(Error::DuplicateSequence(item.seq));
            }
            if let Some(token) = item.tokens.iter().find(|t| **t as usize >= vocab) {
                return Err(Error::UnknownToken {
                    token: *token,
                    vocab,
                });
            }
            let (len, extra) = (sequence.len, item.tokens.len());
            if len + extra > max {
                return Err(Error::ContextOverflow { len, extra, max });
            }
            item.want.check(extra)?;
            wanted += item.want.count(extra);
        }
        Ok(wanted)
    }

    /// Gives every sequence the pages for its new tokens. If pages are too few, nothing is changed.
    fn take_pages(&mut self, items: &[Append<'_>]) -> Result<(), Error> {
        let mut needed = 0;
        self.pages.total = self.most_pages();
        self.copies.clear();
        for (i, item) in items.iter().enumerate() {
            if item.tokens.is_empty() {
                continue;
            }
            needed += self.pages_needed(item.seq, item.tokens.len());
            if let Some(tail) = self.shared_tail(self.expect(item.seq)) {
                // The reference is dropped before the next item is looked at: of several sequences
                // that share a page, all but the last copy it and the last keeps the original. The
                // page has another reference, so it never becomes free here.
                let _ = self.pages.release(tail);
                self.copies.push(i);
            }
        }
        let free = self.pages.free();
        if needed > free {
            // Restores the references that the loop above dropped.
            for n in 0..self.copies.len() {
                let sequence = self.expect(items[self.copies[n]].seq);
                let tail = *sequence.pages.last().expect("had a tail page");
                self.pages.share(tail);
            }
            return Err(Error::OutOfMemory { needed, free });
        }
        self.commit(items)
    }

    /// Takes the pages that [`take_pages`](Self::take_pages) has found free, and copies shared
    /// tails.
    fn commit(&mut self, items: &[Append<'_>]) -> Result<(), Error> {
        for n in 0..self.copies.len() {
            let i = self.copies[n];
            let copy = self.pages.take();
            // The memory of the copy must exist before something is written there.
            self.runner.prepare(self.pages.touched(), 0);
            let tail = self
                .expect_mut(items[i].seq)
                .pages
                .last_mut()
                .expect("had a tail page");
            let shared = std::mem::replace(tail, copy);
            self.runner.copy_page(shared, copy)?;
        }
        let mut longest = 0;
        for item in items {
            let sequence = self.sequences.get_mut(item.seq).expect("checked");
            let len = sequence.len + item.tokens.len();
            while sequence.pages.len() < len.div_ceil(self.page_size) {
                sequence.pages.push(self.pages.take());
            }
            longest = longest.max(len);
        }
        self.runner.prepare(self.pages.touched(), longest);
        self.publish_idle();
        Ok(())
    }

    /// Returns the page that the next token is written to, if it holds tokens and is shared.
    fn shared_tail(&self, sequence: &Sequence) -> Option<u32> {
        let tail = sequence.pages.last().copied();
        tail.filter(|page| {
            // At a multiple of the page size the last page is full: the next token opens another
            // page, and the shared page stays shared.
            !sequence.len.is_multiple_of(self.page_size) && self.pages.is_shared(*page)
        })
    }

    /// Runs all rows, at most `max_rows` at a time, and writes the wanted rows to `to`.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables))]
    fn compute(
        &mut self,
        items: &[Append<'_>],
        output: Output,
        wanted: usize,
        to: To<'_>,
    ) -> Result<(), Error> {
        let work = self.work(items);
        self.tables.clear();
        for item in items {
            let sequence = self.sequences.get(item.seq).expect("checked");
            self.tables.extend_from_slice(&sequence.pages);
        }
        let chunks = Chunks {
            items,
            sequences: &self.sequences,
            page_size: self.page_size,
            max_rows: self.max_rows,
            most_segments: self
                .runner
                .most_segments(self.model.config(), self.max_rows),
        };
        let (model, chunk) = (&*self.model, &mut self.chunk);
        match (&mut self.runner, model.packed(), to) {
            (Runner::Cpu(runner), Packed::Cpu(decoder), To::Host(out)) => {
                let pass = CpuPass {
                    config: model.config(),
                    decoder,
                    tables: &self.tables,
                    work,
                    output,
                };
                runner.run(&pass, out, |flush| chunks.each(chunk, flush))
            }
            #[cfg(feature = "cuda")]
            (Runner::Cuda(runner), Packed::Cuda(decoder), to) => {
                let mut pass =
                    runner.begin(model.config(), decoder, &self.tables, output, wanted)?;
                chunks.each(chunk, &mut |chunk| pass.run(chunk))?;
                match to {
                    To::Host(out) => pass.read(out),
                    To::Device => Ok(()),
                }
            }
            #[allow(unreachable_patterns)]
            _ => unreachable!("an engine runs where its model is, and rows stay on a device only"),
        }
    }

    /// Estimates the floating-point operations of a call; the thread pool wakes threads by it.
    fn work(&self, items: &[Append<'_>]) -> u64 {
        let c = self.model.config();
        // Scores and weighted values: two multiply-adds for each of a query's values and each
        // position.
        let per_position = 4 * (c.num_hidden_layers * c.q_width()) as u64;
        let per_row = self.model.row_work();
        items
            .iter()
            .map(|item| {
                let len = self.expect(item.seq).len + item.tokens.len();
                item.tokens.len() as u64 * (per_row + len as u64 * per_position)
            })
            .sum()
    }

    fn expect(&self, seq: SeqId) -> &Sequence {
        self.sequences.get(seq).expect("no such sequence")
    }

    fn expect_mut(&mut self, seq: SeqId) -> &mut Sequence {
        self.sequences.get_mut(seq).expect("no such sequence")
    }
}

/// Where a pass writes the wanted rows.
enum To<'a> {
    Host(&'a mut [f32]),
    /// Rows stay in the runner's memory on the device.
    #[cfg(feature = "cuda")]
    Device,
}
