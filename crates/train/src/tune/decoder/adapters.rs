//! Low-rank adapters beside the matrices of a decoder whose own weights are frozen.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::{Decoder, layer};
use crate::tune::Lora;
use crate::{Error, Result};

/// Low-rank adapters of one matrix of the checkpoint.
#[derive(Debug)]
pub(super) struct Adapter {
    /// The matrix's name.
    name: String,
    /// alpha / rank
    scale: f64,
}

impl Adapter {
    fn a(&self) -> String {
        format!("{}.lora_A.weight", self.name)
    }

    fn b(&self) -> String {
        format!("{}.lora_B.weight", self.name)
    }
}

impl Decoder {
    /// Freezes all weights and puts adapters beside the matrices, `A` uniform within `1 /
    /// sqrt(inputs)` and `B` zero, as PEFT does: what is computed stays the same at first.
    ///
    /// # Errors
    /// [`Error::Config`] for a rank above the width of a matrix, or what candle says.
    pub fn adapt(&mut self, lora: Lora, seed: u64) -> Result<()> {
        let matrices = super::matrices(&self.config);
        let widths = matrices
            .iter()
            .flat_map(|(_, parts, inputs, _)| parts.iter().map(|part| part.1).chain([*inputs]));
        if let Some(least) = widths.min().filter(|&least| lora.rank > least) {
            return Err(Error::Config(format!(
                "lora={}: the smallest matrix has {least} rows or columns; give no more",
                lora.rank
            )));
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let weights = std::mem::take(&mut self.vars).into_iter();
        let fixed = weights.map(|(name, var)| (name, var.as_tensor().detach()));
        self.fixed.extend(fixed);
        for i in self.frozen..self.config.num_hidden_layers {
            for (fused, parts, inputs, _) in &matrices {
                let bound = 1.0 / (*inputs as f32).sqrt();
                let mut adapters = Vec::new();
                for (part, outputs) in parts {
                    let adapter = Adapter {
                        name: layer(i, part),
                        scale: lora.alpha / lora.rank as f64,
                    };
                    let draw = |_| rng.random_range(-bound..bound);
                    let a: Vec<f32> = (0..lora.rank * inputs).map(draw).collect();
                    let a = Tensor::from_vec(a, (lora.rank, *inputs), &Device::Cpu)?;
                    let b = Tensor::zeros((*outputs, lora.rank), DType::F32, &Device::Cpu)?;
                    self.put(adapter.a(), &a)?;
                    self.put(adapter.b(), &b)?;
                    adapters.push(adapter);
                }
                self.adapters.insert(layer(i, fused), adapters);
            }
        }
        Ok(())
    }

    /// What the adapters of a matrix add to its product with `x`, if it has some.
    pub(super) fn adapted(&self, x: &Tensor, name: &str) -> Result<Option<Tensor>> {
        let Some(adapters) = self.adapters.get(name) else {
            return Ok(None);
        };
        let parts = adapters.iter().map(|adapter| {
            // Scaled where it is thin.
            let inner = (x.matmul(&self.expect(&adapter.a())?.t()?)? * adapter.scale)?;
            Ok(inner.matmul(&self.expect(&adapter.b())?.t()?)?)
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        Ok(Some(Tensor::cat(&parts, 1)?))
    }

    /// Whether a trained tensor is part of an adapter.
    pub(super) fn is_adapter(&self, name: &str) -> bool {
        let mut all = self.adapters.values().flatten();
        all.any(|of| of.a() == name || of.b() == name)
    }

    /// The matrices beside which there are adapters, with these added to them.
    pub(super) fn merged(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut out = BTreeMap::new();
        for (name, adapters) in &self.adapters {
            let weight = format!("{name}.weight");
            let parts = adapters.iter().map(|adapter| {
                let (a, b) = (self.expect(&adapter.a())?, self.expect(&adapter.b())?);
                Ok((b.detach().matmul(&a.detach())? * adapter.scale)?)
            });
            let change = Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0)?;
            out.insert(weight.clone(), (self.expect(&weight)? + change)?);
        }
        Ok(out)
    }
}
