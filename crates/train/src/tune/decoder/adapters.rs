//! Low-rank adapters (`LoRA`, arXiv 2106.09685) of the frozen matrices of a decoder.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::{Decoder, layer};
use crate::tune::Lora;
use crate::{Error, Result};

/// An adapter, which adds `scale * B A` to one matrix of the checkpoint.
#[derive(Debug)]
pub(super) struct Adapter {
    /// The name of the matrix in the checkpoint without `.weight`, the prefix of both adapter tensors.
    name: String,
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
    /// Freezes all weights and adds an adapter to every matrix. `A` is uniform within `1 / sqrt(inputs)` and `B` is
    /// zero, as in PEFT. Outputs thus do not change before the first update.
    ///
    /// # Errors
    /// [`Error::Config`] if the rank is above the smaller side of a matrix; or a tensor operation fails.
    pub fn adapt(&mut self, lora: Lora, seed: u64) -> Result<()> {
        let matrices = super::matrices(&self.config);
        let widths = matrices
            .iter()
            .flat_map(|(_, parts, inputs, _)| parts.iter().map(|part| part.1).chain([*inputs]));
        if let Some(least) = widths.min().filter(|&least| lora.rank > least) {
            return Err(Error::Config(format!(
                "lora={}: rank is above the {least} rows or columns of the smallest matrix: give at most {least}",
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
                // Each matrix of a fused one gets its own adapter. The merged tensors then equal those of PEFT, which
                // does not fuse.
                for (part, outputs) in parts {
                    let adapter = Adapter {
                        name: layer(i, part),
                        scale: lora.alpha / lora.rank as f64,
                    };
                    let a: Vec<f32> = (0..lora.rank * inputs)
                        .map(|_| rng.random_range(-bound..bound))
                        .collect();
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

    /// Returns the output of the adapters of the fused matrix `name` for the input `x`; `None` without adapters.
    pub(super) fn adapted(&self, x: &Tensor, name: &str) -> Result<Option<Tensor>> {
        let Some(adapters) = self.adapters.get(name) else {
            return Ok(None);
        };
        let parts = adapters.iter().map(|adapter| {
            // The scale is applied to the inner product, which has only `rank` columns.
            let inner = (x.matmul(&self.expect(&adapter.a())?.t()?)? * adapter.scale)?;
            Ok(inner.matmul(&self.expect(&adapter.b())?.t()?)?)
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        Ok(Some(Tensor::cat(&parts, 1)?))
    }

    pub(super) fn is_adapter(&self, name: &str) -> bool {
        let mut all = self.adapters.values().flatten();
        all.any(|adapter| adapter.a() == name || adapter.b() == name)
    }

    /// Returns the sum of each adapted matrix and its adapters.
    pub(super) fn merged(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut out = BTreeMap::new();
        for (name, adapters) in &self.adapters {
            let weight = format!("{name}.weight");
            let parts = adapters.iter().map(|adapter| {
                let (a, b) = (self.expect(&adapter.a())?, self.expect(&adapter.b())?);
                Ok((b.detach().matmul(&a.detach())? * adapter.scale)?)
            });
            // Fused matrices are stacked along their outputs.
            let change = Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0)?;
            out.insert(weight.clone(), (self.expect(&weight)? + change)?);
        }
        Ok(out)
    }
}
