//! A model: its configuration, and its weights packed for a device.

#[cfg(feature = "cuda")]
pub(crate) mod device;
mod formats;
mod load;
mod parts;

use beamgen_kernels::{PackedLinear, ThreadPool, WidestInputs};

use crate::{Checkpoint, Compute, Error, KvType, ModelConfig, Precision, WeightType, Weights};
#[cfg(feature = "cuda")]
pub(crate) use device::CudaDecoder;
use load::{Loader, OnCpu};
pub(crate) use parts::Parts;

/// A decoder that is ready to run. Its weights are packed for one device and never change.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    packed: Packed,
}

#[derive(Debug)]
pub(crate) enum Packed {
    Cpu(CpuDecoder),
    #[cfg(feature = "cuda")]
    Cuda(CudaDecoder),
}

/// A decoder on the processor, with packed matrices and float32 vectors.
pub(crate) type CpuDecoder = Decoder<PackedLinear, Vec<f32>>;

/// The weights of a decoder: matrices `M`, norms `V`.
#[derive(Debug)]
pub(crate) struct Decoder<M, V> {
    /// The token embedding. Its outputs are the vocabulary: row `t` belongs to token `t`.
    pub(crate) embedding: M,
    pub(crate) layers: Vec<Layer<M, V>>,
    pub(crate) norm: V,
    head: Head<M>,
}

/// The source of logits. A reward model may have none.
#[derive(Debug)]
pub(crate) enum Head<M> {
    None,
    /// The head's weights are the embedding's.
    Tied,
    Own(M),
}

#[derive(Debug)]
pub(crate) struct Layer<M, V> {
    pub(crate) attention_norm: V,
    /// The projection to queries, keys and values, in this order.
    pub(crate) qkv: M,
    /// The norms of queries and of keys, per head.
    pub(crate) qk_norm: Option<(V, V)>,
    pub(crate) attention_out: M,
    pub(crate) mlp_norm: V,
    /// The projection to gate and up, in this order.
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

    /// Adds up the bytes of matrices, measured by `bytes_of`. The first sum has the matrices that a
    /// pass with logits reads as a whole. The second sum has a separate embedding, of which a pass
    /// reads one row per token.
    fn bytes(&self, bytes_of: impl Fn(&M) -> usize) -> (usize, usize) {
        let layers = self.layers.iter().flat_map(Layer::matrices);
        let layers: usize = layers.map(&bytes_of).sum();
        match &self.head {
            Head::Own(head) => (layers + bytes_of(head), bytes_of(&self.embedding)),
            Head::None | Head::Tied => (layers + bytes_of(&self.embedding), 0),
        }
    }
}

impl ModelConfig {
    /// Loads the configuration and the weights of a checkpoint, and calls
    /// [`settle_head`](Self::settle_head).
    ///
    /// # Errors
    /// [`Error`] if a file cannot be read, or configuration and weights contradict each other.
    pub fn load_with_weights(checkpoint: impl Into<Checkpoint>) -> Result<(Self, Weights), Error> {
        let checkpoint = checkpoint.into();
        let mut config = Self::load(checkpoint.clone())?;
        let mut weights = Weights::load(checkpoint)?;
        config.settle_head(&mut weights)?;
        Ok((config, weights))
    }

    /// Decides whether head and embedding are tied, like `transformers` 5 does. Only a
    /// configuration that ties them is changed: a head in `weights` with other values makes it
    /// untied, a head with equal values is dropped, and a head without an embedding is renamed to
    /// the embedding.
    ///
    /// # Errors
    /// [`Error::Dtype`]
    pub fn settle_head(&mut self, weights: &mut Weights) -> Result<(), Error> {
        // An untied head is loaded in any case. A tied head without a tensor of its own needs
        // nothing.
        if !self.tie_word_embeddings || !weights.contains(parts::HEAD) {
            return Ok(());
        }
        let embedding = Parts::new(self, weights).vector("embed_tokens");
        if !weights.contains(&embedding) {
            // Some files store the shared matrix only under the head's name.
            weights.rename(parts::HEAD, &embedding);
        // An equal copy would only take memory, and be refused as an unexpected tensor.
        } else if weights.same_values(&embedding, parts::HEAD)? {
            weights.remove(parts::HEAD);
        } else {
            self.tie_word_embeddings = false;
        }
        Ok(())
    }

