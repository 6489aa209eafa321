//! Models of `candle-transformers` with their caches: they read tokens and can be forked.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

/// A model together with the tokens that it has read.
pub(crate) trait Decoder: Send {
    /// Reads further tokens. Returns the logits after the last of them.
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>>;

    /// Makes a decoder that has read the same tokens and continues independently of this one.
    fn fork(&self) -> Box<dyn Decoder>;
}

/// A function that lets a model read tokens, the first of them at the given position. The methods
/// of candle's models differ.
pub(crate) type Forward<M> = fn(&mut M, &Tensor, usize) -> Result<Tensor>;

/// A model whose cached tensors are never changed, only replaced. So clones can share them.
pub(crate) struct Shared<M> {
    pub model: M,
    pub forward: Forward<M>,
    pub read: usize,
}

impl<M: Clone + Send + 'static> Decoder for Shared<M> {
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let logits = last_row(&(self.forward)(&mut self.model, &row(tokens)?, self.read)?)?;
        self.read += tokens.len();
        Ok(logits)
    }

    fn fork(&self) -> Box<dyn Decoder> {
        Box::new(Self {
            model: self.model.clone(),
            forward: self.forward,
            read: self.read,
        })
    }
}

/// A model that changes its cached tensors, or cannot be cloned. A fork therefore starts with a new
/// model, which reads all tokens again before the first new one.
pub(crate) struct Rereading<M> {
    /// Makes a model that has read no token.
    make: Arc<dyn Fn() -> Result<M> + Send + Sync>,
    /// `None` in a fork that has not read yet: until then, the fork costs only its list of tokens.
    model: Option<M>,
    forward: Forward<M>,
    tokens: Vec<u32>,
}

impl<M> Rereading<M> {
    pub(crate) fn new(make: Arc<dyn Fn() -> Result<M> + Send + Sync>, forward: Forward<M>) -> Self {
        Self {
            make,
            model: None,
            forward,
            tokens: Vec::new(),
        }
    }
}

impl<M: Send + 'static> Decoder for Rereading<M> {
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        // A new model reads all tokens, an existing one only the new ones.
        let begin = self.model.as_ref().map_or(0, |_| self.tokens.len());
        // All tokens are kept, since forks have to read them again.
        self.tokens.extend_from_slice(tokens);
        let model = match &mut self.model {
            Some(model) => model,
            none => none.insert((self.make)()?),
        };
        last_row(&(self.forward)(model, &row(&self.tokens[begin..])?, begin)?)
    }

    fn fork(&self) -> Box<dyn Decoder> {
        Box::new(Self {
            make: Arc::clone(&self.make),
            model: None,
            forward: self.forward,
            tokens: self.tokens.clone(),
        })
    }
}

fn row(tokens: &[u32]) -> Result<Tensor> {
    Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)
}

/// Returns the last row of logits. Some models return a row for each token, others only the last.
fn last_row(logits: &Tensor) -> Result<Vec<f32>> {
    let rows = logits.flatten_to(candle_core::D::Minus2)?;
    let last = rows.dim(0)?.checked_sub(1);
    let last = last.ok_or_else(|| candle_core::Error::msg("no logits"))?;
    rows.get(last)?.to_vec1()
}
