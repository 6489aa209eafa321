//! Sums of the gradients of several micro-batches.

use std::collections::HashMap;

use candle_core::Tensor;

use super::Decoder;
use crate::Result;
use crate::optim::AdamW;

/// The summed gradients by the names of the decoder's trained tensors.
#[derive(Debug, Default)]
pub struct Gradients(HashMap<String, Tensor>);

impl Gradients {
    /// Runs the backward pass of `loss` and adds its gradients to the sums.
    ///
    /// # Errors
    /// The backward pass fails, or gradients cannot be added.
    pub fn add(&mut self, decoder: &Decoder, loss: &Tensor) -> Result<()> {
        let mut grads = loss.backward()?;
        for (name, var) in decoder.vars() {
            // A tensor without influence on the loss has no gradient, for example the decoder's body if the hidden
            // states are detached.
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

    /// Takes one optimiser step with learning rate `rate`. Returns the L2 norm of all gradients before clipping.
    ///
    /// # Errors
    /// A gradient and its tensor differ in shape.
    pub fn step(&self, decoder: &Decoder, optimizer: &mut AdamW, rate: f64) -> Result<f64> {
        Ok(optimizer.step(decoder.vars(), &self.0, rate)?)
    }
}
