//! The outputs of a decoder's frozen layers. The engine computes them once, and a file caches them for all epochs.

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

/// The number of examples in a forward pass of the engine.
const AT_ONCE: usize = 16;

/// The hidden states that enter the first trained layer, in a file. The file has one bf16 row for each token of each
/// example.
#[derive(Debug)]
pub struct Features {
    file: File,
    path: PathBuf,
    hidden: usize,
    /// The first row of each example, then the total number of rows.
    starts: Vec<u64>,
}

impl Features {
    /// Opens the file at `path` and writes the outputs of the first `layers` layers for all `examples`. Rows from an
    /// interrupted call are kept, so the caller must pass the same examples and weights again. `progress` is called
    /// with the number of finished tokens and the total.
    ///
    /// # Errors
    /// The engine refuses the weights, or the file cannot be read or written.
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
        // A crash may leave an incomplete example at the end; only complete ones count.
        let mut done = starts.partition_point(|&start| start <= rows) - 1;
        let total = starts[examples.len()] as usize;
        if done < examples.len() {
            // The incomplete example is cut off, since the file is appended to.
            file.set_len(starts[done] * row).map_err(io_error(path))?;
            let mut frozen = FrozenLayers::new(config, weights, weight_type, layers)?;
            while done < examples.len() {
                let end = examples.len().min(done + AT_ONCE);
                let ids: Vec<&[u32]> = examples[done..end]
                    .iter()
                    .map(|e| e.ids.as_slice())
                    .collect();
                let mut bytes = Vec::new();
                // bf16 halves the file, which has a row for each token of the data.
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

    /// Reads the rows of example `i` into the start of `out`, converted to f32.
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

/// An engine with the lowest layers of a model only.
#[derive(Debug)]
pub(crate) struct FrozenLayers(Engine);

impl FrozenLayers {
    /// Loads the first `layers` layers of a model; its other tensors are not loaded into the engine.
    ///
    /// # Errors
    /// The engine refuses the weights.
    pub(crate) fn new(
        config: &ModelConfig,
        mut weights: Weights,
        weight_type: WeightType,
        layers: usize,
    ) -> Result<Self> {
        // The engine loads every tensor in `weights`, so those of higher layers and the head are removed.
        let names: Vec<String> = weights.names().map(str::to_owned).collect();
        for name in names {
            let is_above = layer_number(&name).is_some_and(|number| number >= layers);
            if is_above || name == "lm_head.weight" {
                weights.remove(&name);
            }
        }
        let config = ModelConfig {
            num_hidden_layers: layers,
            // Only hidden states are needed, so the embedding is not packed as a head.
            causal_lm: false,
            tie_word_embeddings: false,
            ..config.clone()
        };
        let model = Model::from_weights(config, &weights, weight_type)?;
        Ok(Self(Engine::new(Arc::new(model), EngineConfig::default())?))
    }

    /// Passes the residual stream of all tokens to `take`, in the order of sequences and tokens, value by value.
    ///
    /// # Errors
    /// The engine cannot run the forward pass.
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
        // The engine takes the buffer back for its next forward pass.
        engine.recycle(rows);
        for seq in seqs {
            engine.free(seq);
        }
        Ok(())
    }
}

/// Returns the layer of a tensor; `None` if the tensor is outside all layers.
fn layer_number(name: &str) -> Option<usize> {
    let bare = name.strip_prefix("model.").unwrap_or(name);
    bare.strip_prefix("layers.")?
        .split('.')
        .next()?
        .parse()
        .ok()
}