    /// Whether the decoder in `weights` can compute logits. Reward models often give only hidden
    /// states.
    #[must_use]
    pub fn gives_logits(&self, weights: &Weights) -> bool {
        !matches!(Parts::new(self, weights).head(weights), Head::None)
    }
}

impl Model {
    /// Loads a Hugging Face checkpoint on the processor. Weights keep their own type
    /// ([`WeightType::Auto`]). A temporary pool of threads packs them.
    ///
    /// # Errors
    /// The errors of [`Model::load_as`].
    pub fn load(checkpoint: impl Into<Checkpoint>) -> Result<Self, Error> {
        Self::load_as(checkpoint, WeightType::Auto)
    }

    /// Loads a checkpoint (a directory, a GGUF file, or files in memory) on the processor, with
    /// matrices of these number types. A temporary pool of threads packs them.
    ///
    /// # Errors
    /// [`Error`], which names the file, field or tensor that is missing, corrupt or unsupported.
    pub fn load_as(
        checkpoint: impl Into<Checkpoint>,
        precision: impl Into<Precision>,
    ) -> Result<Self, Error> {
        let (config, weights) = ModelConfig::load_with_weights(checkpoint)?;
        Self::from_weights(config, &weights, precision)
    }

    /// Packs weights like [`Model::with_pool`], on a temporary pool of threads.
    ///
    /// # Errors
    /// The errors of [`Model::with_pool`].
    pub fn from_weights(
        config: ModelConfig,
        weights: &Weights,
        precision: impl Into<Precision>,
    ) -> Result<Self, Error> {
        Self::with_pool(config, weights, precision, &ThreadPool::new(0))
    }

    /// Packs the decoder's tensors in `weights` for the processor, on the threads of `pool`. Other
    /// tensors (such as a reward model's head) are ignored.
    ///
    /// # Errors
    /// The errors of [`Model::on`].
    pub fn with_pool(
        config: ModelConfig,
        weights: &Weights,
        precision: impl Into<Precision>,
        pool: &ThreadPool,
    ) -> Result<Self, Error> {
        Self::on(&Compute::Cpu, config, weights, precision, pool)
    }

    /// Packs the decoder's tensors in `weights` for the device `compute`. Tensors that do not
    /// belong to the decoder are ignored.
    ///
    /// # Errors
    /// [`Error::Setting`] for types that contradict each other, [`Error::MissingTensor`],
    /// [`Error::Shape`], [`Error::Dtype`], [`Error::WeightRange`],
    /// [`Error::UnexpectedTensor`] for decoder weights that `config` does not mention, or
    /// [`Error::Device`] if the weights do not fit in the device's memory.
    pub fn on(
        compute: &Compute,
        config: ModelConfig,
        weights: &Weights,
        precision: impl Into<Precision>,
        pool: &ThreadPool,
    ) -> Result<Self, Error> {
        let precision = precision.into();
        precision.check()?;
        let parts = Parts::new(&config, weights);
        parts.check(weights)?;
        let loader = Loader {
            weights,
            parts: &parts,
            precision,
        };
        let packed = match compute {
            Compute::Cpu => pool
                // Packing is always worth all threads, so the estimated work is the largest number.
                .run(u64::MAX, |parallel| {
                    loader.decoder(&config, &OnCpu { parallel })
                })
                .map(Packed::Cpu),
            #[cfg(feature = "cuda")]
            Compute::Cuda(device) => device::load(&loader, &config, device, pool).map(Packed::Cuda),
        }?;
        Ok(Self { config, packed })
    }

