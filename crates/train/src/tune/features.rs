//! The frozen part of a decoder, computed once by the engine and kept on disk.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use beamgen_engine::{
    Append, Engine, EngineConfig, Model, ModelConfig, Output, SeqId, Want, WeightType, Weights,
};
use half::bf16;

use super::Example;
use crate::{Error, Result};

/// Examples that the engine reads at once.
const AT_ONCE: usize = 16;

/// The hidden states that the first trained layer reads, one row a token, in bf16.
#[derive(Debug)]
pub struct Features {
    file: File,
    path: PathBuf,
    hidden: usize,
    /// Where each example begins, in rows.
    starts: Vec<u64>,
}

impl Features {
    /// The features of `examples` behind the first `layers` layers, in the file at `path`. What an
    /// earlier call has written there (of the same examples and weights, which the caller knows) is
    /// kept, so an interrupted computation goes on. `progress` gets tokens done and tokens in all.
    ///
    /// # Errors
    /// What the engine or the file system says.
    pub fn open(
        path: &Path,
        config: &ModelConfig,
        weights: Weights,
        weight_type: WeightType,
        layers: usize,
        examples: &[Example],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self> {
        let io = |error| Error::Io(path.to_owned(), error);
        let mut starts = vec![0u64];
        for example in examples {
            starts.push(starts[starts.len() - 1] + example.ids.len() as u64);
        }
        let row = 2 * config.hidden_size as u64;
        let mut file = beamgen_files::append(path).map_err(io)?;
        let rows = file.metadata().map_err(io)?.len() / row;
        // The last example that is whole.
        let mut done = starts.partition_point(|&start| start <= rows) - 1;
        let total = starts[examples.len()] as usize;
        if done < examples.len() {
            file.set_len(starts[done] * row).map_err(io)?;
            let mut frozen = FrozenLayers::new(config, weights, weight_type, layers)?;
            while done < examples.len() {
                let end = examples.len().min(done + AT_ONCE);
                let ids: Vec<&[u32]> = examples[done..end]
                    .iter()
                    .map(|e| e.ids.as_slice())
                    .collect();
                let mut bytes = Vec::new();
                frozen.compute(&ids, &mut |x| bytes.extend(bf16::from_f32(x).to_le_bytes()))?;
                file.write_all(&bytes).map_err(io)?;
                done = end;
                progress(starts[done] as usize, total);
            }
            file.sync_all().map_err(io)?;
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            hidden: config.hidden_size,
            starts,
        })
    }

    /// Writes the rows of example `i`, widened, to the beginning of `out`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        let io = |error| Error::Io(self.path.clone(), error);
        let (from, to) = (self.starts[i], self.starts[i + 1]);
        let values = (to - from) as usize * self.hidden;
        let mut bytes = vec![0; 2 * values];
        let at = from * 2 * self.hidden as u64;
        self.file.seek(SeekFrom::Start(at)).map_err(io)?;
        self.file.read_exact(&mut bytes).map_err(io)?;
        for (out, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
            *out = bf16::from_le_bytes(*bytes).to_f32();
        }
        Ok(())
    }
}

/// An engine of a model's first layers alone.
#[derive(Debug)]
pub(crate) struct FrozenLayers(Engine);

impl FrozenLayers {
    /// The first `layers` layers.
    ///
    /// # Errors
    /// What the engine says.
    pub(crate) fn new(
        config: &ModelConfig,
        mut weights: Weights,
        weight_type: WeightType,
        layers: usize,
    ) -> Result<Self> {
        let layer = |name: &str| -> Option<usize> {
            let bare = name.strip_prefix("model.").unwrap_or(name);
            bare.strip_prefix("layers.")?
                .split('.')
                .next()?
                .parse()
                .ok()
        };
        let names: Vec<String> = weights.names().map(str::to_owned).collect();
        for name in names {
            let is_above = layer(&name).is_some_and(|number| number >= layers);
            if is_above || name == "lm_head.weight" {
                weights.remove(&name);
            }
        }
        let config = ModelConfig {
            num_hidden_layers: layers,
            // No logits: the embedding is only looked up.
            causal_lm: false,
            tie_word_embeddings: false,
            ..config.clone()
        };
        let model = Model::from_weights(config, &weights, weight_type)?;
        Ok(Self(Engine::new(Arc::new(model), EngineConfig::default())?))
    }

    /// Hands the hidden states of all sequences to `take`, value by value, a row a token.
    ///
    /// # Errors
    /// What the engine says.
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
        engine.recycle(rows);
        for seq in seqs {
            engine.free(seq);
        }
        Ok(())
    }
}
