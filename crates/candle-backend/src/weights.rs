//! The tensors of a checkpoint for candle's models, each widened when it is asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use beamgen_engine::Weights;
use candle_core::{DType, Device, Error, Result, Shape, Tensor};
use candle_nn::Init;
use candle_nn::var_builder::SimpleBackend;

const EMBEDDINGS: &str = "model.embed_tokens.weight";
const HEAD: &str = "lm_head.weight";

/// Copies share what was read.
#[derive(Clone, Debug)]
pub(crate) struct LazyWeights {
    weights: Arc<Weights>,
    read: Arc<Mutex<HashMap<String, Tensor>>>,
}

impl LazyWeights {
    pub fn new(weights: Weights) -> Self {
        Self {
            weights: Arc::new(weights),
            read: Arc::default(),
        }
    }

    /// Of all tensors in float32.
    pub fn bytes(&self) -> std::result::Result<u64, beamgen_engine::Error> {
        let mut bytes = 0;
        for name in self.weights.names() {
            bytes += 4 * self.weights.shape(name)?.iter().product::<usize>() as u64;
        }
        Ok(bytes)
    }

    /// A tensor that nobody asked for, if it would change results: not what is computed from
    /// `config.json`, nor a head that is the embeddings once more.
    pub fn unread(&self) -> std::result::Result<Option<String>, beamgen_engine::Error> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        for name in self.weights.names() {
            let tied = || -> std::result::Result<bool, beamgen_engine::Error> {
                let embeddings = self.weights.tensor(EMBEDDINGS)?;
                Ok(self.weights.tensor(name)?.data == embeddings.data)
            };
            let known = read.contains_key(name)
                || name.ends_with("rotary_emb.inv_freq")
                || (name == HEAD && tied()?);
            if !known {
                return Ok(Some(name.to_owned()));
            }
        }
        Ok(None)
    }

    fn tensor(&self, name: &str) -> Result<Tensor> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tensor) = read.get(name) {
            return Ok(tensor.clone());
        }
        let found = self
            .weights
            .tensor(name)
            .map_err(|error| Error::msg(error.to_string()))?;
        let tensor = Tensor::from_vec(found.data, found.shape, &Device::Cpu)?;
        read.insert(name.to_owned(), tensor.clone());
        Ok(tensor)
    }
}

impl SimpleBackend for LazyWeights {
    fn get(&self, shape: Shape, name: &str, _: Init, _: DType, _: &Device) -> Result<Tensor> {
        let tensor = self.tensor(name)?;
        match *tensor.shape() == shape {
            true => Ok(tensor),
            false => Err(Error::msg(format!(
                "tensor {name} has the shape {:?} where config.json says {:?}",
                tensor.dims(),
                shape.dims()
            ))),
        }
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        self.tensor(name)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.weights.contains(name)
    }
}
