//! Models of `candle-transformers` with their caches, which read tokens and can be forked.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

/// A decoder with the tokens that it has read.
pub(crate) trait Decoder: Send {
    /// Reads more tokens. Returns the logits after the last one.
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>>;

    /// Creates a decoder that has read the same tokens and continues independently.
    fn fork(&self) -> Box<dyn Decoder>;
}

/// Reads tokens from a position on. The models of `candle-transformers` differ in how they are
/// called.
pub(crate) type Forward<M> = fn(&mut M, &Tensor, usize) -> Result<Tensor>;

/// A model whose cache consists of tensors that are never written to again, so a clone shares them.
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

/// A model that writes to its cache, or that cannot be cloned. A fork reads all tokens again when
/// it reads its first own token.
pub(crate) struct Rereading<M> {
    /// Creates a model that has read nothing.
    make: Arc<dyn Fn() -> Result<M> + Send + Sync>,
    /// `None` in a fork that has not read yet, which then costs only its tokens.
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
        // A fresh model begins with all tokens, an old one with those that are new.
        let begin = self.model.as_ref().map_or(0, |_| self.tokens.len());
        // All tokens are kept, as a fork has nothing else to begin with.
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

/// The last row of logits. Some models return all rows, others only the last.
fn last_row(logits: &Tensor) -> Result<Vec<f32>> {
    let rows = logits.flatten_to(candle_core::D::Minus2)?;
    let last = rows.dim(0)?.checked_sub(1);
    let last = last.ok_or_else(|| candle_core::Error::msg("no logits"))?;
    rows.get(last)?.to_vec1()
}
