//! Packed weights.

mod footprint;
mod load;
mod parts;
mod weight_type;

use beamgen_kernels::{PackedLinear, Parallel};

use crate::{Checkpoint, Error, ModelConfig, ThreadPool, Weights};
pub use footprint::Footprint;
use load::Loader;
use parts::{HeadParts, Parts};
pub use weight_type::WeightType;

/// A decoder ready to run: weights packed for this machine, immutable.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    /// Its outputs are the vocabulary: a row of weights is a token's embedding.
    embedding: PackedLinear,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Vec<f32>,
    head: Head,
}

#[derive(Debug)]
enum Head {
    None,
    /// The embedding.
    Tied,
    Own(PackedLinear),
}

#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    /// Outputs are queries, keys, values.
    pub(crate) qkv: PackedLinear,
    /// Norms of a head's queries and of its keys.
    pub(crate) qk_norm: Option<(Vec<f32>, Vec<f32>)>,
    pub(crate) attention_out: PackedLinear,
    pub(crate) mlp_norm: Vec<f32>,
    /// Outputs are gate, up.
    pub(crate) gate_up: PackedLinear,
    pub(crate) down: PackedLinear,
}

impl Model {
    /// Loads a Hugging Face checkpoint with its weights as they are ([`WeightType::Auto`]), on
    /// threads of its own.
    ///
    /// # Errors
    /// As [`Model::load_as`].
    pub fn load(checkpoint: impl Into<Checkpoint>) -> Result<Self, Error> {
        Self::load_as(checkpoint, WeightType::Auto)
    }

    /// Loads a Hugging Face checkpoint (a directory, or files in memory): `config.json` and
    /// safetensors in float32, float16 or bfloat16; on threads of its own.
    ///
    /// # Errors
    /// Says which file, field or tensor is missing, corrupt or not supported.
    pub fn load_as(
        checkpoint: impl Into<Checkpoint>,
        weight_type: WeightType,
    ) -> Result<Self, Error> {
        let checkpoint = checkpoint.into();
        Self::from_weights(
            ModelConfig::load(checkpoint.clone())?,
            &Weights::load(checkpoint)?,
            weight_type,
        )
    }

    /// [`Model::with_pool`] on threads of its own.
    ///
    /// # Errors
    /// As there.
    pub fn from_weights(
        config: ModelConfig,
        weights: &Weights,
        weight_type: WeightType,
    ) -> Result<Self, Error> {
        Self::with_pool(config, weights, weight_type, &ThreadPool::new(0))
    }

    /// Packs the decoder's tensors among `weights`, on the threads of `pool`. Tensors that are not the decoder's (a reward
    /// model's head) stay there for the caller.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::Shape`], [`Error::Dtype`], [`Error::WeightRange`], or
    /// [`Error::UnexpectedTensor`] for decoder weights that `config` does not know.
    pub fn with_pool(
        config: ModelConfig,
        weights: &Weights,
        weight_type: WeightType,
        pool: &ThreadPool,
    ) -> Result<Self, Error> {
        pool.run(u64::MAX, |parallel| {
            Self::packed(config, weights, weight_type, parallel)
        })
    }

    fn packed(
        config: ModelConfig,
        weights: &Weights,
        weight_type: WeightType,
        parallel: Parallel<'_>,
    ) -> Result<Self, Error> {
        let c = &config;
        let parts = Parts::new(c, weights);
        parts.check(weights)?;
        let loader = Loader {
            weights,
            parts: &parts,
            weight_type,
            parallel,
        };
        // The largest first, while nothing else is in memory.
        let embedding = loader.matrix(&parts.embedding())?;
        let head = match parts.head(weights) {
            HeadParts::None => Head::None,
            HeadParts::Tied => Head::Tied,
            HeadParts::Own(matrix) => Head::Own(loader.matrix(&matrix)?),
        };
        let layers = (0..c.num_hidden_layers)
            .map(|i| loader.layer(c, i))
            .collect::<Result<Vec<_>, _>>()?;
        let norm = loader.vector(parts.vector("norm"), c.hidden_size)?;
        Ok(Self {
            config,
            embedding,
            layers,
            norm,
            head,
        })
    }

    /// What the model computes.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Whether the model gives logits, not only hidden states.
    #[must_use]
    pub fn has_head(&self) -> bool {
        self.head().is_some()
    }

    /// Weights of the language-model head for one token, `[hidden]`; `None` without a head or
    /// outside the vocabulary.
    #[must_use]
    pub fn head_row(&self, token: u32) -> Option<Vec<f32>> {
        let (head, token) = (self.head()?, token as usize);
        (token < self.config.vocab_size).then(|| {
            let mut row = vec![0.0; self.config.hidden_size];
            head.weight_row(token, &mut row);
            row
        })
    }

    /// Bytes of the packed weights.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let layers: usize = self.layers.iter().map(Layer::bytes).sum();
        let head = match &self.head {
            Head::Own(head) => head.bytes(),
            Head::None | Head::Tied => 0,
        };
        layers + self.embedding.bytes() + 4 * self.norm.len() + head
    }

    /// Bytes of weights that a pass with logits streams through: all but a separate embedding, of
    /// which it reads a row a token.
    #[must_use]
    pub fn streamed_bytes(&self) -> usize {
        match &self.head {
            Head::Own(_) => self.bytes() - self.embedding.bytes(),
            Head::None | Head::Tied => self.bytes(),
        }
    }

    /// Floating-point operations of one row with logits that attends to `context` tokens; a
    /// multiply-add is two.
    #[must_use]
    pub fn row_flops(&self, context: usize) -> u64 {
        let c = &self.config;
        let head = self
            .head()
            .map_or(0, |head| 2 * head.inputs() * head.outputs());
        let attention = 4 * context * c.num_hidden_layers * c.q_width();
        self.row_work() + (head + attention) as u64
    }

    pub(crate) fn head(&self) -> Option<&PackedLinear> {
        match &self.head {
            Head::None => None,
            Head::Tied => Some(&self.embedding),
            Head::Own(head) => Some(head),
        }
    }

    /// Writes the embedding of each token to a row of `out: [tokens, hidden]`.
    pub(crate) fn embed(&self, tokens: &[u32], out: &mut [f32]) {
        let rows = out.chunks_exact_mut(self.config.hidden_size);
        for (token, row) in tokens.iter().zip(rows) {
            self.embedding.weight_row(*token as usize, row);
        }
    }

    /// Most inputs of a matrix that quantises them; 0 without any.
    pub(crate) fn int8_inputs(&self) -> usize {
        let matrices = self.layers.iter().flat_map(Layer::matrices);
        matrices
            .chain(self.head())
            .filter(|m| m.format().is_blocks())
            .map(PackedLinear::inputs)
            .max()
            .unwrap_or(0)
    }

    /// Floating-point operations of one row through the layers, without attention to others.
    pub(crate) fn row_work(&self) -> u64 {
        let weights: usize = self
            .layers
            .iter()
            .flat_map(Layer::matrices)
            .map(|l| l.inputs() * l.outputs())
            .sum();
        2 * weights as u64
    }
}

impl Layer {
    fn matrices(&self) -> [&PackedLinear; 4] {
        [&self.qkv, &self.attention_out, &self.gate_up, &self.down]
    }

    fn bytes(&self) -> usize {
        let matrices: usize = self.matrices().iter().map(|m| m.bytes()).sum();
        let head_norms = self.qk_norm.as_ref().map_or(0, |(q, k)| q.len() + k.len());
        matrices + 4 * (self.attention_norm.len() + self.mlp_norm.len() + head_norms)
    }
}
