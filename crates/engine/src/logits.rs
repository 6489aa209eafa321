//! Keeps logits where they were computed, and samples tokens from them there.

#[cfg(feature = "cuda")]
use crate::runner::Runner;
use crate::{Append, Engine, Error, Output, Rows, SampleRow, Sampled, Sampler, log_prob};

/// The logits of one call. On a CUDA device they are valid until the engine's next call.
#[derive(Debug, Default)]
pub struct Logits {
    host: Rows,
    rows: usize,
    /// The number of the call that computed the logits on the device; 0 if they are on the host.
    #[cfg(feature = "cuda")]
    call: u64,
}

impl Logits {
    /// The number of rows, which is the number of wanted rows of the call.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows, because the call wanted none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

impl Engine {
    /// Computes logits like [`forward`](Self::forward), but leaves them where they are computed.
    /// [`sample`](Self::sample), [`log_probs`](Self::log_probs) and
    /// [`copy_logits`](Self::copy_logits) copy only their own results to the host.
    ///
    /// # Errors
    /// The errors of [`forward`](Self::forward).
    pub fn logits(&mut self, items: &[Append<'_>]) -> Result<Logits, Error> {
        #[cfg(feature = "cuda")]
        if let Runner::Cuda(_) = self.runner {
            let rows = self.forward_on_device(items, Output::Logits)?;
            let call = self.calls();
            return Ok(Logits {
                host: Rows::default(),
                rows,
                call,
            });
        }
        let host = self.forward(items, Output::Logits)?;
        Ok(Logits {
            rows: host.len(),
            host,
            #[cfg(feature = "cuda")]
            call: 0,
        })
    }

    /// Samples `count` tokens like [`Sampler::sample_batch`], among the first `tokens` of the
    /// vocabulary. The row and settings of sample `i` are `choice(i)`.
    ///
    /// # Errors
    /// [`Error::Device`]; [`Error::NotNumbers`] if a row has no logit above minus infinity.
    ///
    /// # Panics
    /// If a row does not exist, or the logits are of an earlier call.
    pub fn sample<'a>(
        &mut self,
        logits: &Logits,
        tokens: usize,
        sampler: &mut Sampler,
        count: usize,
        choice: impl Fn(usize) -> SampleRow<'a> + Sync,
        out: &mut Vec<Sampled>,
    ) -> Result<(), Error> {
        #[cfg(feature = "cuda")]
        if logits.call > 0 {
            return self.sample_on_device(logits, tokens, sampler, count, &choice, out);
        }
        let rows = &logits.host;
        sampler.sample_batch(
            self.pool(),
            count,
            |i| {
                let choice = choice(i);
                // A model may have more logits than its tokenizer has tokens.
                let logits = &rows.row(choice.row)[..tokens];
                choice.of(logits)
            },
            out,
        );
        Sampled::check(out)
    }

    #[cfg(feature = "cuda")]
    fn sample_on_device<'a>(
        &mut self,
        logits: &Logits,
        tokens: usize,
        sampler: &mut Sampler,
        count: usize,
        choice: &dyn Fn(usize) -> SampleRow<'a>,
        out: &mut Vec<Sampled>,
    ) -> Result<(), Error> {
        let rows = self.rows_of(logits);
        debug_assert!((0..count).all(|i| choice(i).row < rows));
        let width = self.model().config().vocab_size;
        if (0..count).all(|i| choice(i).edits.is_empty()) {
            self.device().sample(width, tokens, count, choice, out)?;
            return Sampled::check(out);
        }
        // The kernel cannot edit logits, so rows with edits are copied to the host and sampled
        // there. The other rows are sampled on the device in any case: a token never depends on its
        // batch.
        let (changed, others): (Vec<usize>, Vec<usize>) =
            (0..count).partition(|&i| !choice(i).edits.is_empty());
        let mut drawn = Vec::new();
        let other = |i: usize| choice(others[i]);
        self.device()
            .sample(width, tokens, others.len(), &other, &mut drawn)?;
        let nothing = Sampled {
            token: 0,
            logprob: 0.0,
        };
        out.clear();
        out.resize(count, nothing);
        for (&i, drawn) in others.iter().zip(drawn) {
            out[i] = drawn;
        }
        let (mut row, mut of) = (Vec::new(), None);
        for i in changed {
            let choice = choice(i);
            if of != Some(choice.row) {
                of = Some(choice.row);
                self.copy_logits(logits, choice.row, &mut row)?;
            }
            out[i] = sampler.sample_one(choice.of(&row[..tokens]));
        }
        Sampled::check(out)
    }

    /// Computes the natural logarithm of the probability of `tokens[i]` in row `i`, for every row.
    ///
    /// # Errors
    /// [`Error::Device`]
    ///
    /// # Panics
    /// If `tokens` does not have one token per row, a token is outside the vocabulary, or the
    /// logits are of an earlier call.
    pub fn log_probs(
        &mut self,
        logits: &Logits,
        tokens: &[u32],
        out: &mut Vec<f32>,
    ) -> Result<(), Error> {
        assert_eq!(tokens.len(), logits.rows, "a token for each row");
        out.clear();
        #[cfg(feature = "cuda")]
        if logits.call > 0 {
            self.rows_of(logits);
            let width = self.model().config().vocab_size;
            // The kernel does not check its indices.
            assert!(tokens.iter().all(|token| (*token as usize) < width));
            return self.device().log_probs(width, tokens, out);
        }
        let rows = logits.host.iter().zip(tokens);
        out.extend(rows.map(|(row, token)| log_prob(row, *token)));
        Ok(())
    }

    /// Copies row `row` to `out`, and drops the former contents of `out`.
    ///
    /// # Errors
    /// [`Error::Device`]
    ///
    /// # Panics
    /// If `row` is not less than [`Logits::len`], or the logits are of an earlier call.
    pub fn copy_logits(
        &mut self,
        logits: &Logits,
        row: usize,
        out: &mut Vec<f32>,
    ) -> Result<(), Error> {
        out.clear();
        #[cfg(feature = "cuda")]
        if logits.call > 0 {
            assert!(row < self.rows_of(logits), "row {row} of {}", logits.rows);
            let width = self.model().config().vocab_size;
            out.resize(width, 0.0);
            return self.device().read_rows(row, width, out);
        }
        out.extend_from_slice(logits.host.row(row));
        Ok(())
    }

    /// Waits until the device has finished all queued work. Returns at once on the processor.
    ///
    /// # Errors
    /// [`Error::Device`]
    pub fn wait(&self) -> Result<(), Error> {
        match self.model().compute() {
            crate::Compute::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            crate::Compute::Cuda(device) => Ok(device.synchronize()?),
        }
    }

    /// Gives the memory of `logits` back to the engine, so that the next call allocates nothing.
    pub fn recycle_logits(&mut self, logits: Logits) {
        self.recycle(logits.host);
    }

    #[cfg(feature = "cuda")]
    fn rows_of(&self, logits: &Logits) -> usize {
        // The next call overwrites the device's only buffer of rows.
        assert_eq!(logits.call, self.calls(), "logits of an earlier call");
        logits.rows
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn device(&mut self) -> &mut crate::runner::CudaRunner {
        match &mut self.runner {
            Runner::Cuda(runner) => runner,
            Runner::Cpu(_) => unreachable!("its logits are on the host"),
        }
    }
}
