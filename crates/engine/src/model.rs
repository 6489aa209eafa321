//! Packed weights.

#[cfg(feature = "cuda")]
pub(crate) mod device;
mod formats;
mod load;
mod parts;

use beamgen_kernels::{PackedLinear, ThreadPool};

use crate::{Checkpoint, Compute, Error, KvType, ModelConfig, WeightType, Weights};
#[cfg(feature = "cuda")]
pub(crate) use device::CudaDecoder;
use load::{Loader, OnCpu};
pub(crate) use parts::Parts;

/// A decoder ready to run: weights packed for what computes it, immutable.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    packed: Packed,
}

/// Weights where they are computed with.
#[derive(Debug)]
pub(crate) enum Packed {
    Cpu(CpuDecoder),
    #[cfg(feature = "cuda")]
    Cuda(CudaDecoder),
}

/// Matrices packed for the processor, vectors as they are.
pub(crate) type CpuDecoder = Decoder<PackedLinear, Vec<f32>>;

/// The weights of a decoder: matrices `M`, norms `V`.
#[derive(Debug)]
pub(crate) struct Decoder<M, V> {
    /// Its outputs are the vocabulary: a row of weights is a token's embedding.
    pub(crate) embedding: M,
    pub(crate) layers: Vec<Layer<M, V>>,
    pub(crate) norm: V,
    head: Head<M>,
}

/// Where the logits come from.
#[derive(Debug)]
pub(crate) enum Head<M> {
    None,
    /// The embedding.
    Tied,
    Own(M),
}

#[derive(Debug)]
pub(crate) struct Layer<M, V> {
    pub(crate) attention_norm: V,
    /// Outputs are queries, keys, values.
    pub(crate) qkv: M,
    /// Norms of a head's queries and of its keys.
    pub(crate) qk_norm: Option<(V, V)>,
    pub(crate) attention_out: M,
    pub(crate) mlp_norm: V,
    /// Outputs are gate, up.
    pub(crate) gate_up: M,
    pub(crate) down: M,
}

impl<M, V> Decoder<M, V> {
    pub(crate) fn head(&self) -> Option<&M> {
        match &self.head {
            Head::None => None,
            Head::Tied => Some(&self.embedding),
            Head::Own(head) => Some(head),
        }
    }

    /// Bytes of the matrices that a pass with logits streams through, and of an embedding that is
    /// not among them, given those of a matrix.
    fn bytes(&self, of: impl Fn(&M) -> usize) -> (usize, usize) {
        let layers = self.layers.iter().flat_map(Layer::matrices);
        let layers: usize = layers.map(&of).sum();
        match &self.head {
            Head::Own(head) => (layers + of(head), of(&self.embedding)),
            Head::None | Head::Tied => (layers + of(&self.embedding), 0),
        }
    }
}

impl ModelConfig {
    /// The configuration and the weights of a checkpoint, agreed on where the logits come from
    /// ([`settle_head`](Self::settle_head)).
    ///
    /// # Errors
    /// One of the two cannot be read, or they contradict each other.
    pub fn load_with_weights(checkpoint: impl Into<Checkpoint>) -> Result<(Self, Weights), Error> {
        let checkpoint = checkpoint.into();
        let mut config = Self::load(checkpoint.clone())?;
        let mut weights = Weights::load(checkpoint)?;
        config.settle_head(&mut weights)?;
        Ok((config, weights))
    }

    /// Does with a configuration that ties head and embedding what `transformers` 5 does: a head of
    /// other values among `weights` is used, a head of equal values is left out, and a head without
    /// an embedding is both.
    ///
    /// # Errors
    /// [`Error::Dtype`]
    pub fn settle_head(&mut self, weights: &mut Weights) -> Result<(), Error> {
        if !self.tie_word_embeddings || !weights.contains(parts::HEAD) {
            return Ok(());
        }
        let embedding = Parts::new(self, weights).vector("embed_tokens");
        if !weights.contains(&embedding) {
            weights.rename(parts::HEAD, &embedding);
        } else if weights.same_values(&embedding, parts::HEAD)? {
            weights.remove(parts::HEAD);
        } else {
            self.tie_word_embeddings = false;
        }
        Ok(())
    }

    /// Whether the decoder among `weights` gives logits, not only hidden states.
    #[must_use]
    pub fn gives_logits(&self, weights: &Weights) -> bool {
        !matches!(Parts::new(self, weights).head(weights), Head::None)
    }
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
        let (config, weights) = ModelConfig::load_with_weights(checkpoint)?;
        Self::from_weights(config, &weights, weight_type)
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

    /// Packs the decoder's tensors among `weights` for the processor, on the threads of `pool`.
    /// Tensors that are not the decoder's (a reward model's head) stay there for the caller.
    ///
    /// # Errors
    /// As [`Model::on`].
    pub fn with_pool(
        config: ModelConfig,
        weights: &Weights,
        weight_type: WeightType,
        pool: &ThreadPool,
    ) -> Result<Self, Error> {
        Self::on(&Compute::Cpu, config, weights, weight_type, pool)
    }

