//! Reads the new tokens of a batch of chains and computes the scores of their steps.

use beamgen_search::{Cause, ScoreError, Scored};

use crate::engines::{Engines, Read};
use crate::model::{Readout, RewardModel};
use crate::quantiles::StepReading;
use crate::score::{Batch, Planned};

/// The head's outputs and the quantiles: for each chain, one entry for each step.
type Outputs = (Vec<Vec<Vec<f64>>>, Vec<Vec<[f32; 3]>>);

impl RewardModel {
    /// Reads the batch. Prompts are read first, since chains fork the caches of their prompts.
    pub(crate) fn read(
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
        // All chains are read in one call, so that the weights are loaded only once.
        let outputs = self
            .outputs(&batch.planned, &reads)
            .map_err(|error| ScoreError::Lost(Cause::new(error)))?;
        let (outputs, mut quantiles) = outputs;
        // Without a quantile reader there are no quantiles: each chain then gets an empty list.
        quantiles.resize(outputs.len(), Vec::new());
        let outputs = outputs.into_iter().zip(quantiles);
        for (planned, (outputs, quantiles)) in batch.planned.into_iter().zip(outputs) {
            let probabilities = outputs
                .iter()
                .map(|outputs| self.normaliser.probability(outputs))
                .map(|score| score.map(Some))
                // A single NaN fails the whole chain: a chain with a missing score cannot be
                // ranked.
                .collect::<Option<Vec<Option<f32>>>>();
            let mut lowest = self.chains.chain(planned.id).lowest;
            match (probabilities, &mut results[planned.item]) {
                (Some(probabilities), Ok(scored)) => {
                    let scores = probabilities.iter().flatten();
                    lowest = scores.copied().fold(lowest, f32::min);
                    scored.probabilities = probabilities;
                    scored.quantiles = quantiles;
                }
                (_, result) => {
                    let reason = "the reward model's output is not a number";
                    *result = Err(ScoreError::Lost(reason.into()));
                }
            }
            let steps = planned.marks.len();
            // Tokens are appended also after an error, since they are in the cache now.
            let chain = self.chains.chain_mut(planned.id);
            chain.tokens.push(planned.tokens);
            chain.steps += steps;
            chain.lowest = lowest;
            self.chains.touch(planned.id);
        }
        Ok(())
    }

    /// Prepares the read of a chain from the end of its cache, and makes the cache if the chain has
    /// none. The tokens of a prompt are charged to one chain: `unbilled` lists the prompts whose
    /// tokens are not charged yet.
    fn begin(&mut self, planned: &Planned, unbilled: &mut Vec<u64>) -> (Read, Scored) {
        let held = self.held();
        let chain = self.chains.chain(planned.id);
        let prompt = self.chains.prompt(chain.prompt);
        let in_prompt = prompt.tokens.len() - held;
        let mut scored = Scored::default();
        let (seq, cached) = if let Some(seq) = chain.seq {
            scored.reused_tokens = in_prompt + chain.tokens.len();
            (seq, chain.tokens.len())
        } else {
            match unbilled.iter().position(|&p| p == chain.prompt) {
                Some(at) => {
                    unbilled.swap_remove(at);
                    scored.read_tokens = in_prompt;
                }
                None => scored.reused_tokens = in_prompt,
            }
            (self.engines.fork(prompt.seq), 0)
        };
        // The tokens that are not in the cache, except the one that is held back for the next
        // step's read.
        let mut tokens = prompt.tokens[in_prompt..].to_vec();
        tokens.extend(chain.tokens.tokens(0));
        tokens.extend_from_slice(&planned.tokens);
        tokens.drain(..cached);
        tokens.truncate(tokens.len() - held);
        let before = in_prompt + cached;
        // A prompt that is charged here was read before, from its beginning.
        let read = scored.read_tokens;
        scored.read_tokens += tokens.len();
        let flops = self.engines.flops(0, read, 0);
        // Tokens before the new steps were in a cache that was forgotten.
        let again = tokens.len() - planned.tokens.len();
        scored.again_flops = self.engines.flops(before, again, 0);
        if prompt.forgotten {
            scored.again_flops += flops;
        }
        let of_steps = planned.tokens.len();
        scored.flops = flops + self.engines.flops(before, tokens.len(), of_steps);
        let question = self.writer.question().len();
        if question > 0 {
            scored.read_tokens += question * planned.marks.len();
            let marks = planned.marks.iter();
            let asked =
                marks.map(|mark| self.engines.flops(before + again + mark + 1, question, 0));
            scored.flops += asked.sum::<u64>();
        }
        self.chains.chain_mut(planned.id).seq = Some(seq);
        (Read { seq, tokens }, scored)
    }

