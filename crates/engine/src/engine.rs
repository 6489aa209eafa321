//! [`Engine`] keeps sequences, whose keys and values are in pages, and extends them by one call.

mod prefix_reuse;

use std::sync::Arc;

use beamgen_kernels::{KvShape, ThreadPool};

use crate::chunk::Chunk;
use crate::chunks::Chunks;
use crate::idle::{IdleKv, Loan};
use crate::model::Packed;
use crate::pages::PagePool;
use crate::prefixes::Prefixes;
use crate::runner::{Runner, cpu::CpuPass};
use crate::sequences::{Sequence, Sequences};
use crate::{Account, Append, EngineConfig, Error, Model, Output, Rows, SeqId};

/// The most bytes of free pages that stay allocated, so that the next page costs no system call. It
/// also limits the free pages that keep the prompts of freed sequences. A sixteenth of the budget is
/// a second limit for each. The memory of all other free pages goes back to the system.
const WARM_BYTES: usize = 64 << 20;

/// The state of the key-value memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvStats {
    /// Pages of the whole budget: the engine's own, and the pages that it may borrow now.
    pub pages_total: usize,
    /// Pages of the engine's own budget, which the lender cannot claim.
    pub pages_own: usize,
    /// Pages that may still be taken.
    pub pages_free: usize,
    /// Borrowed pages that the lender has claimed since: they must be freed before the next call.
    pub pages_over: usize,
    /// Pages in use; a page that several sequences share counts once.
    pub pages_used: usize,
    /// The most pages that were in use at once since the engine was created.
    pub peak_pages: usize,
    /// Bytes of a page, all layers together.
    pub page_bytes: usize,
    /// Bytes of a token, all layers together: `page_bytes / page_size`, rounded up.
    pub token_bytes: usize,
}

/// The work of an engine since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Computed {
    /// Tokens that were read by a pass.
    pub tokens: u64,
    /// Tokens that were appended without a pass, because another sequence had read the same prefix.
    pub reused_tokens: u64,
    /// Floating-point operations, as [`Model::flops`] counts them.
    pub flops: u64,
}

/// Sequences of one model, their keys and values, and the buffers to extend them.
///
/// Batch-invariant: a row's result depends only on the tokens of its own sequence, to the last bit.
/// It does not depend on other rows of the call, on how the tokens were split into calls, on forks,
/// or on the number of threads.
#[derive(Debug)]
pub struct Engine {
    model: Arc<Model>,
    pool: ThreadPool,
    pub(crate) runner: Runner,
    page_size: usize,
    max_rows: usize,
    pages: PagePool,
    own_pages: usize,
    /// Pages that this engine does not lend, in addition to the pages in use.
    reserved: usize,
    lends: Option<Arc<IdleKv>>,
    borrows: Option<Loan>,
    sequences: Sequences,
    /// The content of pages; `None` if prefixes are not reused.
    prefixes: Option<Prefixes>,
    /// For each item of the current call, the number of its first tokens whose keys and values were
    /// found in other sequences' pages.
    found: Vec<usize>,
    computed: Computed,
    chunk: Chunk,
    /// Page tables of the current call's sequences, concatenated in the order of the items.
    tables: Vec<u32>,
    /// Indices of the current call's items whose last page is shared and must be copied.
    copies: Vec<usize>,
    /// The number of the current call. A sequence with this number has appeared in the current
    /// call.
    call: u64,
    /// The memory of a recycled [`Rows`], for the rows of the next call.
    spare: Vec<f32>,
}

impl Engine {
    /// Creates an engine with a thread pool of its own, of `config.threads` threads.
    ///
    /// # Errors
    /// The errors of [`with_pool`](Self::with_pool).
    pub fn new(model: Arc<Model>, config: EngineConfig) -> Result<Self, Error> {
        let pool = ThreadPool::new(config.threads);
        Self::with_pool(model, config, pool)
    }

