//! Scoring: as many chains in a pass as memory holds.

use std::collections::BTreeSet;

use beamgen_engine::Engine;
use beamgen_search::{
    Executed, Memory, Problem, ScoreError, ScoreId, ScoreItem, ScoreResult, Scored, Scorer,
};

use crate::model::RewardModel;

/// A chain that will be read in the next pass.
pub(crate) struct Planned {
    /// The index of the item in the call.
    pub item: usize,
    pub id: ScoreId,
    /// New tokens of the chain.
    pub tokens: Vec<u32>,
    /// For each step, the index in `tokens` where it is read.
    pub marks: Vec<usize>,
    /// For each step, the end of its segment in `tokens`.
    pub ends: Vec<usize>,
}

/// The chains that the next pass reads, and the prompts that it reads before them.
#[derive(Default)]
pub(crate) struct Batch {
    pub planned: Vec<Planned>,
    /// The planned chains and the chain that is being planned. Their caches must not be forgotten.
    ids: BTreeSet<ScoreId>,
    /// Prompts to be read first.
    pub prompts: Vec<u64>,
    pages: usize,
}

impl Scorer for RewardModel {
    fn open(&mut self, problem: &Problem, _: u64) -> Result<ScoreId, ScoreError> {
        let context = self.engines.context();
        let (text, tokens) = self.writer.prompt(&problem.with_context(), context)?;
        self.check_length(tokens.len())?;
        // A log-ratio needs the prompt's last token, which predicts the first token of the first
        // step.
        if tokens.len() < self.held() {
            return Err(ScoreError::Prompt("it has no tokens".into()));
        }
        Ok(self.chains.open(text, tokens, &mut self.engines))
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        self.chains.fork(id, &mut self.engines)
    }

    fn release(&mut self, id: ScoreId) {
        self.chains.release(id, &mut self.engines);
    }

    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult {
        let mut results = vec![Ok(Scored::default()); items.len()];
        let mut batch = Batch::default();
        for (index, item) in items.iter().enumerate() {
            let planned = match self.plan(index, item) {
                Ok(planned) => planned,
                Err(error) => {
                    results[index] = Err(error);
                    continue;
                }
            };
            // A chain that can never fit is refused before room is made: the caches of other chains
            // stay.
            let room =
                self.fits_alone(&planned) && self.make_room(&mut batch, &planned, &mut results)?;
            if room {
                self.add(&mut batch, planned);
            } else {
                let chain = self.chains.chain(item.id);
                let prompt = self.chains.prompt(chain.prompt).tokens.len();
                let tokens = prompt + chain.tokens.len() + planned.tokens.len();
                results[index] = Err(ScoreError::NoMemory { tokens });
            }
        }
        self.read(batch, &mut results)?;
        Ok(results)
    }

    fn executed(&self) -> Executed {
        let engines = self.engines.all().map(Engine::computed);
        let executed = engines.map(|computed| Executed {
            flops: computed.flops,
            prefix_tokens: computed.reused_tokens,
        });
        executed.sum()
    }

    fn evict_borrowed(&mut self) {
        // Between two calls no pass needs a cache, so any cache may be forgotten.
        while self.engines.is_over()
            && self
                .chains
                .forget_oldest(&BTreeSet::new(), &mut self.engines)
        {}
    }

    fn memory(&self) -> Memory {
        self.engines.memory()
    }
}

impl RewardModel {
    /// Writes the new steps of an item as tokens.
    fn plan(&self, index: usize, item: &ScoreItem<'_>) -> Result<Planned, ScoreError> {
        let context = self.engines.context();
        self.writer.check_steps(&item.steps, context)?;
        let chain = self.chains.chain(item.id);
        let prompt = self.chains.prompt(chain.prompt);
        let mut planned = Planned {
            item: index,
            id: item.id,
            tokens: Vec::new(),
            marks: Vec::with_capacity(item.steps.len()),
            ends: Vec::with_capacity(item.steps.len()),
        };
        for (i, step) in item.steps.iter().enumerate() {
            let number = chain.steps + i + 1;
            let (text, tokens) = (&prompt.text, &mut planned.tokens);
            let mark = self.writer.append(text, step, number, tokens)?;
            planned.marks.push(mark);
            planned.ends.push(planned.tokens.len());
        }
        let chain = prompt.tokens.len() + chain.tokens.len();
        self.check_length(chain + self.most_read(&planned))?;
        Ok(planned)
    }