    /// As [`with_pool`](Self::with_pool), for what `compute` is.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::Shape`], [`Error::Dtype`], [`Error::WeightRange`],
    /// [`Error::UnexpectedTensor`] for decoder weights that `config` does not know, or
    /// [`Error::Device`] if they do not fit into its memory.
    pub fn on(
        compute: &Compute,
        config: ModelConfig,
        weights: &Weights,
        weight_type: WeightType,
        pool: &ThreadPool,
    ) -> Result<Self, Error> {
        let parts = Parts::new(&config, weights);
        parts.check(weights)?;
        let loader = Loader {
            weights,
            parts: &parts,
            weight_type,
        };
        let packed = match compute {
            Compute::Cpu => pool
                .run(u64::MAX, |parallel| {
                    loader.decoder(&config, &OnCpu { parallel })
                })
                .map(Packed::Cpu),
            #[cfg(feature = "cuda")]
            Compute::Cuda(device) => device::load(&loader, &config, device, pool).map(Packed::Cuda),
        }?;
        Ok(Self { config, packed })
    }

    /// What computes it.
    #[must_use]
    pub fn compute(&self) -> Compute {
        match &self.packed {
            Packed::Cpu(_) => Compute::Cpu,
            #[cfg(feature = "cuda")]
            Packed::Cuda(decoder) => Compute::Cuda(decoder.norm.device().clone()),
        }
    }

    pub(crate) fn packed(&self) -> &Packed {
        &self.packed
    }

    /// What the model computes.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Whether the model gives logits, not only hidden states.
    #[must_use]
    pub fn has_head(&self) -> bool {
        match &self.packed {
            Packed::Cpu(decoder) => decoder.head().is_some(),
            #[cfg(feature = "cuda")]
            Packed::Cuda(decoder) => decoder.head().is_some(),
        }
    }

    /// Weights of the language-model head for one token, `[hidden]`; `None` without a head or
    /// outside the vocabulary.
    ///
    /// # Errors
    /// [`Error::Device`]
    pub fn head_row(&self, token: u32) -> Result<Option<Vec<f32>>, Error> {
        let token = token as usize;
        if token >= self.config.vocab_size {
            return Ok(None);
        }
        let mut row = vec![0.0; self.config.hidden_size];
        let found = match &self.packed {
            Packed::Cpu(decoder) => decoder.head().map(|head| head.weight_row(token, &mut row)),
            #[cfg(feature = "cuda")]
            Packed::Cuda(decoder) => {
                let read = decoder.head().map(|head| head.weight_row(token, &mut row));
                read.transpose()?
            }
        };
        Ok(found.map(|()| row))
    }

    /// The bytes of the matrices by [`Decoder::bytes`].
    fn matrix_bytes(&self) -> (usize, usize) {
        match &self.packed {
            Packed::Cpu(decoder) => decoder.bytes(PackedLinear::bytes),
            #[cfg(feature = "cuda")]
            Packed::Cuda(decoder) => decoder.bytes(device::DeviceLinear::bytes),
        }
    }

    /// Bytes of the packed weights.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.streamed_bytes() + self.matrix_bytes().1
    }

    /// Bytes of keys and values of a token, kept as `kv_dtype` says where the model is.
    #[must_use]
    pub fn kv_bytes(&self, kv_dtype: KvType) -> usize {
        let c = &self.config;
        let bytes = match &self.packed {
            Packed::Cpu(_) => kv_dtype.format().number_bytes(),
            #[cfg(feature = "cuda")]
            Packed::Cuda(decoder) => kv_dtype.number(decoder.number()).bytes(),
        };
        2 * bytes * c.num_hidden_layers * c.kv_width()
    }

    /// Bytes of weights that a pass with logits streams through: all but a separate embedding, of
    /// which it reads a row a token.
    #[must_use]
    pub fn streamed_bytes(&self) -> usize {
        self.matrix_bytes().0 + self.config.norm_bytes()
    }

    /// Floating-point operations of one row with logits that attends to `context` tokens; a
    /// multiply-add is two.
    #[must_use]
    pub fn row_flops(&self, context: usize) -> u64 {
        let c = &self.config;
        let attention = 4 * context * c.num_hidden_layers * c.q_width();
        let head = if self.has_head() {
            c.vocab_size * c.hidden_size
        } else {
            0
        };
        self.row_work() + (2 * head + attention) as u64
    }

    /// Floating-point operations of one row through the layers, without attention to others.
    pub(crate) fn row_work(&self) -> u64 {
        let c = &self.config;
        let attention = c.hidden_size * (c.qkv_width() + c.q_width());
        let layer = attention + 3 * c.hidden_size * c.intermediate_size;
        2 * (c.num_hidden_layers * layer) as u64
    }
}

impl CpuDecoder {
    /// Writes the embedding of each token to a row of `out: [tokens, hidden]`.
    pub(crate) fn embed(&self, tokens: &[u32], out: &mut [f32]) {
        let rows = out.chunks_exact_mut(self.norm.len());
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
}

impl<M, V> Layer<M, V> {
    pub(crate) fn matrices(&self) -> [&M; 4] {
        [&self.qkv, &self.attention_out, &self.gate_up, &self.down]
    }
}
