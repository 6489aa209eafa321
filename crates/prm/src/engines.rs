//! The engine of a reward model and, for a log-ratio, the engine of the reference model.

use beamgen_engine::{Append, DeviceHead, Engine, Error, KvStats, Output, Rows, SeqId, Want};
use beamgen_search::Memory;

/// The most bytes of logits that are in memory at once.
const LOGIT_BYTES: usize = 64 << 20;

/// A sequence of tokens that all engines hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seq {
    body: SeqId,
    reference: Option<SeqId>,
}

/// Tokens to append to a sequence.
#[derive(Debug)]
pub(crate) struct Read {
    pub seq: Seq,
    pub tokens: Vec<u32>,
}

/// One or two engines that hold the same sequences of tokens. Both have pages of the same number of
/// tokens and get the same calls, so they need pages at the same moments.
#[derive(Debug)]
pub(crate) struct Engines {
    pub body: Engine,
    pub reference: Option<Engine>,
}

impl Engines {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Engine> {
        std::iter::once(&self.body).chain(&self.reference)
    }

    /// Returns the floating-point operations of reading `tokens` tokens after `before` others in
    /// all engines. Only log-ratios need logits, for the tokens of steps, which are `of_steps` many.
    pub(crate) fn flops(&self, before: usize, tokens: usize, of_steps: usize) -> u64 {
        let logits = self.reference.as_ref().map_or(0, |_| of_steps);
        let models = self.all().map(Engine::model);
        models
            .map(|model| model.flops(before, tokens, logits))
            .sum()
    }

    pub(crate) fn create(&mut self) -> Seq {
        Seq {
            body: self.body.create(),
            reference: self.reference.as_mut().map(Engine::create),
        }
    }

    /// Returns the reference model's engine and its sequence; `None` without a reference model.
    fn second(&mut self, seq: Seq) -> Option<(&mut Engine, SeqId)> {
        self.reference.as_mut().zip(seq.reference)
    }

    pub(crate) fn fork(&mut self, seq: Seq) -> Seq {
        let reference = self.second(seq).map(|(engine, seq)| engine.fork(seq));
        Seq {
            body: self.body.fork(seq.body),
            reference,
        }
    }

    /// Returns the number of tokens of a sequence.
    pub(crate) fn len(&self, seq: Seq) -> usize {
        self.body.len(seq.body)
    }

    pub(crate) fn truncate(&mut self, seq: Seq, len: usize) {
        self.body.truncate(seq.body, len);
        if let Some((engine, seq)) = self.second(seq) {
            engine.truncate(seq, len);
        }
    }

    pub(crate) fn free(&mut self, seq: Seq) {
        self.body.free(seq.body);
        if let Some((engine, seq)) = self.second(seq) {
            engine.free(seq);
        }
    }

    /// Returns the number of pages that each engine needs to append `extra_tokens` tokens.
    pub(crate) fn pages_needed(&self, seq: Seq, extra_tokens: usize) -> usize {
        // The reference model needs as many pages: its pages hold the same number of tokens.
        self.body.pages_needed(seq.body, extra_tokens)
    }

    /// Returns the number of pages that `tokens` tokens fill in each engine.
    pub(crate) fn pages(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.body.page_size())
    }

    pub(crate) fn pages_free(&self) -> usize {
        self.least(|kv| kv.pages_free)
    }

    /// Returns the number of pages that the engines own; borrowed pages, which have to be given
    /// back, do not count.
    pub(crate) fn pages_own(&self) -> usize {
        self.least(|kv| kv.pages_own)
    }

    /// Whether more pages are in use than allowed, because the generator asked for borrowed pages.
    pub(crate) fn is_over(&self) -> bool {
        self.all().any(|engine| engine.kv().pages_over > 0)
    }

    fn least(&self, pages: impl Fn(KvStats) -> usize) -> usize {
        // Both engines hold the same sequences, so the engine with fewer pages decides.
        let counts = self.all().map(|engine| pages(engine.kv()));
        counts.min().unwrap_or_default()
    }

    /// Returns the most tokens of a chain that every engine can hold.
    pub(crate) fn context(&self) -> usize {
        let contexts = self
            .all()
            .map(|engine| engine.model().config().max_position_embeddings);
        contexts.min().unwrap_or_default()
    }

    pub(crate) fn memory(&self) -> Memory {
        let body = memory(&self.body);
        let reference = self.reference.as_ref().map(memory);
        reference.map_or(body, |reference| body.beside(reference))
    }

    /// Reads tokens into the caches without computing outputs.
    pub(crate) fn read(&mut self, reads: &[Read]) -> Result<(), Error> {
        fill(&mut self.body, reads, |seq| Some(seq.body))?;
        match &mut self.reference {
            Some(engine) => fill(engine, reads, |seq| seq.reference),
            None => Ok(()),
        }
    }

    /// Hidden states of the reward model at `marks` of each read, in order.
    pub(crate) fn hidden(&mut self, reads: &[Read], marks: &[Vec<usize>]) -> Result<Rows, Error> {
        self.body.forward(&marked(reads, marks), Output::Hidden)
    }

    /// Returns the outputs of a head on the device, for the rows at `marks` of each read.
    pub(crate) fn read_out(
        &mut self,
        reads: &[Read],
        marks: &[Vec<usize>],
        head: &mut DeviceHead,
    ) -> Result<Vec<f64>, Error> {
        self.body.read_out(&marked(reads, marks), head)
    }

    /// Returns the log-ratios of `targets`, the last tokens of each read: the log-probability in
    /// the reward model less that in the reference model.
    pub(crate) fn log_ratios(
        &mut self,
        reads: &[Read],
        targets: &[&[u32]],
    ) -> Result<Vec<Vec<f64>>, Error> {
        let own: Vec<SeqId> = reads.iter().map(|read| read.seq.body).collect();
        let mut ratios = log_probs(&mut self.body, &own, reads, targets)?;
        if let Some(engine) = &mut self.reference {
            let second: Vec<SeqId> = reads.iter().filter_map(|read| read.seq.reference).collect();
            let others = log_probs(engine, &second, reads, targets)?;
            for (ratio, other) in ratios.iter_mut().flatten().zip(others.iter().flatten()) {
                *ratio -= other;
            }
        }
        Ok(ratios)
    }
}