    /// Returns the most tokens of a planned chain that are in its cache at once, besides those of
    /// earlier calls.
    fn most_read(&self, planned: &Planned) -> usize {
        // The text after the last step may be read with the question or after it was removed.
        planned.tokens.len() + self.writer.question().len()
    }

    /// Whether the pages that the model owns are enough for the chain, without borrowed pages. So
    /// the refusal of a chain does not depend on the rest of the batch.
    fn fits_alone(&self, planned: &Planned) -> bool {
        let chain = self.chains.chain(planned.id);
        let prompt = self.chains.prompt(chain.prompt).tokens.len() - self.held();
        let tokens = prompt + chain.tokens.len() + self.most_read(planned);
        // Strictly less: the prompt's cache has a last page of its own, which no chain shares.
        self.engines.pages(tokens) < self.engines.pages_own()
    }

    /// Returns the most pages that the read of a chain takes, in addition to those of the batch.
    fn pages(&self, batch: &Batch, planned: &Planned) -> usize {
        let chain = self.chains.chain(planned.id);
        if let Some(seq) = chain.seq {
            return self.engines.pages_needed(seq, self.most_read(planned));
        }
        let prompt = self.chains.prompt(chain.prompt);
        let unread = if prompt.read {
            0
        } else {
            prompt.tokens.len() - self.held()
        };
        let whole = unread + chain.tokens.len() + self.most_read(planned);
        let reading = self.engines.pages_needed(prompt.seq, unread);
        let all = self.engines.pages_needed(prompt.seq, whole);
        let promised = batch.prompts.contains(&chain.prompt);
        // A fork copies the last page if it is not full.
        all - reading + 1 + if promised { 0 } else { reading }
    }

    /// Makes room for the chain: forgets old caches, then reads the batch so far. Returns `false`
    /// if the chain does not fit even without the others.
    fn make_room(
        &mut self,
        batch: &mut Batch,
        planned: &Planned,
        results: &mut [Result<Scored, ScoreError>],
    ) -> Result<bool, ScoreError> {
        // The chain's own cache must not be forgotten while room is made.
        batch.ids.insert(planned.id);
        loop {
            let pages = self.pages(batch, planned);
            if batch.pages + pages <= self.engines.pages_free() {
                batch.ids.remove(&planned.id);
                return Ok(true);
            }
            if self.chains.forget_oldest(&batch.ids, &mut self.engines) {
                continue;
            }
            if !batch.planned.is_empty() {
                self.read(std::mem::take(batch), results)?;
                batch.ids.insert(planned.id);
                continue;
            }
            // Last, the chain's own cache is freed: if it shares its last page, appending would
            // have to copy that page.
            if let Some(seq) = self.chains.chain_mut(planned.id).seq.take() {
                self.engines.free(seq);
                continue;
            }
            batch.ids.remove(&planned.id);
            return Ok(false);
        }
    }

    fn add(&mut self, batch: &mut Batch, planned: Planned) {
        // Counted again, since caches may have been forgotten or the batch been read.
        batch.pages += self.pages(batch, &planned);
        let chain = self.chains.chain(planned.id);
        if chain.seq.is_none()
            && !self.chains.prompt(chain.prompt).read
            && !batch.prompts.contains(&chain.prompt)
        {
            batch.prompts.push(chain.prompt);
        }
        batch.ids.insert(planned.id);
        batch.planned.push(planned);
    }
}
