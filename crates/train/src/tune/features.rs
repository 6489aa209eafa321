//! Outputs of the frozen layers of a decoder, computed once by the engine and cached on disk.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use beamgen_engine::{
    Append, Engine, EngineConfig, Model, ModelConfig, Output, SeqId, Want, WeightType, Weights,
};
use half::bf16;

use super::Example;
use crate::Result;
use crate::write::io_error;

/// The number of examples in a batch of the engine.
const AT_ONCE: usize = 16;

/// The hidden states that enter the first trained layer, in a file of bf16, one row for each token
/// of each example.
#[derive(Debug)]
pub struct Features {
    file: File,
    path: PathBuf,
    hidden: usize,
    /// The first row of each example, and at the end the number of all rows.
    starts: Vec<u64>,
}

impl Features {
    /// Opens the file at `path` and computes the outputs of the first `layers` layers for
    /// `examples`. Rows of an earlier, interrupted call are kept; the caller guarantees the same
    /// examples and weights. `progress` gets tokens done and tokens in total.
    ///
    /// # Errors
    /// The engine refuses the weights, or the file cannot be written.
    pub fn open(
        path: &Path,
        config: &ModelConfig,
        weights: Weights,
        weight_type: WeightType,
        layers: usize,
        examples: &[Example],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self> {
        let mut starts = vec![0u64];
        for example in examples {
            starts.push(starts[starts.len() - 1] + example.ids.len() as u64);
        }
        let row = 2 * config.hidden_size as u64;
        let mut file = beamgen_files::append(path).map_err(io_error(path))?;
        let rows = file.metadata().map_err(io_error(path))?.len() / row;
        // A crash may have left part of an example: only whole examples are kept.
        let mut done = starts.partition_point(|&start| start <= rows) - 1;
        let total = starts[examples.len()] as usize;
        if done < examples.len() {
            // Cuts off a partly written example.
            file.set_len(starts[done] * row).map_err(io_error(path))?;
            let mut frozen = FrozenLayers::new(config, weights, weight_type, layers)?;
            while done < examples.len() {
                let end = examples.len().min(done + AT_ONCE);
                let ids: Vec<&[u32]> = examples[done..end]
                    .iter()
                    .map(|e| e.ids.as_slice())
                    .collect();
                let mut bytes = Vec::new();
                // bf16 halves the size of the cache, which has a row for each token of the data.
                // is the limit.
                frozen.compute(&ids, &mut |x| bytes.extend(bf16::from_f32(x).to_le_bytes()))?;
                file.write_all(&bytes).map_err(io_error(path))?;
                done = end;
                progress(starts[done] as usize, total);
            }
            file.sync_all().map_err(io_error(path))?;
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            hidden: config.hidden_size,
            starts,
        })
    }

    /// Reads the rows of example `i` into the beginning of `out`, widened to f32.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        let (from, to) = (self.starts[i], self.starts[i + 1]);
        let values = (to - from) as usize * self.hidden;
        let mut bytes = vec![0; 2 * values];
        let at = from * 2 * self.hidden as u64;
        self.file
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(io_error(&self.path))?;
        for (out, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
            *out = bf16::from_le_bytes(*bytes).to_f32();
        }
        Ok(())
    }
}

/// An engine with only the first layers of a model.
#[derive(Debug)]
pub(crate) struct FrozenLayers(Engine);

impl FrozenLayers {
    /// Loads the first `layers` layers of a model and drops all other weights.
    ///
    /// # Errors
    /// The engine refuses the weights.
    pub(crate) fn new(
        config: &ModelConfig,
        mut weights: Weights,
        weight_type: WeightType,
        layers: usize,
    ) -> Result<Self> {
        // The engine reads all tensors that it is given, so the trained layers and the head are
        // removed.
        let names: Vec<String> = weights.names().map(str::to_owned).collect();
        for name in names {
            let is_above = layer_number(&name).is_some_and(|number| number >= layers);
            if is_above || name == "lm_head.weight" {
                weights.remove(&name);
            }
        }
        let config = ModelConfig {
            num_hidden_layers: layers,
            // Logits are not needed, so the embedding is not packed as a head.
            causal_lm: false,
            tie_word_embeddings: false,
            ..config.clone()
        };
        let model = Model::from_weights(config, &weights, weight_type)?;
        Ok(Self(Engine::new(Arc::new(model), EngineConfig::default())?))
    }

    /// Passes the hidden states of all sequences to `take`, value by value, row by row.
    ///
    /// # Errors
    /// The engine cannot run the batch.
    pub(crate) fn compute(
        &mut self,
        sequences: &[&[u32]],
        take: &mut dyn FnMut(f32),
    ) -> Result<()> {
        let engine = &mut self.0;
        let seqs: Vec<SeqId> = sequences.iter().map(|_| engine.create()).collect();
        let items: Vec<Append> = sequences
            .iter()
            .zip(&seqs)
            .map(|(tokens, &seq)| Append {
                seq,
                tokens,
                want: Want::All,
            })
            .collect();
        let rows = engine.forward(&items, Output::Residual)?;
        rows.iter().flatten().for_each(|&x| take(x));
        // The buffer is used again by the next call.
        engine.recycle(rows);
        for seq in seqs {
            engine.free(seq);
        }
        Ok(())
    }
}

/// Returns the number of the layer to which a tensor belongs.
fn layer_number(name: &str) -> Option<usize> {
    let bare = name.strip_prefix("model.").unwrap_or(name);
    bare.strip_prefix("layers.")?
        .split('.')
        .next()?
        .parse()
        .ok()
}
