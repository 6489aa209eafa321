//! Gradients of several losses, added up.

use std::collections::HashMap;

use candle_core::Tensor;

use super::Decoder;
use crate::Result;
use crate::optim::AdamW;

/// The gradients of a decoder's weights, by name.
#[derive(Debug, Default)]
pub struct Gradients(HashMap<String, Tensor>);

impl Gradients {
    /// Adds those of a loss.
    ///
    /// # Errors
    /// What candle says.
    pub fn add(&mut self, decoder: &Decoder, loss: &Tensor) -> Result<()> {
        let mut grads = loss.backward()?;
        for (name, var) in decoder.vars() {
            let Some(grad) = grads.remove(var.as_tensor()) else {
                continue;
            };
            match self.0.get_mut(name) {
                Some(sum) => *sum = (&*sum + grad)?,
                None => drop(self.0.insert(name.to_owned(), grad)),
            }
        }
        Ok(())
    }

    /// Takes an optimiser step; returns the gradients' norm before clipping.
    ///
    /// # Errors
    /// What candle says.
    pub fn step(&self, decoder: &Decoder, optimizer: &mut AdamW, rate: f64) -> Result<f64> {
        Ok(optimizer.step(decoder.vars(), &self.0, rate)?)
    }
}