    /// Creates an engine that computes on the threads of `pool`; `config.threads` is ignored. Two
    /// models in one process should share a pool, because their threads would otherwise compete.
    ///
    /// # Errors
    /// [`Error::Setting`] for an invalid setting. [`Error::Device`] if memory for the engine cannot
    /// be allocated on the model's device, or the first passes there compute wrong results.
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
        // Page tables store page numbers as `u32`, on the processor and in CUDA kernels.
        let total = pages.min(u32::MAX as usize);
        if total == 0 {
            let budget = config.kv_budget();
            let reason = format!("{budget} bytes hold no page: use at least {page_bytes} bytes");
            return Err(Error::setting("kv_bytes", reason));
        }
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
            prefixes: None,
            found: Vec::new(),
            computed: Computed::default(),
            chunk: Chunk::with_capacity(config.max_rows),
            tables: Vec::new(),
            copies: Vec::new(),
            call: 0,
            spare: Vec::new(),
            model,
        };
        #[cfg(feature = "cuda")]
        engine.warm_up()?;
        // The first passes read a text several times to compare the results, so they reuse nothing.
        engine.prefixes = config.prefix_cache.then(|| Prefixes::new(config.page_size));
        engine.computed = Computed::default();
        Ok(engine)
    }

    /// The model that this engine runs. Other engines may share it.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The number of positions in a page, by which callers round up their memory needs.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// The thread pool that this engine computes on. Other engines may share it.
    #[must_use]
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// Returns the work of all calls so far.
    #[must_use]
    pub fn computed(&self) -> Computed {
        self.computed
    }

    /// Creates an empty sequence. Its first page is taken when tokens are appended.
    pub fn create(&mut self) -> SeqId {
        self.sequences.create()
    }

    /// Creates a sequence with the tokens of `seq`. Both share all pages. If the last page is not
    /// full, the first of the two that appends copies it.
    ///
    /// # Panics
    /// If `seq` does not exist.
    pub fn fork(&mut self, seq: SeqId) -> SeqId {
        self.expect(seq);
        let id = self.sequences.create();
        // Both sequences are in one table, so the new one's vector is taken out while the source is
        // read. A reused slot's vector has memory already.
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
        // The last page first: then the beginning of a sequence stays reusable for longest.
        for page in sequence.pages.drain(keep..).rev() {
            let prefixes = self.prefixes.as_mut();
            let keep = prefixes.as_ref().is_some_and(|all| all.is_kept(page));
            let released = self.pages.release(page, keep);
            if let (Some(prefixes), Some(page)) = (prefixes, released.void) {
                prefixes.forget(page);
            }
            if let Some(cold) = released.cold {
                self.runner.discard_page(cold);
            }
        }
        sequence.len = len;
        self.publish_idle();
    }

    /// Deletes a sequence. Pages that no other sequence uses are free at once.
    ///
    /// # Panics
    /// If `seq` does not exist.
    pub fn free(&mut self, seq: SeqId) {
        self.truncate(seq, 0);
        self.sequences.remove(seq);
    }

    /// The number of tokens in `seq`; also the position of the next token.
    ///
    /// # Panics
    /// If `seq` does not exist.
    #[must_use]
    pub fn len(&self, seq: SeqId) -> usize {
        self.expect(seq).len
    }

    /// Whether all sequences were freed, so that no page is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sequences.len() == 0
    }

    /// The number of sequences, empty ones included.
    #[must_use]
    pub fn sequences(&self) -> usize {
        self.sequences.len()
    }

    /// Returns the current page counts. Claims of a lender change them between calls.
    #[must_use]
    pub fn kv(&self) -> KvStats {
        let (total, used) = (self.most_pages(), self.pages.used());
        KvStats {
            // A lender may have claimed pages that are in use. Then more pages are used than the
            // budget has: none is free, and `pages_over` counts the excess.
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

    /// The most pages that may be in use now: the engine's own, and the loan, which changes between
    /// calls.
    fn most_pages(&self) -> usize {
        let loan = self.borrows.as_ref();
        let borrowed = loan.map_or(0, |loan| loan.pages(self.page_bytes()));
        self.own_pages
            .saturating_add(borrowed)
            .min(u32::MAX as usize)
    }

    /// Publishes in `idle` the bytes of the cache that this engine does not need, so that another
    /// engine may [`borrow`](Self::borrow) them.
    pub fn lend(&mut self, idle: Arc<IdleKv>) {
        self.lends = Some(idle);
        self.publish_idle();
    }

    /// Allows this engine to use `share.0 / share.1` of the bytes in `idle` beyond its own budget.
    pub fn borrow(&mut self, idle: Arc<IdleKv>, share: (usize, usize)) {
        self.borrows = Some(Loan { from: idle, share });
    }

    /// Reserves `pages` for this engine, in addition to the pages in use, so that they are not
    /// lent.
    pub fn reserve(&mut self, pages: usize) {
        self.reserved = pages;
        self.publish_idle();
    }

    /// Updates the bytes that a borrower may use, whenever pages are taken or released.
    fn publish_idle(&self) {
        if let Some(idle) = &self.lends {
            // A borrowed page must not be lent again: two engines could take the same memory.
            let claimed = self.pages.used() + self.reserved;
            idle.set(self.own_pages.saturating_sub(claimed) * self.page_bytes());
        }
    }

    /// The bytes of the engine's memory besides weights, keys and values: activations, and the
    /// rotary table of the positions reached so far.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.runner.buffer_bytes()
    }

    /// Returns the number of pages that appending `extra_tokens` to `seq` would take, the copy of a
    /// shared last page included.
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

    /// Appends tokens to sequences and returns the wanted rows, in the order of the items and of
    /// their tokens. Prefill, decoding and scoring all use this call.
    ///
    /// # Errors
    /// A sequence that does not exist or appears twice, a token outside the vocabulary, a sequence
    /// that becomes too long, invalid indices of wanted rows, logits of a model without a head, or
    /// too little memory ([`Error::OutOfMemory`]). After these errors no sequence has changed.
    pub fn forward(&mut self, items: &[Append<'_>], output: Output) -> Result<Rows, Error> {
        let wanted = self.begin(items, output)?;
        let width = output.width(self.model.config());
        let mut data = std::mem::take(&mut self.spare);
        data.resize(wanted * width, 0.0);
        let computed = self.compute(items, output, wanted, To::Host(&mut data));
        self.end(items, computed)?;
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
        let wanted = self.begin(items, output)?;
        let computed = self.compute(items, output, wanted, To::Device);
        self.end(items, computed)?;
        Ok(wanted)
    }

    /// The number of calls so far. [`Logits`](crate::Logits) compare it to detect that a later call
    /// has overwritten them.
    #[cfg(feature = "cuda")]
    pub(crate) fn calls(&self) -> u64 {
        self.call
    }

    /// Checks a call, finds the prefixes that were read before, and takes pages for the other
    /// tokens. Returns the number of wanted rows.
    fn begin(&mut self, items: &[Append<'_>], output: Output) -> Result<usize, Error> {
        let wanted = self.check(items, output)?;
        self.found.clear();
        self.found.resize(items.len(), 0);
        let read = self.computed.tokens;
        if self.prefixes.is_some() {
            self.pages.total = self.most_pages();
            self.reuse_prefixes(items);
        }
        self.take_pages(items)?;
        // Tokens that several items share were read for one of them.
        let found = self.found.iter().sum::<usize>() as u64;
        self.computed.reused_tokens += found.saturating_sub(self.computed.tokens - read);
        Ok(wanted)
    }

    /// Ends a call after its passes: lengthens the sequences or, if a device failed, takes the pages
    /// of the new tokens from them again.
    fn end(&mut self, items: &[Append<'_>], computed: Result<(), Error>) -> Result<(), Error> {
        match computed {
            Ok(()) => self.lengthen(items),
            Err(_) => self.undo_pages(items),
        }
        computed
    }

    fn lengthen(&mut self, items: &[Append<'_>]) {
        let (prefixes, page_size) = (&mut self.prefixes, self.page_size);
        for (item, &found) in items.iter().zip(&self.found) {
            let sequence = self.sequences.get_mut(item.seq).expect("checked");
            let start = sequence.len;
            sequence.len += item.tokens.len();
            let Some(prefixes) = prefixes else {
                continue;
            };
            let mut at = found;
            while at < item.tokens.len() {
                let (page, offset) = ((start + at) / page_size, (start + at) % page_size);
                let end = item.tokens.len().min(at + page_size - offset);
                prefixes.write(&sequence.pages, page, offset, &item.tokens[at..end]);
                at = end;
            }
        }
    }

    /// Opens an account of the passes from now on, which measures each operation. An account on a
    /// CUDA device stays empty.
    pub fn open_account(&mut self) {
        match &mut self.runner {
            Runner::Cpu(runner) => runner.clock.open(),
            #[cfg(feature = "cuda")]
            Runner::Cuda(_) => {}
        }
    }

    /// Ends the account that [`open_account`](Self::open_account) opened, and returns it.
    pub fn close_account(&mut self) -> Account {
        match &mut self.runner {
            Runner::Cpu(runner) => runner.clock.close(),
            #[cfg(feature = "cuda")]
            Runner::Cuda(_) => Account::default(),
        }
    }

    /// Gives the memory of `rows` back to the engine, so that the next call allocates nothing.
    pub fn recycle(&mut self, rows: Rows) {
        if rows.data.capacity() > self.spare.capacity() {
            self.spare = rows.data;
        }
    }

    /// Checks a call for every error except too little memory. Returns the number of wanted rows.
    fn check(&mut self, items: &[Append<'_>], output: Output) -> Result<usize, Error> {
        // The check is a system call, so it is done once per call and not per kernel launch.
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
        // The number marks the sequences that this call has seen, which finds duplicates without
        // allocating a set.
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

    /// Takes the pages for all new tokens. If too few are free, nothing changes.
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
                // The reference is dropped before the next item is checked. If several sequences of
                // the call share a page, all but the last copy it, and the last keeps the original.
                // The page has another reference, so it does not become free here.
                self.pages.release(tail, false);
                self.copies.push(i);
            }
        }
        let free = self.pages.free();
        if needed > free {
            // Restores the references that the loop above has dropped.
            for n in 0..self.copies.len() {
                let sequence = self.expect(items[self.copies[n]].seq);
                let tail = *sequence.pages.last().expect("had a tail page");
                self.pages.share(tail);
            }
            // Without the pages that were found, every sequence is as before the call.
            self.undo_pages(items);
            return Err(Error::OutOfMemory { needed, free });
        }
        self.commit(items)
    }

    /// Takes the new pages, which [`take_pages`](Self::take_pages) has found to be free, and copies
    /// the shared last pages.
    fn commit(&mut self, items: &[Append<'_>]) -> Result<(), Error> {
        for n in 0..self.copies.len() {
            let i = self.copies[n];
            let copy = self.pages.take();
            // The memory of the new page must exist before the copy writes to it.
            self.runner.prepare(self.pages.touched(), 0);
            let tail = self
                .expect_mut(items[i].seq)
                .pages
                .last_mut()
                .expect("had a tail page");
            let shared = std::mem::replace(tail, copy);
            if let Some(prefixes) = &mut self.prefixes {
                prefixes.forget(copy);
                prefixes.copy(shared, copy);
            }
            self.runner.copy_page(shared, copy)?;
        }
        let mut longest = 0;
        for item in items.iter().filter(|item| !item.tokens.is_empty()) {
            let sequence = self.sequences.get_mut(item.seq).expect("checked");
            // A page that is begun may be known by tokens that were cut off since.
            let begun = usize::from(!sequence.len.is_multiple_of(self.page_size));
            let first = sequence.pages.len() - begun;
            let len = sequence.len + item.tokens.len();
            while sequence.pages.len() < len.div_ceil(self.page_size) {
                sequence.pages.push(self.pages.take());
            }
            if let Some(prefixes) = &mut self.prefixes {
                for &page in &sequence.pages[first..] {
                    prefixes.forget(page);
                }
            }
            longest = longest.max(len);
        }
        self.runner.prepare(self.pages.touched(), longest);
        self.publish_idle();
        Ok(())
    }

    /// Returns the page to which the next token is written, if another sequence shares that page.
    fn shared_tail(&self, sequence: &Sequence) -> Option<u32> {
        let tail = sequence.pages.last().copied();
        tail.filter(|page| {
            // At a multiple of the page size, the last page is full: the next token opens another
            // page, and the full page stays shared.
            !sequence.len.is_multiple_of(self.page_size) && self.pages.is_shared(*page)
        })
    }

    /// Computes all rows in passes of at most `max_rows` rows, and writes the wanted rows to `to`.
    fn compute(
        &mut self,
        items: &[Append<'_>],
        output: Output,
        wanted: usize,
        to: To<'_>,
    ) -> Result<(), Error> {
        let work = self.work(items);
        self.count(items, output, wanted, work);
        self.tables.clear();
        for item in items {
            let sequence = self.sequences.get(item.seq).expect("checked");
            self.tables.extend_from_slice(&sequence.pages);
        }
        let chunks = Chunks {
            items,
            found: &self.found,
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

    /// Counts a call, which takes `work` operations besides the logits.
    fn count(&mut self, items: &[Append<'_>], output: Output, wanted: usize, work: u64) {
        let found = items.iter().zip(&self.found);
        let tokens: usize = found.map(|(item, found)| item.tokens.len() - found).sum();
        let logits = match output {
            Output::Logits => wanted,
            Output::Hidden | Output::Residual => 0,
        };
        self.computed.tokens += tokens as u64;
        self.computed.flops += work + self.model.flops(0, 0, logits);
    }

    /// Estimates the floating-point operations of a call, by which the thread pool decides how many
    /// threads to wake.
    fn work(&self, items: &[Append<'_>]) -> u64 {
        let work = items.iter().zip(&self.found).map(|(item, &found)| {
            let before = self.expect(item.seq).len + found;
            self.model.flops(before, item.tokens.len() - found, 0)
        });
        work.sum()
    }

    fn expect(&self, seq: SeqId) -> &Sequence {
        self.sequences.get(seq).expect("no such sequence")
    }

    fn expect_mut(&mut self, seq: SeqId) -> &mut Sequence {
        self.sequences.get_mut(seq).expect("no such sequence")
    }
}

enum To<'a> {
    Host(&'a mut [f32]),
    /// The rows stay in the runner's memory on the device.
    #[cfg(feature = "cuda")]
    Device,
}
