//! The tensors of a checkpoint for candle's models. Each tensor is widened when it is requested.

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
/// Ends of the names of tensors that follow from `config.json`, so that nobody has to read them.
const COMPUTED: [&str; 2] = ["rotary_emb.inv_freq", "embeddings.position_ids"];

/// Changes of weights that `config.json` asks for and that candle's models do not make.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// Whether the head is the embedding; `None` if the configuration has no such field.
    pub tied: Option<bool>,
    /// The scaling of queries; `None` if it is what candle computes.
    pub scale: Option<Scale>,
}

/// A factor that is multiplied into certain tensors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// A part of the names of the tensors.
    pub part: &'static str,
    /// The number that the model adds to the weights before it uses them.
    pub offset: f64,
    /// The factor on the weight plus the offset.
    pub factor: f64,
}

/// The tensors of a checkpoint, widened on first use. Clones share the widened tensors.
#[derive(Clone, Debug)]
pub(crate) struct LazyWeights {
    weights: Arc<Weights>,
    read: Arc<Mutex<HashMap<String, Tensor>>>,
    /// Changes of the weights; must be set before the first tensor is read.
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

    /// Bytes of all tensors in float32.
    pub(crate) fn bytes(&self) -> std::result::Result<u64, beamgen_engine::Error> {
        let mut bytes = 0;
        for name in self.weights.names() {
            bytes += 4 * self.weights.shape(name)?.iter().product::<usize>() as u64;
        }
        Ok(bytes)
    }

    /// The bytes of `memory` that the weights leave; an error if they do not fit.
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

    /// Builds a model with `open`, which must request every tensor. `model` is for messages.
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
        // Some of candle's models panic at numbers of config.json that they take for granted.
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
            // For example a bias that candle's model does not have: without it the results would be
            // wrong.
            Some(tensor) => Err(failed(format!(
                "candle-transformers' {family} has no tensor {tensor}"
            ))),
        }
    }

    /// The name of a tensor that nobody requested and that would change results. Tensors that are
    /// computed from `config.json`, and a head that equals the embedding, would not.
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
            // A head tensor of a tied model must equal the embedding: see `unread`.
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
            // The model computes `offset + weight`, which is to become `factor` times as large.
            let shift = scale.offset * (scale.factor - 1.0);
            tensor = tensor.affine(scale.factor, shift)?;
        }
        // Kept, so that models which are built again share the memory.
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