fn marked<'a>(reads: &'a [Read], marks: &'a [Vec<usize>]) -> Vec<Append<'a>> {
    let pairs = reads.iter().zip(marks);
    pairs
        .map(|(read, marks)| Append {
            seq: read.seq.body,
            tokens: &read.tokens,
            want: Want::At(marks),
        })
        .collect()
}

fn fill(
    engine: &mut Engine,
    reads: &[Read],
    which: impl Fn(&Seq) -> Option<SeqId>,
) -> Result<(), Error> {
    let items: Vec<Append<'_>> = reads
        .iter()
        .filter_map(|read| {
            Some(Append {
                seq: which(&read.seq)?,
                tokens: &read.tokens,
                want: Want::None,
            })
        })
        .collect();
    // No row is wanted, so nothing is returned; `Hidden` avoids computing logits.
    engine.forward(&items, Output::Hidden)?;
    Ok(())
}

fn memory(engine: &Engine) -> Memory {
    let kv = engine.kv();
    Memory {
        used_bytes: (kv.pages_used * kv.page_bytes) as u64,
        bytes_per_token: kv.token_bytes as u64,
        capacity_tokens: kv.pages_total * kv.page_bytes / kv.token_bytes,
    }
}

/// Returns the most rows of logits that are in memory at once; at least one.
pub(crate) fn most_logits(vocab: usize) -> usize {
    (LOGIT_BYTES / (size_of::<f32>() * vocab)).max(1)
}

/// Returns the log-probabilities of `targets`. Rows are computed in slices, since a row of logits
/// has 0.6 MB with a vocabulary of 152000.
fn log_probs(
    engine: &mut Engine,
    seqs: &[SeqId],
    reads: &[Read],
    targets: &[&[u32]],
) -> Result<Vec<Vec<f64>>, Error> {
    let most = most_logits(engine.model().config().vocab_size);
    let mut all: Vec<Vec<f64>> = vec![Vec::new(); reads.len()];
    let mut logs = Vec::new();
    let (mut at, mut from) = (0, 0);
    while at < reads.len() {
        let mut room = most;
        // Index of the read, its tokens of this call, and the first of them that is wanted.
        let mut pieces = Vec::new();
        while at < reads.len() && room > 0 {
            let tokens = &reads[at].tokens;
            let to = tokens.len().min(from + room);
            // Only the last rows predict targets: earlier tokens were scored by an earlier call.
            let unwanted = tokens.len() - targets[at].len();
            let wanted: Vec<usize> = (unwanted.max(from)..to).map(|i| i - from).collect();
            // Tokens without a wanted row count, too. That makes slices smaller than necessary,
            // never larger.
            room -= to - from;
            pieces.push((at, &tokens[from..to], wanted));
            if to == tokens.len() {
                (at, from) = (at + 1, 0);
            } else {
                from = to;
            }
        }
        let items: Vec<Append<'_>> = pieces
            .iter()
            .map(|(at, tokens, wanted)| Append {
                seq: seqs[*at],
                tokens,
                want: Want::At(wanted),
            })
            .collect();
        let logits = engine.logits(&items)?;
        let next = pieces.iter().flat_map(|(at, _, wanted)| {
            let first = all[*at].len();
            &targets[*at][first..first + wanted.len()]
        });
        let next: Vec<u32> = next.copied().collect();
        engine.log_probs(&logits, &next, &mut logs)?;
        engine.recycle_logits(logits);
        let mut logs = logs.iter().copied().map(f64::from);
        for (at, _, wanted) in &pieces {
            all[*at].extend(logs.by_ref().take(wanted.len()));
        }
    }
    Ok(all)
}
