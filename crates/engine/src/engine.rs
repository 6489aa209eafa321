//! Sequences over pages, and the one forward call.

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

/// Free pages keep at most so many bytes of memory for the next page that is needed, and at most a
/// sixteenth of the budget. The memory of other free pages goes back to the system.
const WARM_BYTES: usize = 64 << 20;

/// The state of the key-value memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvStats {
    /// Pages of the budget: the engine's own, and those that it may borrow now.
    pub pages_total: usize,
    /// Pages of the engine's own budget, which the lender cannot claim.
    pub pages_own: usize,
    /// Pages that may still be taken.
    pub pages_free: usize,
    /// Borrowed pages that the lender has claimed since: they must be freed before the next call.
    pub pages_over: usize,
    /// Pages at least one sequence uses.
    pub pages_used: usize,
    /// Most pages used at once so far.
    pub peak_pages: usize,
    /// Bytes of a page, all layers together.
    pub page_bytes: usize,
    /// Bytes of a token, all layers together: `page_bytes / page_size`, rounded up.
    pub token_bytes: usize,
}

/// Sequences of one model, their keys and values, and the buffers to extend them.
///
/// Batch-invariant: the results of a row depend on its sequence's tokens alone, to the last bit.
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
    /// Pages of the engine's own budget.
    own_pages: usize,
    /// Pages reserved for its sequences beyond those they have.
    reserved: usize,
    lends: Option<Arc<IdleKv>>,
    borrows: Option<Loan>,
    sequences: Sequences,
    chunk: Chunk,
    /// Page tables of the current call's sequences, one after the other.
    tables: Vec<u32>,
    /// Shared tail pages that the current call must copy: index of the item.
    copies: Vec<usize>,
    call: u64,
    spare: Vec<f32>,
}

impl Engine {
    /// An engine with its own threads.
    ///
    /// # Errors
    /// [`Error::Setting`] for settings that cannot be.
    pub fn new(model: Arc<Model>, config: EngineConfig) -> Result<Self, Error> {
        let pool = ThreadPool::new(config.threads);
        Self::with_pool(model, config, pool)
    }

    /// An engine on the threads of `pool` (two models in one process should share them);
    /// `config.threads` is not looked at.
    ///
    /// # Errors
    /// [`Error::Setting`] for settings that cannot be; [`Error::Device`] if the model does not
    /// compute on its device.
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
        let total = pages.min(u32::MAX as usize);
        if total == 0 {
            let budget = config.kv_budget();
            let reason = format!("{budget} is less than one page of {page_bytes}");
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

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Positions of a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// The threads.
    #[must_use]
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// An empty sequence. It uses no memory yet.
    pub fn create(&mut self) -> SeqId {
        self.sequences.create()
    }

    /// A sequence with the same tokens. It shares all pages; the last one is copied when either
    /// of the two first writes to it.
    ///
    /// # Panics
    /// If `seq` does not exist.
    pub fn fork(&mut self, seq: SeqId) -> SeqId {
        self.expect(seq);
        let id = self.sequences.create();
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
        self.say_idle();
    }

    /// Forgets a sequence; pages that nobody else uses are free at once.
    ///
    /// # Panics
    /// If `seq` does not exist.
    pub fn free(&mut self, seq: SeqId) {
        self.truncate(seq, 0);
        self.sequences.remove(seq);
    }

    /// Tokens of a sequence.
    ///
    /// # Panics
    /// If `seq` does not exist.
    #[must_use]
    pub fn len(&self, seq: SeqId) -> usize {
        self.expect(seq).len
    }

    /// Whether there are no sequences at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sequences.len() == 0
    }

    /// Number of sequences.
    #[must_use]
    pub fn sequences(&self) -> usize {
        self.sequences.len()
    }

