//! A model of `candle-transformers` with its cache, as something that reads tokens and is forked.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

/// A decoder and what it has read.
pub(crate) trait Decoder: Send {
    /// Reads more tokens. Returns the logits behind the last one.
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>>;

    /// One that has read the same and goes its own way.
    fn fork(&self) -> Result<Box<dyn Decoder>>;
}

/// Reads tokens at a position; the models of `candle-transformers` differ in how they are called.
pub(crate) type Forward<M> = fn(&mut M, &Tensor, usize) -> Result<Tensor>;

/// A model whose cache is made of tensors that nobody writes to again: a clone shares them.
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

    fn fork(&self) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(Self {
            model: self.model.clone(),
            forward: self.forward,
            read: self.read,
        }))
    }
}

/// A model that writes into its cache, or that cannot be cloned: a fork reads all tokens again.
pub(crate) struct Rereading<M> {
    /// Makes a model that has read nothing.
    pub make: Arc<dyn Fn() -> Result<M> + Send + Sync>,
    pub model: M,
    pub forward: Forward<M>,
    pub tokens: Vec<u32>,
}

impl<M: Send + 'static> Decoder for Rereading<M> {
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let logits = (self.forward)(&mut self.model, &row(tokens)?, self.tokens.len())?;
        self.tokens.extend_from_slice(tokens);
        last_row(&logits)
    }

    fn fork(&self) -> Result<Box<dyn Decoder>> {
        let mut fork = Self {
            model: (self.make)()?,
            make: Arc::clone(&self.make),
            forward: self.forward,
            tokens: Vec::new(),
        };
        if !self.tokens.is_empty() {
            fork.read(&self.tokens)?;
        }
        Ok(Box::new(fork))
    }
}

fn row(tokens: &[u32]) -> Result<Tensor> {
    Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)
}

/// The last row of logits; some models give all rows.
fn last_row(logits: &Tensor) -> Result<Vec<f32>> {
    let rows = logits.flatten_to(candle_core::D::Minus2)?;
    let last = rows.dim(0)?.checked_sub(1);
    let last = last.ok_or_else(|| candle_core::Error::msg("no logits"))?;
    rows.get(last)?.to_vec1()
}