    /// Computes the outputs of the head for each step of each chain, and the quantiles if a
    /// quantile reader is set.
    fn outputs(
        &mut self,
        planned: &[Planned],
        reads: &[Read],
    ) -> Result<Outputs, beamgen_engine::Error> {
        match &mut self.readout {
            Readout::Head(head, on_device) => {
                let marks: Vec<Vec<usize>> = planned
                    .iter()
                    .zip(reads)
                    .map(|(planned, read)| {
                        // A read also contains older tokens if their cache was forgotten. The marks
                        // count from the new steps, so the number of older tokens is added.
                        let again = read.tokens.len() - planned.tokens.len();
                        planned.marks.iter().map(|mark| again + mark).collect()
                    })
                    .collect();
                let question = self.writer.question();
                // A quantile reader needs the hidden states in host memory, so it excludes the head
                // on the device.
                if let (Some(on_device), None) = (on_device, &self.quantiles.0) {
                    let engines = &mut self.engines;
                    let mut read = |reads: &[Read], marks: &[Vec<usize>], engines: &mut Engines| {
                        let numbers = engines.read_out(reads, marks, on_device)?;
                        let rows = numbers.chunks_exact(head.outputs());
                        Ok::<Vec<Vec<f64>>, beamgen_engine::Error>(
                            rows.map(<[f64]>::to_vec).collect(),
                        )
                    };
                    let outputs = if question.is_empty() {
                        split(read(reads, &marks, engines)?, &marks)
                    } else {
                        asked(reads, &marks, question, engines, read)?
                    };
                    return Ok((outputs, Vec::new()));
                }
                if !question.is_empty() {
                    let read = |reads: &[Read], marks: &[Vec<usize>], engines: &mut Engines| {
                        let rows = engines.hidden(reads, marks)?;
                        let numbers = rows.iter().map(|hidden| head.forward(hidden));
                        let numbers: Vec<Vec<f64>> = numbers.collect();
                        engines.body.recycle(rows);
                        Ok(numbers)
                    };
                    let outputs = asked(reads, &marks, question, &mut self.engines, read)?;
                    return Ok((outputs, Vec::new()));
                }
                let rows = self.engines.hidden(reads, &marks)?;
                let mut row = rows.iter();
                let mut outputs = (Vec::new(), Vec::new());
                for (planned, marks) in planned.iter().zip(&marks) {
                    let (mut of_chain, mut quantiles) = (Vec::new(), Vec::new());
                    let mut lowest = self.chains.chain(planned.id).lowest;
                    for hidden in row.by_ref().take(marks.len()) {
                        let numbers = head.forward(hidden);
                        let score = self.normaliser.probability(&numbers);
                        if let (Some(reader), Some(score)) = (&mut self.quantiles.0, score) {
                            lowest = lowest.min(score);
                            let step = StepReading {
                                hidden,
                                score,
                                lowest,
                            };
                            quantiles.push(reader(step));
                        }
                        of_chain.push(numbers);
                    }
                    outputs.0.push(of_chain);
                    outputs.1.push(quantiles);
                }
                // The rows are as large as the batch, so the next pass uses their memory again.
                self.engines.body.recycle(rows);
                Ok(outputs)
            }
            Readout::LogRatio { beta } => {
                let beta = *beta;
                let targets: Vec<&[u32]> = planned.iter().map(|planned| &*planned.tokens).collect();
                let ratios = self.engines.log_ratios(reads, &targets)?;
                let pairs = planned.iter().zip(&ratios);
                // The reward of a step is beta times the sum of its own tokens' log-ratios.
                let rewards = pairs.map(|(planned, ratios)| {
                    let starts = std::iter::once(0).chain(planned.ends.iter().copied());
                    starts
                        .zip(&planned.ends)
                        .map(|(from, &to)| vec![beta * ratios[from..to].iter().sum::<f64>()])
                        .collect()
                });
                Ok((rewards.collect(), Vec::new()))
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
            .map_err(|error| ScoreError::Lost(Cause::new(error)))?;
        for &id in prompts {
            self.chains.prompt_mut(id).read = true;
        }
        Ok(())
    }
}

/// Returns the outputs of each chain for its marks.
fn split(rows: Vec<Vec<f64>>, marks: &[Vec<usize>]) -> Vec<Vec<Vec<f64>>> {
    let mut rows = rows.into_iter();
    let of_chains = marks.iter();
    of_chains
        .map(|marks| rows.by_ref().take(marks.len()).collect())
        .collect()
}

/// Reads chains step by step, with `question` after each step: the outputs are those of the
/// question's last token, and the question is removed again. `marks` are the last tokens of the
/// steps. Steps of different chains are read in one pass.
fn asked(
    reads: &[Read],
    marks: &[Vec<usize>],
    question: &[u32],
    engines: &mut Engines,
    mut read: impl FnMut(
        &[Read],
        &[Vec<usize>],
        &mut Engines,
    ) -> Result<Vec<Vec<f64>>, beamgen_engine::Error>,
) -> Result<Vec<Vec<Vec<f64>>>, beamgen_engine::Error> {
    let mut outputs = vec![Vec::new(); reads.len()];
    let mut from = vec![0; reads.len()];
    for round in 0..marks.iter().map(Vec::len).max().unwrap_or_default() {
        let (mut chains, mut steps, mut at) = (Vec::new(), Vec::new(), Vec::new());
        for (chain, marks) in marks.iter().enumerate() {
            let Some(mark) = marks.get(round) else {
                continue;
            };
            let mut tokens = reads[chain].tokens[from[chain]..=*mark].to_vec();
            from[chain] = mark + 1;
            let end = engines.len(reads[chain].seq) + tokens.len();
            tokens.extend_from_slice(question);
            at.push(vec![tokens.len() - 1]);
            let seq = reads[chain].seq;
            steps.push(Read { seq, tokens });
            chains.push((chain, end));
        }
        let rows = read(&steps, &at, engines)?;
        for ((chain, end), row) in chains.into_iter().zip(rows) {
            engines.truncate(reads[chain].seq, end);
            outputs[chain].push(row);
        }
    }
    // What follows the last step, so that the cache has all tokens of the chain.
    let rest = reads.iter().zip(from).map(|(read, from)| Read {
        seq: read.seq,
        tokens: read.tokens[from..].to_vec(),
    });
    let rest: Vec<Read> = rest.filter(|read| !read.tokens.is_empty()).collect();
    if !rest.is_empty() {
        engines.read(&rest)?;
    }
    Ok(outputs)
}
