//! Scoring: as many chains in a pass as memory holds, each read from where its cache ends.

use std::collections::BTreeSet;

use beamgen_engine::{Append, Output, SeqId, Want};
use beamgen_search::{Memory, Problem, ScoreError, ScoreId, ScoreItem, Scored, Scorer};

use crate::model::RewardModel;

/// A chain that will be read in the next pass.
struct Planned {
    /// Index of the item.
    item: usize,
    id: ScoreId,
    /// New tokens of the chain.
    tokens: Vec<u32>,
    /// Where they are read out: the step tokens, as indices into `tokens`.
    marks: Vec<usize>,
}

/// The next pass.
#[derive(Default)]
struct Batch {
    planned: Vec<Planned>,
    /// Of the chains planned and the one being planned: their caches are not forgotten.
    ids: BTreeSet<ScoreId>,
    /// Prompts to be read first.
    prompts: Vec<u64>,
    pages: usize,
}

impl Scorer for RewardModel {
    fn open(&mut self, problem: &Problem, _: u64) -> Result<ScoreId, ScoreError> {
        self.open_text(&problem.text)
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        self.chains.fork(id, &mut self.engine)
    }

    fn release(&mut self, id: ScoreId) {
        self.chains.release(id, &mut self.engine);
    }

    fn score(
        &mut self,
        items: &[ScoreItem<'_>],
    ) -> Result<Vec<Result<Scored, ScoreError>>, ScoreError> {
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
            let room = self.make_room(&mut batch, &planned, &mut results)?;
            if room {
                self.add(&mut batch, planned);
            } else {
                let chain = self.chains.chain(item.id);
                let prompt = self.chains.prompt(chain.prompt).tokens.len();
                let tokens = prompt + chain.len() + planned.tokens.len();
                results[index] = Err(ScoreError::NoMemory { tokens });
            }
        }
        self.read(std::mem::take(&mut batch), &mut results)?;
        Ok(results)
    }

    fn memory(&self) -> Memory {
        let kv = self.engine.kv();
        let config = self.engine.model().config();
        let values = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim;
        let token_bytes = values * size_of::<f32>();
        Memory {
            used_bytes: (kv.pages_used * kv.page_bytes) as u64,
            bytes_per_token: token_bytes as u64,
            capacity_tokens: kv.pages_total * kv.page_bytes / token_bytes,
        }
    }
}

impl RewardModel {
    /// An item as tokens.
    fn plan(&self, index: usize, item: &ScoreItem<'_>) -> Result<Planned, ScoreError> {
        let mut tokens = Vec::new();
        let mut marks = Vec::with_capacity(item.steps.len());
        for step in &item.steps {
            if step.text.trim().is_empty() {
                return Err(ScoreError::Failed("an empty step cannot be scored".into()));
            }
            self.steps.write(step, &self.tokenizer, &mut tokens)?;
            marks.push(tokens.len() - 1);
        }
        let chain = self.chains.chain(item.id);
        let prompt = self.chains.prompt(chain.prompt).tokens.len();
        self.check_length(prompt + chain.len() + tokens.len())?;
        Ok(Planned {
            item: index,
            id: item.id,
            tokens,
            marks,
        })
    }

    /// Pages that reading a chain takes at most, beside those of the batch.
    fn pages(&self, batch: &Batch, planned: &Planned) -> usize {
        let chain = self.chains.chain(planned.id);
        if let Some(seq) = chain.seq {
            return self.engine.pages_needed(seq, planned.tokens.len());
        }
        let prompt = self.chains.prompt(chain.prompt);
        let unread = if prompt.read { 0 } else { prompt.tokens.len() };
        let whole = unread + chain.len() + planned.tokens.len();
        let reading = self.engine.pages_needed(prompt.seq, unread);
        let all = self.engine.pages_needed(prompt.seq, whole);
        let promised = batch.prompts.contains(&chain.prompt);
        // A fork copies the last page if it is not full.
        all - reading + 1 + if promised { 0 } else { reading }
    }

