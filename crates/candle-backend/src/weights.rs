//! The tensors of a checkpoint for candle's models. Each tensor is converted to float32 when a
//! model requests it.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use beamgen_engine::Weights;
use candle_core::{DType, Device, Error, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};

use crate::error::first_line;

const EMBEDDINGS: &str = "model.embed_tokens.weight";
const HEAD: &str = "lm_head.weight";
/// Endings of the names of tensors that can be computed from `config.json`. A model need not
/// request them.
const COMPUTED: [&str; 2] = ["rotary_emb.inv_freq", "embeddings.position_ids"];

/// Changes of the weights that `config.json` asks for and that candle's models do not make.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// Whether the head uses the weights of the embedding; `None` if `config.json` does not say.
    pub tied: Option<bool>,
    /// A factor on the queries; `None` if candle scales them as `config.json` asks.
    pub scale: Option<Scale>,
}

/// A factor on the values of certain tensors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// A text in the names of the tensors.
    pub part: &'static str,
    /// The number that the model adds to the weights before it uses them.
    pub offset: f64,
    /// The factor on the weight plus the offset.
    pub factor: f64,
}

/// The tensors of a checkpoint, converted to float32 on first use. Clones share converted tensors.
#[derive(Clone, Debug)]
pub(crate) struct LazyWeights {
    weights: Arc<Weights>,
    read: Arc<Mutex<HashMap<String, Tensor>>>,
    /// Changes of the weights. They have to be set before the first tensor is requested.
    pub reading: Reading,
}

impl LazyWeights {
    pub(crate) fn new(weights: Weights) -> Self {
        Self {
            weights: Arc::new(weights),
            read: Arc::default(),
            reading: Reading::default(),
        }
    }

    /// Returns the bytes that all tensors take in float32.
    pub(crate) fn bytes(&self) -> std::result::Result<u64, beamgen_engine::Error> {
        let mut bytes = 0;
        for name in self.weights.names() {
            bytes += 4 * self.weights.shape(name)?.iter().product::<usize>() as u64;
        }
        Ok(bytes)
    }

    /// Returns the bytes of `memory` that remain after the weights; an error if the weights do not
    /// fit.
    pub(crate) fn fit(&self, model: &str, memory: u64) -> std::result::Result<u64, crate::Error> {
        let needed = self.bytes()?;
        memory
            .checked_sub(needed)
            .ok_or_else(|| crate::Error::Memory {
                model: model.to_owned(),
                needed: needed >> 20,
                free: memory >> 20,
            })
    }

    /// Builds a model with `open`, which must request every tensor. `model` is for error messages.
    pub(crate) fn build<M>(
        self,
        model: &str,
        family: &str,
        open: impl FnOnce(VarBuilder<'static>) -> Result<M>,
    ) -> std::result::Result<M, crate::Error> {
        let failed = |reason: String| crate::Error::Candle {
            model: model.to_owned(),
            reason,
        };
        if self.reading.tied == Some(false) && !self.weights.contains(HEAD) {
            let reason = format!("tie_word_embeddings is false, but there is no tensor {HEAD}");
            return Err(failed(reason));
        }
        let backend = Box::new(self.clone());
        let builder = VarBuilder::from_backend(backend, DType::F32, Device::Cpu);
        // Some models of candle panic if `config.json` has numbers that they do not expect.
        let built = catch_unwind(AssertUnwindSafe(|| open(builder)))
            .map_err(|cause| {
                let cause = cause.downcast_ref::<String>().map_or("", String::as_str);
                let cause = cause.lines().next().unwrap_or_default();
                failed(format!(
                    "candle-transformers panicked over config.json: {cause}"
                ))
            })?
            .map_err(|error| failed(first_line(&error)))?;
        match self.unread()? {
            None => Ok(built),
            // For example a bias that candle's model does not have: without it, results would be
            // wrong.
            Some(tensor) => Err(failed(format!(
                "candle-transformers' {family} has no tensor {tensor}"
            ))),
        }
    }

    /// Returns the name of a tensor that no model requested, although results depend on it. Tensors
    /// that follow from `config.json` do not count, nor does a head that equals the embedding.
    fn unread(&self) -> std::result::Result<Option<String>, beamgen_engine::Error> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        for name in self.weights.names() {
            let tied = || -> std::result::Result<bool, beamgen_engine::Error> {
                let embeddings = self.weights.tensor(EMBEDDINGS)?;
                Ok(self.weights.tensor(name)?.data == embeddings.data)
            };
            let known = read.contains_key(name)
                || COMPUTED.iter().any(|end| name.ends_with(end))
                || (name == HEAD && tied()?);
            if !known {
                return Ok(Some(name.to_owned()));
            }
        }
        Ok(None)
    }

    fn tensor(&self, name: &str) -> Result<Tensor> {
        let name = match (name, self.reading.tied) {
            // `unread` checks that a head tensor, if there is one, equals the embedding.
            (HEAD, Some(true)) => EMBEDDINGS,
            _ => name,
        };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tensor) = read.get(name) {
            return Ok(tensor.clone());
        }
        let found = self
            .weights
            .tensor(name)
            .map_err(|error| Error::msg(error.to_string()))?;
        let mut tensor = Tensor::from_vec(found.data, found.shape, &Device::Cpu)?;
        if let Some(scale) = self.reading.scale.filter(|scale| name.contains(scale.part)) {
            // The model uses `offset + weight`. This sum has to be multiplied by `factor`.
            let shift = scale.offset * (scale.factor - 1.0);
            tensor = tensor.affine(scale.factor, shift)?;
        }
        // Kept, so that a model that is built again shares the memory.
        read.insert(name.to_owned(), tensor.clone());
        Ok(tensor)
    }
}

impl SimpleBackend for LazyWeights {
    fn get(&self, shape: Shape, name: &str, _: Init, _: DType, _: &Device) -> Result<Tensor> {
        let tensor = self.tensor(name)?;
        if *tensor.shape() == shape {
            Ok(tensor)
        } else {
            Err(Error::msg(format!(
                "tensor {name} has shape {:?}, config.json expects {:?}",
                tensor.dims(),
                shape.dims()
            )))
        }
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        self.tensor(name)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.weights.contains(name)
    }
}
