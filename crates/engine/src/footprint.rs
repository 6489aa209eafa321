//! Computes the memory that a model needs before any weight is packed.

use beamgen_kernels::{KvShape, PackedLinear, RopeTable, WidestInputs};

use crate::buffers::Buffers;
use crate::model::Parts;
use crate::{Compute, EngineConfig, Error, ModelConfig, Precision, Weights};

/// The bytes of memory that a model and its engine need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The packed weights; equals [`Model::bytes`](crate::Model::bytes) of the loaded model.
    pub weights: usize,
    /// The keys and values of one token in all layers. [`EngineConfig::kv_bytes`] limits their sum
    /// over all tokens. The processor allocates them page by page, a CUDA device all at once.
    pub kv_per_token: usize,
    /// The engine's other buffers once a sequence has filled the context; equals
    /// [`Engine::buffer_bytes`](crate::Engine::buffer_bytes) at that point. The rows that a call
    /// returns are not included: each row of logits has `4 * vocab_size` bytes.
    pub buffers: usize,
    /// The bytes of the rows that a new engine's first passes return on a CUDA device; 0 on the
    /// processor.
    pub first_rows: usize,
}

impl ModelConfig {
    /// Computes the memory of a decoder whose `weights` are packed with `precision` on `compute`.
    /// Checks the names and shapes of all tensors, but reads no weight.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::Shape`], [`Error::Dtype`] or [`Error::UnexpectedTensor`].
    pub fn footprint(
        &self,
        weights: &Weights,
        precision: impl Into<Precision>,
        engine: &EngineConfig,
        compute: &Compute,
    ) -> Result<Footprint, Error> {
        let precision = precision.into();
        precision.check()?;
        let parts = Parts::new(self, weights);
        parts.check(weights)?;
        #[cfg(feature = "cuda")]
        if let Compute::Cuda(_) = compute {
            return on_device(&parts, self, weights, precision, engine);
        }
        debug_assert!(compute.is_cpu());
        let (mut bytes, mut widest) = (self.norm_bytes(), WidestInputs::default());
        for matrix in parts.matrices(weights) {
            let format = matrix.format(precision, &matrix.views(weights)?);
            // Only multiplication converts activations, and an embedding is only looked up.
            if !matrix.only_looked_up {
                widest.include(format, matrix.inputs);
            }
            let (inputs, outputs) = (matrix.inputs, matrix.outputs());
            bytes += PackedLinear::bytes_for(inputs, outputs, format, matrix.bias);
        }
        let positions = self.max_position_embeddings;
        let page = KvShape {
            layers: self.num_hidden_layers,
            kv_heads: self.num_key_value_heads,
            head_dim: self.head_dim,
            // A page size of 0 must not divide here; the engine refuses it later.
            page_size: engine.page_size.max(1),
        };
        let rope = RopeTable::bytes_for(self.rope.pairs(self.head_dim), positions);
        Ok(Footprint {
            weights: bytes,
            kv_per_token: engine
                .kv_dtype
                .format()
                .page_bytes(page)
                .div_ceil(page.page_size),
            buffers: rope.saturating_add(Buffers::bytes_for(self, widest, engine.max_rows)),
            first_rows: 0,
        })
    }
}

#[cfg(feature = "cuda")]
fn on_device(
    parts: &Parts<'_>,
    c: &ModelConfig,
    weights: &Weights,
    precision: Precision,
    engine: &EngineConfig,
) -> Result<Footprint, Error> {
    use beamgen_kernels::cuda::Number;

    use crate::Engine;
    use crate::model::device::{check, number};
    use crate::runner::CudaRunner;

    check(precision)?;
    CudaRunner::check(engine)?;
    // `matrices` ends with the last layer, whose number type `KvType::Auto` follows.
    let (mut bytes, mut last) = (c.norm_bytes(), Number::F32);
    for matrix in parts.matrices(weights) {
        let number = number(matrix.format(precision, &matrix.views(weights)?));
        let outputs = matrix.outputs();
        bytes +=
            number.bytes() * matrix.inputs * outputs + if matrix.bias { 4 * outputs } else { 0 };
        last = number;
    }
    let kv = engine.kv_dtype.number(last);
    let gives_logits = c.gives_logits(weights);
    let width = if gives_logits {
        c.vocab_size
    } else {
        c.hidden_size
    };
    let first = Engine::FIRST_ROWS.min(c.max_position_embeddings);
    Ok(Footprint {
        weights: bytes,
        kv_per_token: 2 * kv.bytes() * c.num_hidden_layers * c.kv_width(),
        buffers: CudaRunner::bytes_for(c, engine),
        first_rows: 4 * first * width,
    })
}
