//! Sums of the gradients of several losses.

use std::collections::HashMap;

use candle_core::Tensor;

use super::Decoder;
use crate::Result;
use crate::optim::AdamW;

/// The summed gradients of a decoder's trained tensors, by name.
#[derive(Debug, Default)]
pub struct Gradients(HashMap<String, Tensor>);

impl Gradients {
    /// Adds the gradients of a loss.
    ///
    /// # Errors
    /// The backward pass fails.
    pub fn add(&mut self, decoder: &Decoder, loss: &Tensor) -> Result<()> {
        let mut grads = loss.backward()?;
        for (name, var) in decoder.vars() {
            // A tensor that the loss does not read has no gradient: the body, in updates of only
            // the head.
            let Some(grad) = grads.remove(var.as_tensor()) else {
                continue;
            };
            match self.0.get_mut(name) {
                Some(sum) => *sum = (&*sum + grad)?,
                None => {
                    self.0.insert(name.to_owned(), grad);
                }
            }
        }
        Ok(())
    }

    /// Takes an optimiser step; returns the L2 norm of all gradients before clipping.
    ///
    /// # Errors
    /// A gradient has another shape than its tensor.
    pub fn step(&self, decoder: &Decoder, optimizer: &mut AdamW, rate: f64) -> Result<f64> {
        Ok(optimizer.step(decoder.vars(), &self.0, rate)?)
    }
}
