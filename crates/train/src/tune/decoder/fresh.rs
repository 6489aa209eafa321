//! Decoders with random weights, and copies of decoders with more layers.

use std::sync::Arc;

use beamgen_engine::ModelConfig;
use candle_core::{DType, Device, Tensor};
use rand::Rng;

use super::{Decoder, EMBEDDING, NORM, layer, matrices};
use crate::Result;

/// The standard deviation of random weights, the default `initializer_range` of `transformers`.
const DEVIATION: f32 = 0.02;

impl Decoder {
    /// Makes a Llama with random normal weights of deviation 0.02, smaller by `sqrt(2 * layers)` for output
    /// projections. The head is tied to the embedding, and projections have no biases.
    ///
    /// # Errors
    /// A tensor cannot be created.
    pub fn fresh(config: ModelConfig, rng: &mut impl Rng, device: &Device) -> Result<Self> {
        let (vocab, hidden) = (config.vocab_size, config.hidden_size);
        let layers = config.num_hidden_layers;
        let mut decoder = Self::without_layers(config, device);
        decoder.put_normal(EMBEDDING.into(), (vocab, hidden), DEVIATION, rng)?;
        for i in 0..layers {
            decoder.put_layer(i, DEVIATION / (2.0 * layers as f32).sqrt(), rng)?;
        }
        decoder.put_ones(NORM.into())?;
        Ok(decoder)
    }

    /// Returns a copy with `extra` more layers at the top. The output projections of these layers are zero, so the
    /// copy computes the same function until it is trained.
    ///
    /// # Errors
    /// A tensor cannot be copied or created.
    pub fn deeper(&self, extra: usize, rng: &mut impl Rng) -> Result<Self> {
        let layers = self.config.num_hidden_layers;
        let config = ModelConfig {
            num_hidden_layers: layers + extra,
            ..self.config.clone()
        };
        let mut decoder = Self::without_layers(config, &self.device);
        for (name, var) in &self.vars {
            decoder.put(name.clone(), &var.as_tensor().copy()?)?;
        }
        for i in layers..layers + extra {
            decoder.put_layer(i, 0.0, rng)?;
        }
        Ok(decoder)
    }

    fn without_layers(config: ModelConfig, device: &Device) -> Self {
        // Angles are f32, unlike in `load`. The bundled models were trained with f32 angles, and other rounding would
        // change their bytes.
        let (pairs, theta) = (config.head_dim / 2, config.rope.theta as f32);
        let angles = (0..config.max_position_embeddings * pairs).map(|i| {
            let (position, pair) = (i / pairs, i % pairs);
            position as f32 / theta.powf(pair as f32 / pairs as f32)
        });
        let table = |f: fn(f32) -> f32| Arc::new(angles.clone().map(f).collect());
        let (cos, sin) = (table(f32::cos), table(f32::sin));
        Self::empty(config, 0, (cos, sin), device)
    }

    fn put_layer(&mut self, i: usize, output_deviation: f32, rng: &mut impl Rng) -> Result<()> {
        // Matrices take their values from `rng` one after the other, so their order decides the weights.
        for (name, parts, inputs, _) in matrices(&self.config) {
            // Output projections add to the residual stream, whose variance would grow with the depth.
            let deviation = match name {
                "self_attn.o_proj" | "mlp.down_proj" => output_deviation,
                _ => DEVIATION,
            };
            let name = layer(i, &format!("{name}.weight"));
            let outputs = parts.iter().map(|(_, outputs)| outputs).sum();
            self.put_normal(name, (outputs, inputs), deviation, rng)?;
        }
        self.put_ones(layer(i, "input_layernorm.weight"))?;
        self.put_ones(layer(i, "post_attention_layernorm.weight"))
    }

    fn put_normal(
        &mut self,
        name: String,
        shape: (usize, usize),
        deviation: f32,
        rng: &mut impl Rng,
    ) -> Result<()> {
        let values: Vec<f32> = (0..shape.0 * shape.1)
            .map(|_| normal(rng) * deviation)
            .collect();
        self.put(name, &Tensor::from_vec(values, shape, &self.device)?)
    }

    fn put_ones(&mut self, name: String) -> Result<()> {
        let ones = Tensor::ones(self.config.hidden_size, DType::F32, &self.device)?;
        self.put(name, &ones)
    }
}

/// Returns a sample of the standard normal distribution, by the Box-Muller transform.
pub(crate) fn normal(rng: &mut impl Rng) -> f32 {
    // 0 is excluded because its logarithm is infinite.
    let u: f32 = rng.random_range(f32::MIN_POSITIVE..1.0);
    let v: f32 = rng.random_range(0.0..std::f32::consts::TAU);
    (-2.0 * u.ln()).sqrt() * v.cos()
}