    /// The state of the key-value memory.
    #[must_use]
    pub fn kv(&self) -> KvStats {
        let (total, used) = (self.most_pages(), self.pages.used());
        KvStats {
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

    /// Pages that may be used now.
    fn most_pages(&self) -> usize {
        let loan = self.borrows.as_ref();
        let borrowed = loan.map_or(0, |loan| loan.pages(self.page_bytes()));
        self.own_pages
            .saturating_add(borrowed)
            .min(u32::MAX as usize)
    }

    /// Lets another engine have the cache memory that this one has no use for.
    pub fn lend(&mut self, idle: Arc<IdleKv>) {
        self.lends = Some(idle);
        self.say_idle();
    }

    /// Lets this engine use `share.0 / share.1` of what another has no use for, beside its own.
    pub fn borrow(&mut self, idle: Arc<IdleKv>, share: (usize, usize)) {
        self.borrows = Some(Loan { from: idle, share });
    }

    /// Reserves pages for its sequences beyond those they have: these are not lent.
    pub fn reserve(&mut self, pages: usize) {
        self.reserved = pages;
        self.say_idle();
    }

    fn say_idle(&self) {
        if let Some(idle) = &self.lends {
            let claimed = self.pages.used() + self.reserved;
            idle.set(self.own_pages.saturating_sub(claimed) * self.page_bytes());
        }
    }

    /// Bytes held besides weights, keys and values: activations, and the rotations of the
    /// positions reached so far.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.runner.buffer_bytes()
    }

    /// Pages that appending `extra_tokens` to `seq` takes now, the copy of a shared last page
    /// included.
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

    /// Appends tokens to sequences and returns the wanted rows, in the order of the items, then
    /// of their tokens. Prefill, decoding and scoring are this one call.
    ///
    /// # Errors
    /// A sequence that does not exist or appears twice, a token outside the vocabulary, a
    /// sequence that becomes too long, rows that cannot be wanted, logits of a model without a
    /// head, or too little memory ([`Error::OutOfMemory`]). Nothing is changed then.
    pub fn forward(&mut self, items: &[Append<'_>], output: Output) -> Result<Rows, Error> {
        let wanted = self.check(items, output)?;
        self.take_pages(items)?;
        let width = output.width(self.model.config());
        let mut data = std::mem::take(&mut self.spare);
        data.resize(wanted * width, 0.0);
        self.compute(items, output, wanted, To::Host(&mut data))?;
        self.lengthen(items);
        Ok(Rows { width, data })
    }

    /// As [`forward`](Self::forward), but rows stay where they were computed. Returns how many they
    /// are.
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

    /// Calls so far.
    #[cfg(feature = "cuda")]
    pub(crate) fn calls(&self) -> u64 {
        self.call
    }

    fn lengthen(&mut self, items: &[Append<'_>]) {
        for item in items {
            self.expect_mut(item.seq).len += item.tokens.len();
        }
    }

    /// Gives the memory of rows back, for the next call's.
    pub fn recycle(&mut self, rows: Rows) {
        if rows.data.capacity() > self.spare.capacity() {
            self.spare = rows.data;
        }
    }

    /// Everything that can be wrong with a call but the memory; counts the wanted rows.
    fn check(&mut self, items: &[Append<'_>], output: Output) -> Result<usize, Error> {
        // Once for each call: a system call, where a launch should have none.
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

    /// Gives every sequence the pages for its new tokens, or changes nothing.
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
                // Released at once: of sequences that share a page, the last to write keeps it. So
                // it never becomes free here.
                let _ = self.pages.release(tail);
                self.copies.push(i);
            }
        }
        let free = self.pages.free();
        if needed > free {
            for n in 0..self.copies.len() {
                let sequence = self.expect(items[self.copies[n]].seq);
                let tail = *sequence.pages.last().expect("had a tail page");
                self.pages.share(tail);
            }
            return Err(Error::OutOfMemory { needed, free });
        }
        self.commit(items)
    }

    fn commit(&mut self, items: &[Append<'_>]) -> Result<(), Error> {
        for n in 0..self.copies.len() {
            let i = self.copies[n];
            let copy = self.pages.take();
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
        self.say_idle();
        Ok(())
    }

    /// The page that the next token goes to, if it holds tokens already and others share it.
    fn shared_tail(&self, sequence: &Sequence) -> Option<u32> {
        let tail = sequence.pages.last().copied();
        tail.filter(|page| {
            !sequence.len.is_multiple_of(self.page_size) && self.pages.is_shared(*page)
        })
    }

    /// Runs all rows, `max_rows` at a time; the wanted ones go where `to` says.
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
            _ => unreachable!("an engine runs where its model is, the processor for the host"),
        }
    }

    /// Floating-point operations of a call, roughly.
    fn work(&self, items: &[Append<'_>]) -> u64 {
        let c = self.model.config();
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

/// Where wanted rows go.
enum To<'a> {
    Host(&'a mut [f32]),
    /// They stay on the device.
    #[cfg(feature = "cuda")]
    Device,
}