    /// Makes the chain fit: forgets old caches, then reads what is gathered so far. Returns
    /// `false` if it does not fit even alone.
    fn make_room(
        &mut self,
        batch: &mut Batch,
        planned: &Planned,
        results: &mut [Result<Scored, ScoreError>],
    ) -> Result<bool, ScoreError> {
        batch.ids.insert(planned.id);
        loop {
            let pages = self.pages(batch, planned);
            if batch.pages + pages <= self.engine.kv().pages_free {
                batch.ids.remove(&planned.id);
                return Ok(true);
            }
            if self.chains.forget_oldest(&batch.ids, &mut self.engine) {
                continue;
            }
            if !batch.planned.is_empty() {
                self.read(std::mem::take(batch), results)?;
                batch.ids.insert(planned.id);
                continue;
            }
            // Its own cache may share its last page with others; from the start it may fit better.
            if let Some(seq) = self.chains.chain_mut(planned.id).seq.take() {
                self.engine.free(seq);
                continue;
            }
            batch.ids.remove(&planned.id);
            return Ok(false);
        }
    }

    fn add(&mut self, batch: &mut Batch, planned: Planned) {
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

    /// Reads the batch: prompts first, for the chains fork them.
    fn read(
        &mut self,
        batch: Batch,
        results: &mut [Result<Scored, ScoreError>],
    ) -> Result<(), ScoreError> {
        self.read_prompts(&batch.prompts)?;
        let mut unbilled = batch.prompts;
        let mut reads: Vec<(SeqId, Vec<u32>, Vec<usize>)> = Vec::new();
        for planned in &batch.planned {
            let id = planned.id;
            let (prompt, earlier) = {
                let chain = self.chains.chain(id);
                (chain.prompt, chain.len())
            };
            let prompt_tokens = self.chains.prompt(prompt).tokens.len();
            let mut scored = Scored::default();
            let (seq, mut tokens) = match self.chains.chain(id).seq {
                Some(seq) => {
                    scored.reused_tokens = prompt_tokens + earlier;
                    (seq, Vec::new())
                }
                None => {
                    if let Some(at) = unbilled.iter().position(|&p| p == prompt) {
                        unbilled.swap_remove(at);
                        scored.read_tokens = prompt_tokens;
                    } else {
                        scored.reused_tokens = prompt_tokens;
                    }
                    let seq = self.engine.fork(self.chains.prompt(prompt).seq);
                    self.chains.chain_mut(id).seq = Some(seq);
                    (seq, self.chains.chain(id).tokens())
                }
            };
            let again = tokens.len();
            tokens.extend_from_slice(&planned.tokens);
            scored.read_tokens += tokens.len();
            results[planned.item] = Ok(scored);
            let marks = planned.marks.iter().map(|mark| again + mark).collect();
            reads.push((seq, tokens, marks));
        }
        let items: Vec<Append<'_>> = reads
            .iter()
            .map(|(seq, tokens, marks)| Append {
                seq: *seq,
                tokens,
                want: Want::At(marks),
            })
            .collect();
        let rows = self
            .engine
            .forward(&items, Output::Hidden)
            .map_err(|error| ScoreError::Failed(error.to_string()))?;

        let mut hidden = rows.iter();
        for planned in batch.planned {
            let probabilities = hidden
                .by_ref()
                .take(planned.marks.len())
                .map(|row| self.head.probability(row))
                .collect();
            if let Ok(scored) = &mut results[planned.item] {
                scored.probabilities = probabilities;
            }
            self.chains.chain_mut(planned.id).push(planned.tokens);
            self.chains.touch(planned.id);
        }
        self.engine.recycle(rows);
        Ok(())
    }

    fn read_prompts(&mut self, prompts: &[u64]) -> Result<(), ScoreError> {
        let items: Vec<Append<'_>> = prompts
            .iter()
            .map(|&id| {
                let prompt = self.chains.prompt(id);
                Append {
                    seq: prompt.seq,
                    tokens: &prompt.tokens,
                    want: Want::None,
                }
            })
            .collect();
        if items.is_empty() {
            return Ok(());
        }
        self.engine
            .forward(&items, Output::Hidden)
            .map_err(|error| ScoreError::Failed(error.to_string()))?;
        for &id in prompts {
            self.chains.prompt_mut(id).read = true;
        }
        Ok(())
    }
}