    /// The device of the weights, on which every engine of this model computes.
    #[must_use]
    pub fn compute(&self) -> Compute {
        match &self.packed {
            Packed::Cpu(_) => Compute::Cpu,
            #[cfg(feature = "cuda")]
            // Every buffer knows its device, and every model has this norm.
            Packed::Cuda(decoder) => Compute::Cuda(decoder.norm.device().clone()),
        }
    }

    pub(crate) fn packed(&self) -> &Packed {
        &self.packed
    }

    /// The model's configuration. `tie_word_embeddings` is false if the head has weights of its
    /// own.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Whether the model can compute logits, and not only hidden states.
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

    /// The bytes of matrices: those that a pass reads as a whole, and a separate embedding.
    fn matrix_bytes(&self) -> (usize, usize) {
        match &self.packed {
            Packed::Cpu(decoder) => decoder.bytes(PackedLinear::bytes),
            #[cfg(feature = "cuda")]
            Packed::Cuda(decoder) => decoder.bytes(device::DeviceLinear::bytes),
        }
    }

    /// The bytes of the packed weights in the memory of their device.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.streamed_bytes() + self.matrix_bytes().1
    }

    /// The bytes of one token's keys and values in all layers, if they are stored as `kv_dtype`.
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

    /// The bytes of weights that a pass with logits reads: all weights, except a separate
    /// embedding, of which a pass reads only one row per token.
    #[must_use]
    pub fn streamed_bytes(&self) -> usize {
        self.matrix_bytes().0 + self.config.norm_bytes()
    }

    /// The floating-point operations of reading `tokens` tokens after `before` others, and of
    /// computing the logits of `logits` of them: 2 for each weight of a matrix, and 4 for each
    /// value of a query, each layer and each position that attention reads. A multiply-add counts
    /// as two. Norms and embeddings are left out.
    #[must_use]
    pub fn flops(&self, before: usize, tokens: usize, logits: usize) -> u64 {
        let c = &self.config;
        let projections = c.hidden_size * (c.qkv_width() + c.q_width());
        // The feed-forward block has three matrices: gate, up and down.
        let layer = projections + 3 * c.hidden_size * c.intermediate_size;
        let head = if self.has_head() {
            c.vocab_size * c.hidden_size
        } else {
            0
        };
        let products = tokens * c.num_hidden_layers * layer + logits * head;
        let positions = (0..c.num_hidden_layers)
            .map(|layer| positions(before, tokens, c.window(layer)))
            .sum::<u64>();
        // Attention has two multiply-adds for each value of a query and each position: one for the
        // score, one for the weighted sum.
        2 * products as u64 + 4 * c.q_width() as u64 * positions
    }
}

/// Returns the number of positions that `tokens` rows after `before` others attend to, each row to
/// at most `window`.
fn positions(before: usize, tokens: usize, window: Option<usize>) -> u64 {
    let window = window.unwrap_or(usize::MAX);
    // The first rows attend to before + 1, before + 2, ... positions; the others to the window.
    let growing = window.saturating_sub(before).min(tokens) as u64;
    let full = tokens as u64 - growing;
    growing * before as u64 + growing * (growing + 1) / 2 + full * window as u64
}

impl CpuDecoder {
    /// Writes the embedding of each token to a row of `out: [tokens, hidden]`.
    pub(crate) fn embed(&self, tokens: &[u32], out: &mut [f32]) {
        let rows = out.chunks_exact_mut(self.norm.len());
        for (token, row) in tokens.iter().zip(rows) {
            self.embedding.weight_row(*token as usize, row);
        }
    }

    /// The most inputs of the matrices that convert their inputs.
    pub(crate) fn widest_inputs(&self) -> WidestInputs {
        let mut widest = WidestInputs::default();
        for matrix in self
            .layers
            .iter()
            .flat_map(Layer::matrices)
            .chain(self.head())
        {
            widest.include(matrix.format(), matrix.inputs());
        }
        widest
    }
}

impl<M, V> Layer<M, V> {
    pub(crate) fn matrices(&self) -> [&M; 4] {
        [&self.qkv, &self.attention_out, &self.gate_up, &self.down]
    }
}
