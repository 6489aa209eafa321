//! Scoring: as many chains in a pass as memory holds, each read from where its cache ends.

use std::collections::BTreeSet;

use beamgen_search::{Memory, Problem, ScoreError, ScoreId, ScoreItem, Scored, Scorer};

use crate::engines::Read;
use crate::model::{Readout, RewardModel};

/// A chain that will be read in the next pass.
struct Planned {
    /// Index of the item.
    item: usize,
    id: ScoreId,
    /// New tokens of the chain.
    tokens: Vec<u32>,
    /// For each step, the index in `tokens` where it is read.
    marks: Vec<usize>,
    /// For each step, the end of its segment in `tokens`.
    ends: Vec<usize>,
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
        self.chains.fork(id, &mut self.engines)
    }

    fn release(&mut self, id: ScoreId) {
        self.chains.release(id, &mut self.engines);
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
        self.engines.memory()
    }
}

impl RewardModel {
    /// An item as tokens.
    fn plan(&self, index: usize, item: &ScoreItem<'_>) -> Result<Planned, ScoreError> {
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
            if step.text.trim().is_empty() {
                return Err(ScoreError::Failed("an empty step cannot be scored".into()));
            }
            let mark = self
                .segments
                .write(
                    &prompt.text,
                    step,
                    chain.steps() + i + 1,
                    &mut planned.tokens,
                )
                .map_err(ScoreError::Failed)?;
            planned.marks.push(mark);
            planned.ends.push(planned.tokens.len());
        }
        self.check_length(prompt.tokens.len() + chain.len() + planned.tokens.len())?;
        Ok(planned)
    }

    /// Pages that reading a chain takes at most, beside those of the batch.
    fn pages(&self, batch: &Batch, planned: &Planned) -> usize {
        let chain = self.chains.chain(planned.id);
        if let Some(seq) = chain.seq {
            return self.engines.pages_needed(seq, planned.tokens.len());
        }
        let prompt = self.chains.prompt(chain.prompt);
        let unread = if prompt.read {
            0
        } else {
            prompt.tokens.len() - self.held()
        };
        let whole = unread + chain.len() + planned.tokens.len();
        let reading = self.engines.pages_needed(prompt.seq, unread);
        let all = self.engines.pages_needed(prompt.seq, whole);
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
            // Its own cache may share its last page with others; from the start it may fit better.
            if let Some(seq) = self.chains.chain_mut(planned.id).seq.take() {
                self.engines.free(seq);
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
        let reads: Vec<Read> = batch
            .planned
            .iter()
            .map(|planned| {
                let (read, scored) = self.begin(planned, &mut unbilled);
                results[planned.item] = Ok(scored);
                read
            })
            .collect();
        let outputs = self
            .outputs(&batch.planned, &reads)
            .map_err(|error| ScoreError::Failed(error.to_string()))?;
        for (planned, outputs) in batch.planned.into_iter().zip(outputs) {
            let probabilities = outputs
                .iter()
                .map(|outputs| self.normaliser.probability(outputs))
                .collect::<Option<Vec<f32>>>();
            match (probabilities, &mut results[planned.item]) {
                (Some(probabilities), Ok(scored)) => scored.probabilities = probabilities,
                (_, result) => {
                    let reason = "the reward model's output is not a number";
                    *result = Err(ScoreError::Failed(reason.into()));
                }
            }
            let steps = planned.marks.len();
            self.chains
                .chain_mut(planned.id)
                .push(planned.tokens, steps);
            self.chains.touch(planned.id);
        }
        Ok(())
    }

    /// What is to be read of a chain, from the end of its cache on; makes the cache if there is
    /// none. The tokens of a prompt are billed to the first chain of `unbilled` ones.
    fn begin(&mut self, planned: &Planned, unbilled: &mut Vec<u64>) -> (Read, Scored) {
        let held = self.held();
        let chain = self.chains.chain(planned.id);
        let prompt = self.chains.prompt(chain.prompt);
        let in_prompt = prompt.tokens.len() - held;
        let mut scored = Scored::default();
        let (seq, cached) = match chain.seq {
            Some(seq) => {
                scored.reused_tokens = in_prompt + chain.len();
                (seq, chain.len())
            }
            None => {
                match unbilled.iter().position(|&p| p == chain.prompt) {
                    Some(at) => {
                        unbilled.swap_remove(at);
                        scored.read_tokens = in_prompt;
                    }
                    None => scored.reused_tokens = in_prompt,
                }
                (self.engines.fork(prompt.seq), 0)
            }
        };
        // Everything but what is cached, and the token that is held back for the next step.
        let mut tokens = prompt.tokens[in_prompt..].to_vec();
        tokens.extend(chain.tokens());
        tokens.extend_from_slice(&planned.tokens);
        tokens.drain(..cached);
        tokens.truncate(tokens.len() - held);
        scored.read_tokens += tokens.len();
        self.chains.chain_mut(planned.id).seq = Some(seq);
        (Read { seq, tokens }, scored)
    }

    /// The numbers of each step of each chain.
    fn outputs(
        &mut self,
        planned: &[Planned],
        reads: &[Read],
    ) -> Result<Vec<Vec<Vec<f64>>>, beamgen_engine::Error> {
        match &self.readout {
            Readout::Head(head) => {
                let marks: Vec<Vec<usize>> = planned
                    .iter()
                    .zip(reads)
                    .map(|(planned, read)| {
                        let again = read.tokens.len() - planned.tokens.len();
                        planned.marks.iter().map(|mark| again + mark).collect()
                    })
                    .collect();
                let rows = self.engines.hidden(reads, &marks)?;
                let mut row = rows.iter();
                let outputs = marks
                    .iter()
                    .map(|marks| {
                        let rows = row.by_ref().take(marks.len());
                        rows.map(|hidden| head.forward(hidden)).collect()
                    })
                    .collect();
                self.engines.body.recycle(rows);
                Ok(outputs)
            }
            Readout::LogRatio { beta } => {
                let targets: Vec<&[u32]> = planned.iter().map(|planned| &*planned.tokens).collect();
                let ratios = self.engines.log_ratios(reads, &targets)?;
                let rewards = |planned: &Planned, ratios: &[f64]| {
                    let starts = std::iter::once(0).chain(planned.ends.iter().copied());
                    starts
                        .zip(&planned.ends)
                        .map(|(from, &to)| vec![beta * ratios[from..to].iter().sum::<f64>()])
                        .collect()
                };
                let pairs = planned.iter().zip(&ratios);
                Ok(pairs
                    .map(|(planned, ratios)| rewards(planned, ratios))
                    .collect())
            }
        }
    }

    fn read_prompts(&mut self, prompts: &[u64]) -> Result<(), ScoreError> {
        let held = self.held();
        let reads: Vec<Read> = prompts
            .iter()
            .map(|&id| {
                let prompt = self.chains.prompt(id);
                let tokens = prompt.tokens[..prompt.tokens.len() - held].to_vec();
                let seq = prompt.seq;
                Read { seq, tokens }
            })
            .collect();
        if reads.is_empty() {
            return Ok(());
        }
        self.engines
            .read(&reads)
            .map_err(|error| ScoreError::Failed(error.to_string()))?;
        for &id in prompts {
            self.chains.prompt_mut(id).read = true;
        }
        Ok(())
    }
}
